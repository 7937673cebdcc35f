"""`*` is no wildcard in a filter, wherever one is written, and each place names the spelling that its author means."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from gateway_api.filter_texts import BadFilter, compile_one
from gateway_cesql.config import CesqlConfig
from hypothesis import example, given
from hypothesis import strategies as st

from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext, FilterRef
from gateway_core.contract.configs import load_all
from gateway_core.contract.event import Event
from gateway_core.contract.filter_values import like, spelt
from gateway_core.contract.interfaces import Filter
from tests.budget import examples
from tests.installed import REGISTRY

TEXTS = st.text("ab.*%_' ", min_size=1, max_size=8).filter(lambda t: "*" in t)


def event(type: str) -> Event:
    return Event({"specversion": "1.0", "id": "1", "source": "/s", "type": type})


def written(text: str) -> Filter:
    """The filter of a line of a config."""
    found = re.fullmatch(r"(prefix|suffix): \{type: (.*)\}", text)
    name, plain = ("cesql", text.removeprefix("cesql: ")) if found is None else (found[1], {"type": found[2]})
    offer = REGISTRY.find("filter", name)
    assert offer is not None
    ref = FilterRef(name, plain, offer.component.model.model_validate(plain))
    built: Filter = REGISTRY.build(ref, BuildContext("x", Path(), SystemClock(), REGISTRY, offline=True))
    return built


@pytest.mark.spec("SAFE-95")
@examples(100)
@given(TEXTS, st.text("ab.", max_size=8))
@example("order.*", "order.paid")
@example("*.paid", "order.paid")
@example("a*%_'", "ab%_'")
def test_the_spelling_that_is_named_is_the_one_that_is_meant(text: str, value: str) -> None:
    meant = re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)
    named = [compile_one(like("type", text), REGISTRY)]
    if re.fullmatch(r"[ab.]*\*|\*[ab.]+", text):
        named.append(written(spelt("type", text)))
    for type in (value, text, text.replace("*", value), text.replace("*", "")):
        if type:
            assert [f.matches(event(type)) for f in named] == [bool(meant.fullmatch(type))] * len(named)


@pytest.mark.spec("SAFE-95")
@pytest.mark.parametrize("filter", ['{type: "order.*"}', '{cesql: "TRUE"}', '{sql: "TRUE"}', "{prefix: order.}"])
def test_check_and_tap_read_a_filter_alike(tmp_path: Path, filter: str) -> None:
    file = tmp_path / "main.yaml"
    file.write_text(
        "brokers: {default: {ingress: [{http: {listen: '127.0.0.1:0'}}]}}\n"
        f"triggers: {{t: {{filter: {filter}, subscriber: 'http://127.0.0.1/'}}}}\n"
    )
    (warning,) = load_all([file], REGISTRY).warnings
    assert "write `" in warning.remedy
    if "*" in filter:
        with pytest.raises(BadFilter, match=r"write type LIKE 'order.%'"):
            compile_one("type=order.*", REGISTRY)


@pytest.mark.spec("SAFE-95")
@pytest.mark.parametrize(
    ("expression", "remedy"),
    [
        ("type LIKE 'order.*'", "type LIKE 'order.%'"),
        ("NOT (id = '1' AND type = 'order.*')", "type LIKE 'order.%'"),
        ("type NOT LIKE '*x'", "type NOT LIKE '%x'"),
        ("type LIKE 'a*%'", None),
        ("subject = 'a*b'", None),
        ("3 * 4 = 12 AND type LIKE 'a%'", None),
    ],
)
def test_an_expression_with_another_languages_wildcard_is_warned_of(expression: str, remedy: str | None) -> None:
    found = [said for _, _, said in CesqlConfig(expression).warnings()]
    assert found == ([] if remedy is None else [f"write `{remedy}`"])
