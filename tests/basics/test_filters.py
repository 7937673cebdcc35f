"""Filters (CloudEvents Subscriptions API dialects) and what a trigger's `filter:` means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gateway_basics.plugin
import pytest
from gateway_testing import FakeClock
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gateway_core.config.registry import Registry
from gateway_core.contract.component import BuildContext, FilterRef
from gateway_core.contract.errors import StartError
from gateway_core.contract.event import Event
from gateway_core.contract.filters import all_of, attributes_filter, indexable, match_all
from gateway_core.contract.interfaces import Filter

EVENT = Event(
    {
        "specversion": "1.0",
        "id": "1",
        "source": "/airports/JFK",
        "type": "com.example.late",
        "n": 5,
        "b": True,
        "e": "",
    },
    b"{}",
)
TYPE = {"exact": {"type": "com.example.late"}}
OTHER = {"exact": {"type": "com.example.early"}}


def context() -> BuildContext:
    registry = Registry()
    registry.add("basics", gateway_basics.plugin)
    return BuildContext("triggers.late.filters", Path(), FakeClock(), registry)


def build(config: Any) -> Filter:
    ref = FilterRef.parse(config)
    built: Filter = context().build(ref)
    return built


CASES: dict[str, tuple[Any, bool]] = {
    "exact": (TYPE, True),
    "exact differs": (OTHER, False),
    "exact is case-sensitive": ({"exact": {"type": "com.example.Late"}}, False),
    "exact two": ({"exact": {"type": "com.example.late", "id": "1"}}, True),
    "exact one of two": ({"exact": {"type": "com.example.late", "id": "2"}}, False),
    "exact three": ({"exact": {"type": "com.example.late", "id": "1", "source": "/airports/LGA"}}, False),
    "exact missing": ({"exact": {"subject": "x"}}, False),
    "exact integer": ({"exact": {"n": "5"}}, True),
    "exact boolean": ({"exact": {"b": "true"}}, True),
    "exact version": ({"exact": {"specversion": "1.0"}}, True),
    "prefix": ({"prefix": {"type": "com.example."}}, True),
    "prefix whole": ({"prefix": {"type": "com.example.late"}}, True),
    "prefix longer": ({"prefix": {"type": "com.example.late."}}, False),
    "prefix inside": ({"prefix": {"type": "example"}}, False),
    "prefix missing": ({"prefix": {"subject": "x"}}, False),
    "prefix boolean": ({"prefix": {"b": "tr"}}, True),
    "prefix one of two": ({"prefix": {"type": "com", "id": "2"}}, False),
    "suffix": ({"suffix": {"source": "/JFK"}}, True),
    "suffix differs": ({"suffix": {"source": "/LGA"}}, False),
    "suffix missing": ({"suffix": {"subject": "x"}}, False),
    "suffix one of two": ({"suffix": {"source": "JFK", "type": "early"}}, False),
    "all": ({"all": [TYPE, {"suffix": {"source": "JFK"}}]}, True),
    "all but one": ({"all": [TYPE, OTHER]}, False),
    "all of one": ({"all": [OTHER]}, False),
    "any": ({"any": [OTHER, TYPE]}, True),
    "any of none right": ({"any": [OTHER, OTHER]}, False),
    "not": ({"not": OTHER}, True),
    "not right": ({"not": TYPE}, False),
    "not missing": ({"not": {"exact": {"subject": "x"}}}, True),
    "nested": ({"all": [{"any": [OTHER, {"prefix": {"type": "com"}}]}, {"not": {"all": [TYPE, OTHER]}}]}, True),
    "twice not": ({"not": {"not": TYPE}}, True),
}


@pytest.mark.parametrize(("config", "matches"), CASES.values(), ids=CASES.keys())
def test_dialects(config: Any, matches: bool) -> None:
    assert build(config).matches(EVENT) is matches


@pytest.mark.parametrize(
    "config",
    [{"exact": {}}, {"exact": {"type": ""}}, {"prefix": {"": "x"}}, {"suffix": {"type": 5}}, {"all": []}, {"any": []},
     {"not": []}, {"any": TYPE}, {"exact": "type"}, {"not": {"exact": {"type": "x"}, "prefix": {"type": "x"}}}],
)  # fmt: skip
def test_bad_options_are_faults(config: Any) -> None:
    with pytest.raises(ValidationError):
        build(config)


def test_an_unknown_inner_filter_names_its_place() -> None:
    with pytest.raises(StartError, match=r"triggers\.late\.filters\.1: unknown filter 'exakt'; did you mean `exact`"):
        build({"all": [TYPE, {"exakt": {}}]})


def test_hints() -> None:
    both = build({"all": [TYPE, {"prefix": {"source": "/a"}}, {"exact": {"id": "1"}}, {"suffix": {"n": "5"}}]})
    assert (both.exact, both.prefix) == ((("type", "com.example.late"), ("id", "1")), (("source", "/a"),))
    either = build({"any": [TYPE, OTHER]})
    assert [f.exact for f in either.alternatives] == [(("type", "com.example.late"),), (("type", "com.example.early"),)]
    assert indexable(either)
    assert not indexable(build({"any": [TYPE, {"not": OTHER}]}))
    assert not indexable(build({"not": TYPE}))
    assert [f.exact for f in all_of([either, build({"suffix": {"id": "1"}})]).alternatives] == [
        f.exact for f in either.alternatives
    ]


@pytest.mark.spec("BR-08")
@pytest.mark.parametrize(
    ("attributes", "matches"),
    [({}, True), ({"type": "com.example.late"}, True), ({"type": "com.example.late", "n": "5"}, True),
     ({"type": "com.example.late", "id": "2"}, False), ({"subject": "x"}, False), ({"source": "/airports"}, False),
     ({"n": ""}, True), ({"subject": ""}, False), ({"e": ""}, True), ({"type": "", "b": "true"}, True)],
)  # fmt: skip
def test_a_triggers_attributes(attributes: dict[str, str], matches: bool) -> None:
    assert attributes_filter(attributes).matches(EVENT) is matches


NAMES = st.sampled_from(["type", "source", "n"])
LEAF = st.builds(lambda kind, pairs: {kind: pairs}, st.sampled_from(["exact", "prefix", "suffix"]),
                 st.dictionaries(NAMES, st.sampled_from(["a", "ab", "b", "1"]), min_size=1))  # fmt: skip
BOTH = st.sampled_from(["all", "any"])


def _larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    joined = st.builds(lambda kind, parts: {kind: parts}, BOTH, st.lists(inner, min_size=1, max_size=3))
    return joined | st.builds(lambda part: {"not": part}, inner)


FILTERS = st.recursive(LEAF, _larger, max_leaves=6)
EVENTS = st.dictionaries(NAMES, st.sampled_from(["a", "ab", "b", "abb", 1, True]))


@pytest.mark.slow
@given(config=FILTERS, attributes=EVENTS)
def test_filters_do_what_they_say_and_hints_hold(config: Any, attributes: dict[str, Any]) -> None:
    """Against a plain interpreter of the same tree; and no hint excludes an event that matches."""
    built, event = build(config), Event(attributes)
    assert built.matches(event) is _interpreted(config, attributes)
    if built.matches(event):
        assert _fulfils(built, attributes)
    assert match_all().matches(event)


def _text(value: Any) -> str:
    return "true" if value is True else str(value)


def _interpreted(config: Any, attributes: dict[str, Any]) -> bool:
    ((kind, operand),) = config.items()
    if kind in ("all", "any"):
        return (all if kind == "all" else any)([_interpreted(c, attributes) for c in operand])
    if kind == "not":
        return not _interpreted(operand, attributes)
    test: Any = {"exact": str.__eq__, "prefix": str.startswith, "suffix": str.endswith}[kind]
    return all(n in attributes and test(_text(attributes[n]), v) for n, v in operand.items())


def _fulfils(built: Filter, attributes: dict[str, Any]) -> bool:
    return (
        all(n in attributes and _text(attributes[n]) == v for n, v in built.exact)
        and all(n in attributes and _text(attributes[n]).startswith(v) for n, v in built.prefix)
        and (not built.alternatives or any(_fulfils(f, attributes) for f in built.alternatives))
    )
