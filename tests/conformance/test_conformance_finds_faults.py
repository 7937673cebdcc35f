"""The checks find faults: a right little broker passes, and planted faults fail exactly the checks about them."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from gateway_conformance import trigger_config, triggers
from gateway_conformance.bench import Bench, Check
from gateway_conformance.command import _out_of_sight
from gateway_conformance.report import as_json, line
from gateway_conformance.run import CHECKS, Result, run
from gateway_conformance.sink import Sink

pytestmark = pytest.mark.usefixtures("real_time")

_SPEC = importlib.util.spec_from_file_location("little_broker", Path(__file__).parent / "little_broker.py")
assert _SPEC is not None
assert _SPEC.loader is not None
little_broker: Any = importlib.util.module_from_spec(_SPEC)
sys.modules["little_broker"] = little_broker  # its dataclass asks for it
_SPEC.loader.exec_module(little_broker)
LITTLE_SOURCE = (Path(__file__).parent / "little_broker.py").read_text()


REFUSALS = {"required_attributes", "empty_attributes", "required_attributes_0_3", "unreadable", "unknown_version"}

INGRESS_FAULTS = {
    "takes anything": REFUSALS | {"problem_names_the_fault", "unknown_format"},
    "fails on nonsense": REFUSALS | {"problem_names_the_fault", "unknown_format", "goes_on_after_nonsense"},
    "silent": {"problem_names_the_fault"},
    "any method": {"other_methods", "allow_on_405"},
    "no allow": {"options_names_post", "allow_on_405"},
    "minds upgrade": {"upgrade"},
    "case-sensitive media type": {"media_type_in_any_case"},
    "no duplicates": {"duplicates"},
    "small": {"large"},
    "path is 400": {"unknown_path"},
    "answers with an event": {"success_is_2xx"},
    "takes version 2": {"unknown_version"},
    "takes empty attributes": {"empty_attributes", "required_attributes_0_3", "problem_names_the_fault"},
    "no XML": {"content_types"},
    "closes on nonsense": REFUSALS | {"problem_names_the_fault", "unknown_format", "goes_on_after_nonsense"},
    "breaks batches": {"batch"},
    "no 0.3": {"either_0_3"},
}

INGRESS_GROUPS = [
    ("takes anything",),
    ("fails on nonsense",),
    ("closes on nonsense",),
    ("any method", "answers with an event", "takes version 2", "takes empty attributes"),
    ("silent", "no allow", "minds upgrade", "case-sensitive media type", "no duplicates", "no 0.3"),
    ("small", "path is 400", "no XML", "breaks batches"),
]

DELIVERY_FAULTS = {
    "options queues": {"options_queues_nothing"},
    "upgrades": {"version_kept", "identical_0_3", "reply_keeps_version"},
    "adds time": {"identical_1_0", "identical_0_3"},
    "puts": {"by_post"},
    "no prefer": {"prefers_reply", "reply_as_produced"},
    "takes 202 for a reply": {"accepted_is_no_reply"},
    "drops replies": {
        *("binary_reply", "structured_reply", "reply_as_produced", "reply_keeps_trace", "reply_keeps_version")
    },
    "ignores malformed replies": {"malformed_reply"},
    "loses the trace": {"reply_keeps_trace"},
    "retries 400": {"unparsable"},
    "retries 1xx": {"switching_protocols"},
    "never retries": {"server_errors", "unknown_codes", "retries"},
    "gives up without answer": {"no_answer", "malformed_answer"},
    "follows redirects": {"redirects"},
    "no unquote": {"header_values_read"},
    "no percent decode": {"header_values_read", "identical_1_0", "reply_as_produced"},
    "no percent encode": {"header_values_written"},
    "encodes twice": {"header_values_read", "header_values_written", "identical_1_0", "reply_as_produced"},
    "ce-datacontenttype": {"one_content_type"},
    "lower-cases content types": {"one_content_type"},
    "loses chunks": {"chunked"},
    "upgrades replies": {"reply_keeps_version"},
    "loses data": {"identical_1_0", "identical_0_3", "large_arrives", "chunked", "reply_as_produced"},
    "cuts data": {"large_arrives"},
    "rewrites JSON": {"identical_1_0"},
    "loses extensions": {
        *("identical_1_0", "header_values_read", "header_values_written", "trace_kept", "reply_keeps_trace"),
        "reply_as_produced",
    },
    "times in UTC": {"identical_1_0"},
    "new trace": {"trace_kept", "reply_keeps_trace"},
    "retries 410": {"other_4xx"},
    "never retries 409": {"retried_4xx"},
    "never retries 600": {"unknown_codes"},
    "retries 204": {"success"},
    "gives up after two": {"retries"},
    "takes 201 for a reply": {"accepted_is_no_reply"},
    "routes replies of failures": {"accepted_is_no_reply"},
    "HTML is a malformed reply": {"no_event_is_no_reply"},
    "structured replies are text": {"structured_reply", "reply_keeps_version"},
    "no prefer on replies": {"reply_as_produced"},
    "asks again after a reply": {"replied_once"},
}

# a run waits for what never comes, so faults that don't hide each other share one
GROUPS = [
    ("options queues", "no prefer", "takes 202 for a reply", "loses the trace", "follows redirects", "retries 1xx"),
    ("adds time", "puts", "ignores malformed replies", "retries 400", "upgrades replies", "lower-cases content types"),
    ("upgrades", "drops replies", "never retries", "gives up without answer", "ce-datacontenttype", "no unquote"),
    ("no percent decode", "times in UTC", "new trace", "takes 201 for a reply", "HTML is a malformed reply"),
    ("encodes twice", "loses chunks", "routes replies of failures", "no prefer on replies", "never retries 600"),
    ("no percent encode", "rewrites JSON", "structured replies are text", "asks again after a reply", "cuts data"),
    ("loses extensions", "loses data", "gives up after two", "never retries 409", "retries 410", "retries 204"),
]

ALONE_FAULTS = {
    "even waits": {"spacing_grows"},
    "no waits": {"spacing_grows"},
    "no retry-after": {"retry_after"},
}


TRIGGERS = """
brokers: {default: {dead_letter: "http://127.0.0.1:PORT/dead"}}
triggers:
  all: {subscriber: "http://127.0.0.1:PORT/"}
  prefixed: {filters: [{prefix: {type: order.}}], subscriber: "http://127.0.0.1:PORT/prefixed"}
  both: {filters: [{exact: {type: order.paid}}, {suffix: {source: /eu}}], subscriber: "http://127.0.0.1:PORT/both"}
  either:
    filters: [{any: [{exact: {type: stock}}, {exact: {subject: cup}}]}]
    subscriber: {http: {url: "http://127.0.0.1:PORT/either"}}
  simple: {filter: {type: stock, subject: cup}, subscriber: "http://127.0.0.1:PORT/simple"}
  asked: {filters: [{cesql: "type = 'order.paid'"}], subscriber: "http://127.0.0.1:PORT/asked"}
  away: {subscriber: "http://127.0.0.1:1/"}
"""
LITTLE = [
    little_broker.LittleTrigger("/", "/dead"),
    little_broker.LittleTrigger("/prefixed", "/dead", [("prefix", "type", "order.")]),
    little_broker.LittleTrigger("/both", "/dead", [("exact", "type", "order.paid"), ("suffix", "source", "/eu")]),
    little_broker.LittleTrigger("/either", "/dead", [("exact", "type", "stock"), ("exact", "subject", "cup")], True),
    little_broker.LittleTrigger("/simple", "/dead", [("exact", "type", "stock"), ("exact", "subject", "cup")]),
]
TRIGGER_FAULTS = {
    "prefixes are whole": {"filters_choose"},
    "filters are alternatives": {"filters_choose"},
    "no filter": {"filters_choose"},
    "no dead letter": {"dead_letters_take_what_fails"},
    "always dead-lettered": {"dead_letters_take_nothing_else"},
}
BY_TRIGGERS = {c.run.__name__ for c in triggers.TRIGGERS}


def results(faults: set[str], kind: str) -> list[Result]:
    """One run of the checks of a kind."""
    checks = [
        c
        for c in CHECKS
        if kind == ("alone" if c.alone else "delivery" if c.sink else "ingress") and c.run.__name__ not in BY_TRIGGERS
    ]
    with Sink(0) as sink, little_broker.LittleBroker(sink.url, faults) as broker:
        return run(checks, broker.url, sink, timeout_s=4, settle_s=1)


def failed(found: list[Result]) -> set[str]:
    return {r.check.run.__name__ for r in found if r.state == "failed"}


@pytest.mark.parametrize("kind", ["ingress", "delivery", "alone"])
def test_a_right_broker_passes(kind: str) -> None:
    found = results(set(), kind)
    assert [(r.check.title, r.detail) for r in found if r.state != "passed"] == []


@pytest.mark.parametrize("faults", INGRESS_GROUPS, ids=" and ".join)
def test_ingress_faults_fail_their_checks(faults: tuple[str, ...]) -> None:
    assert failed(results(set(faults), "ingress")) == set().union(*(INGRESS_FAULTS[f] for f in faults))


@pytest.mark.parametrize("faults", GROUPS, ids=" and ".join)
def test_delivery_faults_fail_their_checks(faults: tuple[str, ...]) -> None:
    assert failed(results(set(faults), "delivery")) == set().union(*(DELIVERY_FAULTS[f] for f in faults))


@pytest.mark.parametrize("fault", ALONE_FAULTS)
def test_a_fault_of_timing_fails_its_checks(fault: str) -> None:
    assert failed(results({fault}, "alone")) == ALONE_FAULTS[fault]


def read_triggers(tmp_path: Path, port: int) -> trigger_config.Triggers:
    file = tmp_path / "triggers.yaml"
    file.write_text(TRIGGERS.replace("PORT", str(port)))
    return trigger_config.read(file, port)


def with_triggers(tmp_path: Path, faults: set[str], checks: list[Check]) -> list[Result]:
    with Sink(0, "/") as sink, little_broker.LittleBroker(sink.url, faults, LITTLE) as broker:
        found = read_triggers(tmp_path, int(sink.url.rstrip("/").rpartition(":")[2]))
        return run(checks, broker.url, sink, timeout_s=4, settle_s=1, triggers=found)


@pytest.mark.spec("SAFE-99")
@pytest.mark.parametrize("fault", ["", *TRIGGER_FAULTS])
def test_a_fault_that_one_trigger_does_not_show_fails_its_checks(fault: str, tmp_path: Path) -> None:
    found = with_triggers(tmp_path, {fault}, triggers.TRIGGERS)
    assert failed(found) == TRIGGER_FAULTS.get(fault, set()), [r.detail for r in found]


@pytest.mark.spec("SAFE-99")
def test_other_checks_look_at_the_trigger_that_gets_everything(tmp_path: Path) -> None:
    found = with_triggers(tmp_path, set(), [c for c in CHECKS if c.sink and not c.alone])
    assert [(r.check.title, r.detail) for r in found if r.state != "passed"] == []


@pytest.mark.spec("SAFE-99")
def test_each_planted_fault_is_caught_or_named_as_out_of_sight(tmp_path: Path) -> None:
    """Without `--triggers`, those of `TRIGGER_FAULTS` are out of sight, and each of their checks says so."""
    planted = set(re.findall(r'"([^"{}]+)"(?= in (?:self\.|broker\.)?faults)', LITTLE_SOURCE))
    planted |= set(re.findall(r'^            "([^"]+)":', LITTLE_SOURCE, re.MULTILINE))
    known = INGRESS_FAULTS.keys() | DELIVERY_FAULTS.keys() | ALONE_FAULTS.keys() | TRIGGER_FAULTS.keys()
    assert planted <= known
    with Sink(0) as sink, little_broker.LittleBroker(sink.url) as broker:
        skipped = run(triggers.TRIGGERS, broker.url, sink, timeout_s=4, settle_s=0.1)
    assert [(r.state, r.detail) for r in skipped] == [("skipped", "needs --triggers")] * len(triggers.TRIGGERS)


@pytest.mark.spec("SAFE-99")
def test_what_a_config_hides_is_named(tmp_path: Path) -> None:
    found = read_triggers(tmp_path, 8099)
    assert _out_of_sight(found) == [
        "the trigger asked: the filter cesql is not evaluated here",
        "the trigger away: its subscriber is elsewhere",
    ]
    for text, why in (
        ("triggers: {a: {filter: {type: t}, subscriber: 'http://127.0.0.1:8099/'}}", "no trigger without a filter"),
        ("triggers: {a: {subscriber: 'http://127.0.0.1:8099/'}, b: {subscriber: 'http://127.0.0.1:8099/'}}", "own"),
        ("brokers: {}", "no section `triggers`"),
        ("[", "x.yaml"),
    ):
        file = tmp_path / "x.yaml"
        file.write_text(text)
        with pytest.raises(trigger_config.BadTriggers, match=why):
            trigger_config.read(file, 8099)


def test_every_planted_fault_is_in_a_group() -> None:
    assert sorted(f for group in GROUPS for f in group) == sorted(DELIVERY_FAULTS)
    assert sorted(f for group in INGRESS_GROUPS for f in group) == sorted(INGRESS_FAULTS)


def test_a_broker_that_delivers_nothing_fails_each_delivery_check_at_once() -> None:
    delivery = [c for c in CHECKS if c.sink]
    with Sink(0) as sink, Sink(0) as elsewhere, little_broker.LittleBroker(elsewhere.url) as broker:
        found = run(delivery, broker.url, sink, timeout_s=0.3, settle_s=0.1)
    assert failed(found) == {c.run.__name__ for c in delivery}
    assert all("is there a trigger" in r.detail for r in found)


def test_every_bad_case_is_reported() -> None:
    found = results({"takes empty attributes"}, "ingress")
    (empty,) = [r for r in found if r.check.run.__name__ == "empty_attributes"]
    assert len(empty.seen) == 8
    assert all(f"{a} empty" in empty.detail for a in ("specversion", "id", "source", "type"))
    lines = line(empty).splitlines()
    assert lines[0].endswith(": 8 bad cases")
    assert lines[1] == "    1.0 binary, specversion empty was answered 202, not 400"
    (document,) = as_json("http://127.0.0.1/", [empty])["checks"]
    assert document["cases"] == list(empty.seen)


def test_a_check_that_the_broker_surprises_is_a_failed_one() -> None:
    def surprised(bench: Bench) -> None:
        raise KeyError("ce-id")

    with Sink(0) as sink, little_broker.LittleBroker(sink.url) as broker:
        (found,) = run([Check("DP-01", "M", "takes it", surprised)], broker.url)
    assert (found.state, found.seen) == ("failed", ("the check came to no end: KeyError: 'ce-id'",))
