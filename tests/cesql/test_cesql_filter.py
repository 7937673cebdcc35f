"""The `cesql` filter as a config uses it."""

from __future__ import annotations

from pathlib import Path

import pytest
from gateway_cesql import compile
from gateway_cesql.config import CesqlConfig
from gateway_cesql.plugin import gateway_filters
from pydantic import ValidationError

from gateway_core.config.registry import Registry
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext
from gateway_core.contract.configs import load
from gateway_core.contract.errors import ConfigError
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Filter


def build(name: str, expression: str) -> Filter:
    context = BuildContext("triggers.t.filters.0", Path(), SystemClock(), Registry())
    component = next(c for c in gateway_filters() if c.name == name)
    built: Filter = component.build(component.model.model_validate(expression), context)
    return built


EVENT = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "a", "subject": "xyz", "flag": True, "n": "5"})

MATCHES = {
    "a true condition": ("type = 'a' AND subject LIKE 'x%'", True),
    "a false condition": ("type = 'b'", False),
    "a Boolean attribute": ("flag", True),
    "a String that spells true is no Boolean": ("word", False),
    "an Integer is cast where the operator asks for it": ("n AND TRUE", False),
    "a missing attribute": ("gone = 'x'", False),
    "a missing attribute, negated": ("gone != 'x'", False),
    "a missing attribute, NOT LIKE": ("gone NOT LIKE 'x'", False),
    "a missing attribute under NOT": ("NOT (gone = 'x')", False),
    "a missing attribute before OR": ("gone = 'x' OR TRUE", False),
    "a missing attribute that is not asked": ("TRUE OR gone = 'x'", True),
    "an error under a comparison with false": ("(1 / 0 = 1) = FALSE", False),
    "a presence": ("EXISTS subject AND NOT EXISTS gone", True),
    "a header's number": ("n > 4 AND n IN (5, 6)", True),
}


@pytest.mark.parametrize(("expression", "matches"), MATCHES.values(), ids=MATCHES)
def test_an_event_matches_where_the_value_is_true_and_nothing_failed(expression: str, matches: bool) -> None:
    event = EVENT.with_attributes(word="true")
    assert build("cesql", expression).matches(event) is matches
    assert build("sql", expression).matches(event) is matches


HINTS = {
    "equality": ("type = 'a'", (("type", "a"),), (), 0),
    "two equalities": ("type = 'a' AND subject = 'b'", (("type", "a"), ("subject", "b")), (), 0),
    "a beginning": ("source LIKE 'https://%'", (), (("source", "https://"),), 0),
    "an escaped beginning": (r"type LIKE 'a\_b%'", (), (("type", "a_b"),), 0),
    "a pattern without wildcards": ("type LIKE 'abc'", (("type", "abc"),), (), 0),
    "equality and beginning": ("type = 'a' AND subject LIKE 'x_y'", (("type", "a"),), (("subject", "x"),), 0),
    "equality beside anything": ("type = 'a' AND LENGTH(id) > 3", (("type", "a"),), (), 0),
    "choices": ("type = 'a' OR type = 'b' OR subject LIKE 'x%'", (), (), 3),
    "a list": ("type IN ('a', 'b')", (), (), 2),
    "a list of one": ("type IN ('a')", (("type", "a"),), (), 0),
    "a list that an Integer could equal": ("type IN ('05', 'b')", (), (), 0),
    "a list that a Boolean could equal": ("type IN ('TRUE', 'b')", (), (), 0),
    "an Integer": ("type = 5", (), (), 0),
    "a Boolean": ("type = TRUE", (), (), 0),
    "the literal first": ("'a' = type", (), (), 0),
    "an inequality": ("type != 'a'", (), (), 0),
    "a negation": ("NOT (type = 'a')", (), (), 0),
    "no beginning": ("type LIKE '%a'", (), (), 0),
    "a negated pattern": ("type NOT LIKE 'a%'", (), (), 0),
    "mixed words": ("type = 'a' AND subject = 'b' OR id = 'c'", (), (), 0),
    "exclusive": ("type = 'a' XOR type = 'b'", (), (), 0),
}


@pytest.mark.parametrize(("expression", "exact", "prefix", "choices"), HINTS.values(), ids=HINTS)
def test_conditions_on_texts_are_given_to_the_router(
    expression: str, exact: tuple[tuple[str, str], ...], prefix: tuple[tuple[str, str], ...], choices: int
) -> None:
    filter = compile(expression).filter()
    assert (filter.exact, filter.prefix, len(filter.alternatives)) == (exact, prefix, choices)


FAULTS = {
    "a parse error": ("type = ", r"character 8: expected a value, found the end \(remedy: .*\)"),
    "an unknown function": (
        "TRUE AND LENGHT(id) > 1",
        r"character 10: unknown function LENGHT .*did you mean LENGTH\?",
    ),
    "a function unlike any": ("QQQ(id)", r"unknown function QQQ .*there are INT, BOOL"),
    "a wrong count": ("SUBSTRING(id) = 'a'", r"character 1: SUBSTRING called with 1 arguments .*it takes 2 or 3"),
    "a wrong count of many": ("CONCAT_WS() = 'a'", r"it takes 1 or more"),
    "an unknown function in a list": ("id IN ('a', NOPE())", r"character 13: unknown function NOPE"),
    "a String as filter": ("CONCAT(type, 'x')", r"always of type String"),
    "an Integer as filter": ("LENGTH(type)", r"always of type Integer"),
}


@pytest.mark.parametrize(("expression", "says"), FAULTS.values(), ids=FAULTS)
def test_a_filter_that_cannot_work_is_a_fault_of_the_config(expression: str, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        CesqlConfig.model_validate(expression)


def test_an_expression_must_be_text() -> None:
    with pytest.raises(ValidationError):
        CesqlConfig.model_validate(5)


def test_values_that_a_sender_chose_cannot_make_like_slow() -> None:
    # a backtracking matcher would need about 3000^9 steps here
    filter = compile("subject LIKE '%a_%a_%a_%a_%a_%a_%a_%a_%a_%b'").filter()
    assert not filter.matches(Event({"subject": "a" * 3000}))
    assert filter.matches(Event({"subject": "a" * 3000 + "b"}))


def test_a_config_check_names_the_place_of_a_wrong_expression(tmp_path: Path) -> None:
    config = tmp_path / "gateway.yaml"
    config.write_text(
        "brokers: {default: {}}\n"
        "triggers:\n"
        "  late:\n"
        "    filters:\n"
        "    - cesql: type = 'a\n"
        "    subscriber: http://127.0.0.1:9/\n"
    )
    with pytest.raises(ConfigError) as e:
        load([config], Registry.installed(), {})
    (fault,) = e.value.faults
    assert (fault.line, fault.path) == (5, "triggers.late.filters[0].cesql")
    assert "character 8" in fault.message
    assert (fault.remedy, "remedy" in fault.message) == ("close it with '", False)
