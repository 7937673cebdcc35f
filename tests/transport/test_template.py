"""`gateway_options.template`: names of topics and queues from attributes."""

from __future__ import annotations

import re

import pytest
from gateway_options.template import NameRules, is_fixed, name_of
from hypothesis import given
from hypothesis import strategies as st

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event

pytestmark = pytest.mark.spec("TR-08")
RULES = NameRules(
    "topic",
    re.compile(r"[a-z0-9./-]*"),
    re.compile(r"[^A-Za-z0-9-]"),
    20,
    "a topic name may have letters",
    frozenset({"..", "-"}),
)


def event(**attributes: object) -> Event:
    return Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t.x", **attributes})  # type: ignore[dict-item]


@pytest.mark.parametrize("text", ["events", "{type}", "a/{type}/b-{source}", "{comexampleext1}"])
def test_a_template_that_is_valid_is_left_as_it_is(text: str) -> None:
    assert RULES.checked(text) == text


@pytest.mark.parametrize("text", ["", "A", "a b", "a{", "}", "{type", "..", "-", "x" * 21, "a{type}" + "x" * 20])
def test_a_template_that_is_not_allowed_is_refused_with_the_rule(text: str) -> None:
    with pytest.raises(ValueError, match="a topic name may have letters"):
        RULES.checked(text)


@pytest.mark.parametrize("name", ["", "Type", "a_b", "type!r", "a.b", "0}{"])
def test_what_is_in_braces_must_be_an_attribute_name(name: str) -> None:
    with pytest.raises(ValueError, match="not an attribute name"):
        RULES.checked(f"a{{{name}}}")


def test_the_name_has_the_values_of_the_event() -> None:
    name = name_of("a/{type}/{subject}", RULES)
    assert name(event(type="order", subject="7")) == "a/order/7"
    assert name(event(type="order", subject="8")) == "a/order/8"
    assert name(event(type="bill", subject="7")) == "a/bill/7"
    assert name_of("fixed", RULES)(event()) == "fixed"


def test_values_that_are_no_text_are_as_on_the_wire() -> None:
    name = name_of("{n}-{b}", RULES)
    assert name(event(n=5, b=True)) == "5-true"


def test_a_character_that_is_not_allowed_becomes_an_underscore() -> None:
    assert name_of("{type}", RULES)(event(type="a/b #+\u00e9\n")) == "a_b_____"


def test_an_event_without_the_attribute_is_refused() -> None:
    with pytest.raises(Refused, match="the topic needs the attribute subject") as refused:
        name_of("a/{subject}", RULES)(event())
    assert refused.value.attribute == "subject"


@pytest.mark.parametrize("value", ["x" * 21, "-", ""])
def test_a_name_that_would_be_invalid_is_refused(value: str) -> None:
    name = name_of("{subject}", RULES)
    for _ in range(2):  # also the second time
        with pytest.raises(Refused, match="is not a valid topic name"):
            name(event(subject=value))


def test_half_a_surrogate_pair_is_refused() -> None:
    loose = NameRules("topic", re.compile(".*"), re.compile("/"), 20, "")
    with pytest.raises(Refused, match="is no Unicode text"):
        name_of("{subject}", loose)(event(subject="a\ud800"))


def test_the_limit_is_in_bytes() -> None:
    wide = NameRules("topic", re.compile(".*"), re.compile("/"), 6, "")
    name = name_of("{subject}", wide)
    assert name(event(subject="\u20ac\u20ac")) == "\u20ac\u20ac"
    with pytest.raises(Refused):
        name(event(subject="\u20ac\u20ac\u20ac"))


def test_more_different_names_than_are_remembered_are_right_too() -> None:
    name = name_of("{subject}", RULES)
    for _ in range(2):
        for number in range(5000):
            assert name(event(subject=str(number))) == str(number)


VALUES = st.one_of(st.text("a/.-\u00e9\n", max_size=8), st.text(max_size=30))


@pytest.mark.slow
@given(VALUES, VALUES)
def test_whatever_the_values_the_name_is_valid_or_the_event_refused(one: str, two: str) -> None:
    try:
        name = name_of("a/{type}/{subject}", RULES)(event(type=one, subject=two))
    except Refused:
        return
    assert name.count("/") == 2, "a value brings a level of its own"
    assert len(name.encode()) <= RULES.most


def test_a_template_without_attributes_is_fixed() -> None:
    assert is_fixed("a/b")
    assert not is_fixed("a/{type}")
