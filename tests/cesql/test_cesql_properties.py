"""What holds for every expression and every event."""

from __future__ import annotations

from typing import Any

import pytest
from gateway_cesql import ParseError, compile
from gateway_cesql.functions import BUILT_IN
from gateway_cesql.parser import MAX_DEPTH, parse
from gateway_cesql.tree import (
    COMPARISON,
    LOGIC,
    Attribute,
    Binary,
    Call,
    Exists,
    In,
    Like,
    Literal,
    Logic,
    Negate,
    Node,
    Not,
    text,
)
from hypothesis import example, given
from hypothesis import strategies as st

from gateway_core.contract.event import Event, text_of
from gateway_core.contract.interfaces import Filter
from tests.budget import examples

few = examples(150)

# few names and values, so that expressions meet the attributes and the values that events have
NAMES = st.sampled_from(["type", "subject", "count", "a1"])
TEXTS = st.sampled_from(
    ["", "a", "ab", "abc", "A", "5", "05", "+5", "-0", "true", "TRUE", "it's", '"', "a%_", "\\%", "ü"]
)
INTEGERS = st.integers(-(2**31), 2**31 - 1) | st.integers(-6, 6)
LITERALS = st.builds(Literal, TEXTS | INTEGERS | st.booleans())
PATTERNS = st.lists(st.sampled_from(["a", "b", "5", "%", "_", "\\%", "\\_", "'"]), max_size=4).map("".join)


def _grown(nodes: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    several = st.lists(nodes, min_size=1, max_size=3).map(tuple)
    arithmetic = [o for o in ("+", "-", "*", "/", "%", *COMPARISON) if o != "<>"]
    return st.one_of(
        st.builds(Not, nodes),
        st.builds(Negate, nodes),
        st.builds(Binary, st.sampled_from(arithmetic), nodes, nodes),
        st.builds(Logic, nodes, st.lists(st.tuples(st.sampled_from(LOGIC), nodes), min_size=1, max_size=3).map(tuple)),
        st.builds(Like, nodes, PATTERNS, st.booleans()),
        st.builds(In, nodes, several, st.booleans()),
        st.builds(Call, st.sampled_from([f.name for f in BUILT_IN] + ["NO_SUCH"]), several | st.just(())),
    )


LEAVES: st.SearchStrategy[Node] = st.one_of(LITERALS, st.builds(Attribute, NAMES), st.builds(Exists, NAMES))
TREES = st.recursive(LEAVES, _grown, max_leaves=12)

# the forms that give hints, so that most examples match something
CONDITIONS: st.SearchStrategy[Node] = st.one_of(
    st.builds(Binary, st.just("="), st.builds(Attribute, NAMES), LITERALS),
    st.builds(Like, st.builds(Attribute, NAMES), PATTERNS, st.booleans()),
    st.builds(In, st.builds(Attribute, NAMES), st.lists(LITERALS, min_size=1, max_size=3).map(tuple), st.booleans()),
)
FILTERS = st.recursive(
    CONDITIONS,
    lambda nodes: st.builds(
        Logic, nodes, st.lists(st.tuples(st.sampled_from(LOGIC), nodes), min_size=1, max_size=3).map(tuple)
    ),
    max_leaves=5,
)

PLAIN: st.SearchStrategy[Any] = TEXTS | st.integers(-6, 6) | st.booleans()
EVENTS = st.dictionaries(NAMES, PLAIN, max_size=4).map(Event)
ODD: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
ODD_EVENTS = st.dictionaries(NAMES, ODD, max_size=4).map(Event)


@pytest.mark.slow
@few
@given(TREES)
def test_a_printed_tree_parses_into_itself(tree: Node) -> None:
    assert parse(text(tree)) == tree


@pytest.mark.slow
@few
@given(TREES, ODD_EVENTS)
def test_evaluation_gives_a_value_on_any_event(tree: Node, event: Event) -> None:
    expression = compile(text(tree))
    value, errors = expression.evaluate(event)
    assert type(value) in (str, int, bool)
    assert len(errors) <= 1
    if type(value) is int:
        assert -(2**31) <= value < 2**31
    assert expression.filter().matches(event) is (value is True and not errors)


@pytest.mark.slow
@few
@given(TREES | FILTERS, EVENTS)
def test_a_filter_matches_exactly_what_evaluates_to_true(tree: Node, event: Event) -> None:
    expression = compile(text(tree))
    value, errors = expression.evaluate(event)
    assert expression.filter().matches(event) is (value is True and not errors)


@pytest.mark.slow
@examples(400)
@given(FILTERS, EVENTS)
def test_hints_hold_for_every_event_that_matches(tree: Node, event: Event) -> None:
    filter = compile(text(tree)).filter()
    if filter.matches(event):
        assert _hints_hold(filter, event)


def _hints_hold(filter: Filter, event: Event) -> bool:
    def shown(name: str) -> str | None:
        value = event.attributes.get(name)
        return None if value is None else text_of(value)

    return (
        all(shown(name) == value for name, value in filter.exact)
        and all((shown(name) or "").startswith(value) and name in event.attributes for name, value in filter.prefix)
        and (not filter.alternatives or any(_hints_hold(f, event) for f in filter.alternatives))
    )


@few
@given(st.text(alphabet="ab1'\"\\()=<>!+-*/%, _\n$ORANDNTLIKEXS", max_size=40) | st.text(max_size=20))
@example("a = - 1")
@example("'\\\\' = \"'\\\"\"")
@example("a LIKE")
def test_any_text_parses_or_says_where_it_does_not(source: str) -> None:
    position = 1
    try:
        tree = parse(source)
    except ParseError as e:
        position = e.position
    else:
        source = text(tree)
        assert parse(source) == tree
    assert 1 <= position <= len(source) + 1


@few
@given(PATTERNS, st.text(alphabet="ab5%_'\n", max_size=6))
def test_like_agrees_with_its_definition(pattern: str, value: str) -> None:
    expected = _like(value, _pieces(pattern))
    assert compile(text(Like(Attribute("a1"), pattern))).evaluate(Event({"a1": value})) == (expected, [])


def _pieces(pattern: str) -> list[tuple[str, bool]]:
    """Characters of a pattern, and whether each is a wildcard."""
    if not pattern:
        return []
    if pattern[:2] in ("\\%", "\\_"):
        return [(pattern[1], False), *_pieces(pattern[2:])]
    return [(pattern[0], pattern[0] in "%_"), *_pieces(pattern[1:])]


def _like(value: str, pieces: list[tuple[str, bool]]) -> bool:
    if not pieces:
        return not value
    (character, wild), *rest = pieces
    if wild and character == "%":
        return any(_like(value[i:], rest) for i in range(len(value) + 1))
    return bool(value) and (wild or value[0] == character) and _like(value[1:], rest)


@few
@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_division_and_remainder_agree(x: int, y: int) -> None:
    event = Event({"x": x, "y": y})
    quotient, failed = compile("x / y").evaluate(event)
    remainder, _ = compile("x % y").evaluate(event)
    if not failed:
        assert isinstance(quotient, int)
        assert isinstance(remainder, int)
        assert quotient * y + remainder == x
        assert abs(remainder) < abs(y)
        assert remainder == 0 or (remainder < 0) == (x < 0)


DEEP = {
    "parentheses": "(" * 5000 + "1" + ")" * 5000,
    "NOT": "NOT " * 5000 + "TRUE",
    "minus": "-" * 5000 + "id",
    "calls": "TRIM(" * 5000 + "id" + ")" * 5000,
    "sums": "1" + " + 1" * 5000,
    "comparisons": "1" + " = 1" * 5000,
    "lists": "1 IN (" * 5000 + "1" + ")" * 5000,
    "patterns": "id" + " LIKE 'a'" * 5000,
    "sums within sums": "(" * 60 + "1" + (" + 1" * 60 + ")") * 60,
    "logic within logic": "(" * 5000 + "id" + " AND id)" * 5000,
}


@pytest.mark.parametrize("source", DEEP.values(), ids=DEEP)
def test_deep_nesting_is_refused_with_the_limit(source: str) -> None:
    with pytest.raises(ParseError, match=f"nested deeper than {MAX_DEPTH} levels"):
        compile(source)


def test_the_deepest_that_is_allowed_works() -> None:
    for source in ("NOT " * (MAX_DEPTH - 1) + "TRUE", "1" + " + 1" * (MAX_DEPTH - 1), "(" * 63 + "TRUE" + ")" * 63):
        expression = compile(source)
        assert expression.evaluate(Event({}))[1] == []
        assert parse(str(expression)) == expression.tree


@pytest.mark.slow
def test_a_long_chain_is_no_deep_nesting() -> None:
    source = " OR ".join(f"type = 't{i}'" for i in range(2000))
    filter = compile(source).filter()
    assert len(filter.alternatives) == 2000
    assert filter.matches(Event({"type": "t1999"}))
    assert not filter.matches(Event({"type": "t2000"}))


def test_an_expression_without_end_is_refused() -> None:
    with pytest.raises(ParseError, match="at most 65536"):
        compile(" " * 65_537)
