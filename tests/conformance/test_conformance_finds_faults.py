"""The checks find faults: a right little broker passes, and planted faults fail exactly the checks about them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from gateway_conformance.run import CHECKS, Result, run
from gateway_conformance.sink import Sink

_SPEC = importlib.util.spec_from_file_location("little_broker", Path(__file__).parent / "little_broker.py")
assert _SPEC is not None
assert _SPEC.loader is not None
little_broker: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(little_broker)

pytestmark = pytest.mark.slow

REFUSALS = {"required_attributes", "empty_attributes", "required_attributes_0_3", "unreadable", "unknown_version"}

INGRESS_FAULTS = {
    "takes anything": REFUSALS | {"problem_names_the_fault", "unknown_format"},
    "fails on nonsense": REFUSALS | {"problem_names_the_fault", "unknown_format", "goes_on_after_nonsense"},
    "silent": {"problem_names_the_fault"},
    "any method": {"other_methods", "allow_on_405"},
    "no allow": {"options_names_post", "allow_on_405"},
    "minds upgrade": {"upgrade"},
}

DELIVERY_FAULTS = {
    "options queues": {"options_queues_nothing"},
    "upgrades": {"version_kept", "identical_0_3"},
    "adds time": {"identical_1_0", "identical_0_3"},
    "puts": {"by_post"},
    "no prefer": {"prefers_reply", "reply_as_produced"},
    "takes 202 for a reply": {"accepted_is_no_reply"},
    "drops replies": {"binary_reply", "structured_reply", "reply_as_produced", "reply_keeps_trace"},
    "ignores malformed replies": {"malformed_reply"},
    "loses the trace": {"reply_keeps_trace"},
    "retries 400": {"unparsable"},
    "retries 1xx": {"switching_protocols"},
    "never retries": {"server_errors", "unknown_codes", "retries"},
    "gives up without answer": {"no_answer", "malformed_answer"},
    "follows redirects": {"redirects"},
}

# a run waits for what never comes, so faults that don't hide each other share one
GROUPS = [
    ("options queues", "no prefer", "takes 202 for a reply", "loses the trace", "follows redirects", "retries 1xx"),
    ("adds time", "puts", "ignores malformed replies", "retries 400"),
    ("upgrades", "drops replies", "never retries", "gives up without answer"),
]

ALONE_FAULTS = {
    "even waits": {"spacing_grows"},
    "no retry-after": {"retry_after"},
}


def results(faults: set[str], kind: str) -> list[Result]:
    """One run of the checks of a kind."""
    checks = [c for c in CHECKS if kind == ("alone" if c.alone else "delivery" if c.sink else "ingress")]
    with Sink(0) as sink, little_broker.LittleBroker(sink.url, faults) as broker:
        return run(checks, broker.url, sink, timeout_s=4, settle_s=0.5)


def failed(found: list[Result]) -> set[str]:
    return {r.check.run.__name__ for r in found if r.state == "failed"}


@pytest.mark.parametrize("kind", ["ingress", "delivery", "alone"])
def test_a_right_broker_passes(kind: str) -> None:
    found = results(set(), kind)
    assert [(r.check.title, r.detail) for r in found if r.state != "passed"] == []


@pytest.mark.parametrize("fault", INGRESS_FAULTS)
def test_an_ingress_fault_fails_its_checks(fault: str) -> None:
    assert failed(results({fault}, "ingress")) == INGRESS_FAULTS[fault]


@pytest.mark.parametrize("faults", GROUPS, ids=" and ".join)
def test_delivery_faults_fail_their_checks(faults: tuple[str, ...]) -> None:
    assert failed(results(set(faults), "delivery")) == set().union(*(DELIVERY_FAULTS[f] for f in faults))


@pytest.mark.parametrize("fault", ALONE_FAULTS)
def test_a_fault_of_timing_fails_its_checks(fault: str) -> None:
    assert failed(results({fault}, "alone")) == ALONE_FAULTS[fault]


def test_every_planted_fault_is_in_a_group() -> None:
    assert sorted(f for group in GROUPS for f in group) == sorted(DELIVERY_FAULTS)


def test_a_broker_that_delivers_nothing_fails_each_delivery_check_at_once() -> None:
    delivery = [c for c in CHECKS if c.sink]
    with Sink(0) as sink, Sink(0) as elsewhere, little_broker.LittleBroker(elsewhere.url) as broker:
        found = run(delivery, broker.url, sink, timeout_s=0.3, settle_s=0.1)
    assert failed(found) == {c.run.__name__ for c in delivery}
    assert all("is there a trigger" in r.detail for r in found)
