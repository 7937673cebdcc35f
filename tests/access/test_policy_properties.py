"""The compiled policies say what a plain reading of the entries says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from gateway_access.policy import AllowConfig, Policies
from hypothesis import given
from hypothesis import strategies as st

from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext, FilterRef
from gateway_core.contract.event import Event
from gateway_core.contract.identity import ANONYMOUS, Identity
from tests.budget import examples
from tests.installed import REGISTRY

CONTEXT = BuildContext(owner="here", data_dir=Path(), clock=SystemClock(), registry=REGISTRY)

WORDS = st.sampled_from(["a", "ab", "abc", "b", "A", "AB", "a*", "*", "anonymous", "anonymous2", "key a"])
SUBJECTS = st.sampled_from(["a", "ab", "abc", "b", "a*", "*", "ab*", "anonymous", "anonymous*", "key a"])
SCALARS: st.SearchStrategy[Any] = st.sampled_from(["x", "y", "1", 1, True, False, 0])
ODD: st.SearchStrategy[Any] = st.sampled_from([None, 1.0, {}, [], {"n": "x"}, ["x"], ["y", 1], [["x"]], [None]])
NAMES = st.sampled_from(["c", "n", "c.n", "c.n.n"])


def _nested(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(st.sampled_from(["c", "n", "c.n"]), leaves, max_size=2)


CLAIMS = st.recursive(SCALARS | ODD, _nested, max_leaves=4).filter(lambda c: isinstance(c, dict)) | _nested(SCALARS)
ATTRIBUTES = st.fixed_dictionaries(
    {"type": st.sampled_from(["t", "tu", "u"]), "source": st.sampled_from(["/s", "/s/1"])}
)
FILTERS = st.one_of(
    st.builds(lambda a: {"exact": a}, ATTRIBUTES),
    st.builds(lambda t: {"prefix": {"source": t}}, st.sampled_from(["/", "/s/", "/x"])),
)


@st.composite
def entries(draw: st.DrawFn) -> dict[str, Any]:
    found: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "from": st.lists(SUBJECTS, max_size=3),
                "authenticator": st.sampled_from(["one", "two"]),
                "claims": st.dictionaries(
                    NAMES, SCALARS | st.lists(SCALARS, min_size=1, max_size=2), min_size=1, max_size=2
                ),
                "filters": st.lists(FILTERS, min_size=1, max_size=2),
            },
        ).filter(bool)
    )
    return found


IDENTITIES = st.one_of(
    st.none(),
    st.just(ANONYMOUS),
    st.builds(Identity, WORDS, st.sampled_from(["one", "two"]), st.just("user"), CLAIMS),
)


def _allows(entry: Mapping[str, Any], who: Identity | None, event: Event) -> bool:
    """What `docs/howto/policies.md` says about an entry."""
    known = who is not None and who.authenticator != ""
    subjects = entry.get("from", ["*"])
    if known and who is not None:
        sender = any(
            text == who.subject and text != "anonymous"
            if not text.endswith("*")
            else who.subject[: len(text) - 1] == text[:-1]
            for text in subjects
        )
        sender = sender and entry.get("authenticator", who.authenticator) == who.authenticator
        sender = sender and all(_has(who.claims, name, value) for name, value in entry.get("claims", {}).items())
    else:
        sender = "anonymous" in subjects and "authenticator" not in entry and "claims" not in entry
    return sender and all(_matches(rule, event) for rule in entry.get("filters", []))


def _has(claims: Any, name: str, wanted: Any) -> bool:
    if name in claims:
        found = claims[name]
    else:
        found = claims
        for key in name.split("."):
            found = found.get(key) if isinstance(found, dict) else None
    values = wanted if isinstance(wanted, list) else [wanted]
    return any(type(f) is type(v) and f == v for v in values for f in (found if isinstance(found, list) else [found]))


def _matches(rule: Mapping[str, Mapping[str, str]], event: Event) -> bool:
    ((dialect, attributes),) = rule.items()
    return all(
        event.attributes[name] == text if dialect == "exact" else event.attributes[name].startswith(text)
        for name, text in attributes.items()
    )


def _config(entry: Mapping[str, Any]) -> AllowConfig:
    config = AllowConfig.model_validate(entry)
    for ref in config.filters:
        offer = REGISTRY.find("filter", ref.name)
        assert offer is not None
        assert isinstance(ref, FilterRef)
        ref.options = offer.component.model.model_validate(ref.raw)
    return config


@pytest.mark.slow
@pytest.mark.spec("PO-09")
@examples(300)
@given(st.lists(entries(), min_size=1, max_size=3), st.lists(st.tuples(IDENTITIES, ATTRIBUTES), min_size=1, max_size=4))
def test_compiled_policies_are_what_a_plain_reading_says(
    allow: list[dict[str, Any]], sent: list[tuple[Identity | None, dict[str, str]]]
) -> None:
    policies = Policies([_config(entry) for entry in allow], CONTEXT)
    events = []
    for who, attributes in sent:
        event = Event({"specversion": "1.0", "id": "1", **attributes})
        event.identity = who
        events.append(event)
    wanted = [any(_allows(entry, event.identity, event) for entry in allow) for event in events]
    refusal = policies.refusal(events)
    assert (refusal is None) == all(wanted)
    if refusal is not None and len(events) > 1:
        assert refusal.detail.startswith(f"event {wanted.index(False)} of the batch")
