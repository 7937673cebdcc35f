"""Filters joined, key mappers, settings, and places in config text."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from gateway_basics.filters import any_of
from gateway_testing import FakeClock
from hypothesis import given
from hypothesis import strategies as st

from gateway_core.contract.component import BuildContext, KeyMapperRef
from gateway_core.contract.config_node import Node
from gateway_core.contract.event import Event, text_of
from gateway_core.contract.filters import all_of, attributes_filter
from gateway_core.contract.interpolation import Interpolator
from gateway_core.contract.settings import Settings
from tests.budget import examples
from tests.installed import REGISTRY

QUICK = examples(60)
NAMES = st.sampled_from(["type", "source", "partitionkey", "flag"])
TEXTS = st.sampled_from(["", "a", "ab", "true", "1", "é ☃"])
VALUES = st.one_of(TEXTS, st.booleans(), st.integers(0, 2))
EVENTS = st.dictionaries(NAMES, VALUES).map(Event)
CONTEXT = BuildContext("test", Path(), FakeClock(), REGISTRY)


FEW_NAMES = st.sampled_from(["flag", "type"])
FEW_EVENTS = st.dictionaries(FEW_NAMES, st.sampled_from(["a", "true", True, False, 1])).map(Event)
FEW_WANTED = st.dictionaries(FEW_NAMES, st.sampled_from(["", "a", "true", "1"]))


@pytest.mark.spec("BR-08")
@QUICK
@given(FEW_WANTED, FEW_EVENTS)
def test_a_triggers_pairs_are_compared_as_text(wanted: dict[str, str], event: Event) -> None:
    texts = {name: text_of(value) for name, value in event.attributes.items()}
    expected = all(name in texts and (not text or texts[name] == text) for name, text in wanted.items())
    assert attributes_filter(wanted).matches(event) is expected


@QUICK
@given(st.lists(FEW_WANTED, min_size=1, max_size=4), FEW_EVENTS)
def test_all_and_any_are_conjunction_and_disjunction(wanted: list[dict[str, str]], event: Event) -> None:
    filters = [attributes_filter(pairs) for pairs in wanted]
    assert all_of(filters).matches(event) is all(f.matches(event) for f in filters)
    assert any_of(filters).matches(event) is any(f.matches(event) for f in filters)


@QUICK
@given(EVENTS, NAMES)
def test_a_key_mapper_reads_and_changes_nothing(event: Event, name: str) -> None:
    before = copy.deepcopy(event.attributes)
    for written, attribute in (("none", None), ("partitionkey", "partitionkey"), ({"attribute": {"name": name}}, name)):
        key = CONTEXT.build(KeyMapperRef.parse(written))(event)
        value = None if attribute is None else event.attributes.get(attribute)
        assert key == (None if value is None else text_of(value).encode())
        assert event.attributes == before


@QUICK
@given(
    st.integers(-5, 100),
    st.floats(-10, 4000),
    st.sampled_from(["debug", "info", "warning", "error", "loud", "INFO"]),
    st.booleans(),
)
def test_settings_from_the_environment_are_those_given_or_refused(
    workers: int, drain_s: float, level: str, by_flag: bool
) -> None:
    good = 1 <= workers <= 64 and 0 <= drain_s <= 3600 and level in ("debug", "info", "warning", "error")
    given: dict[str, Any] = {"workers": workers, "drain_timeout_s": drain_s, "log_level": level}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in given.items():
            # a flag wins over the environment
            patch.setenv(f"TIDEGATE_{name.upper()}", "nonsense" if by_flag else str(value))
        if good:
            made = Settings(**(given if by_flag else {}))
            assert (made.workers, made.drain_timeout_s, made.log_level) == (workers, drain_s, level)
        else:
            with pytest.raises(ValueError, match="validation error"):
                Settings(**(given if by_flag else {}))


def filled(text: str, env: dict[str, str]) -> tuple[Any, list[str]]:
    faults: list[str] = []
    interpolator = Interpolator(env, None, lambda message, path, remedy: faults.append(message))
    return interpolator.plain(Node(text, "config.yaml", 1), ()), faults


@QUICK
@given(st.text("ab ${}:-\n", max_size=20), st.text(max_size=10))
def test_text_after_its_escapes_is_as_it_was_written(text: str, value: str) -> None:
    """`$${` stands for `${`: whatever the text, its escaped form gives it back, and what is filled in is not read."""
    assert filled(text.replace("${", "$${"), {}) == (text, [])
    assert filled("<${V}>", {"V": value}) == (f"<{value}>", [])


@QUICK
@given(st.dictionaries(st.sampled_from("ABC"), st.text("x${}", max_size=4)), st.text("xy ", max_size=5))
def test_a_default_stands_for_what_is_not_set_or_empty(env: dict[str, str], default: str) -> None:
    for name in "ABC":
        assert filled(f"<${{{name}:-{default}}}>", env) == (f"<{env.get(name) or default}>", [])
        text, faults = filled(f"<${{{name}}}>", env)
        assert text == f"<{env.get(name, '')}>"
        assert len(faults) == (name not in env)
