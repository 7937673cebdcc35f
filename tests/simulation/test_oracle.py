"""The oracle quotes the pages, and finds what it should in histories written by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.facts import Facts
from tests.simulation.history import (
    Answered,
    Arrived,
    Ended,
    Happened,
    Heard,
    History,
    Quiet,
    Replied,
    Sent,
    Started,
    Starting,
    Status,
)
from tests.simulation.oracle import PROMISES, violations
from tests.simulation.plan import Config, Event, Fault, Plan, Policy, Send, Trigger
from tests.simulation.promises.attempting import certain_end
from tests.simulation.shrink import minimal
from tests.simulation.story import tell
from tests.simulation.test_planting import page, plain


@pytest.mark.parametrize("name", PROMISES)
def test_each_promise_is_a_sentence_of_its_page(name: str) -> None:
    assert plain(PROMISES[name].sentence) in page(PROMISES[name].page)


PLAN = Plan(1, (Config((Trigger("t1", policy=Policy(order="partition")),)),), (Send(1, (Event("e1"), Event("e2"))),))


def arrived(at: float, number: int, event: Event) -> Arrived:
    headers = {"ce-" + n: v for n, v in event.attributes.items() if n != "datacontenttype"}
    headers["content-type"] = "text/plain"
    return Arrived(at, number, "t1", 0, tuple(headers.items()), event.data, 1)


def history(*more: Arrived | Replied) -> History:
    return History(
        [
            Started(0.5, 1, 0),
            Sent(1.0, 0, 1, True),
            Answered(1.1, 0, 1, 202, ""),
            *more,
            Quiet(100.0, True),
        ]
    )


def test_a_run_that_keeps_all_promises_breaks_none() -> None:
    one, two = PLAN.sends[0].events
    good = history(arrived(1.2, 0, one), Replied(1.2, 0, 200), arrived(1.3, 1, two), Replied(1.3, 1, 200))
    assert violations(PLAN, good) == []


def test_a_lost_event_is_found() -> None:
    one = PLAN.sends[0].events[0]
    found = violations(PLAN, history(arrived(1.2, 0, one), Replied(1.2, 0, 200)))
    assert {v.promise for v in found} == {"every-accepted-event-is-settled", "a-batch-is-whole"}
    assert "e2" in tell(PLAN, history(), found)


def test_an_event_that_overtakes_is_found() -> None:
    one, two = PLAN.sends[0].events
    found = violations(
        PLAN, history(arrived(1.2, 0, two), Replied(1.2, 0, 200), arrived(1.3, 1, one), Replied(1.3, 1, 200))
    )
    assert {v.promise for v in found} == {"nothing-overtakes"}


@pytest.mark.parametrize("known", [True, False])
def test_a_start_that_is_cut_off_delivers_by_its_own_config(known: bool) -> None:
    sends = (Send(1, (Event("e1"),)),)
    plan = Plan(1, (Config((Trigger("t0"),)), Config((Trigger("t0"), Trigger("t1", earliest=True)))), sends)
    starting = [Starting(3.0, 2, 1)] if known else []
    records = [
        *(Started(0.5, 1, 0), Sent(1.0, 0, 1, True), Answered(1.1, 0, 1, 202, "")),
        *(replace(arrived(1.2, 0, sends[0].events[0]), server="t0"), Replied(1.3, 0, 200), Ended(2.0, 1, "crash")),
        *(*starting, arrived(3.1, 1, sends[0].events[0]), Replied(3.2, 1, 200), Ended(4.0, 2, "crash")),
        Quiet(100.0, True),
    ]
    found = {v.promise for v in violations(plan, History(records))}
    assert found == (set() if known else {"only-those-who-want-it-get-it"})


@pytest.mark.parametrize("frozen_s", [0.0, 2.0, 60.0])
def test_a_frozen_gateway_has_no_time_to_record_its_progress(frozen_s: float) -> None:
    faults = (Fault(1.5, "freeze", seconds=frozen_s), Fault(1.6, "freeze", seconds=frozen_s))
    plan = replace(PLAN, configs=(Config((Trigger("t1"),)),), sends=(Send(1, (Event("e1"),)),), faults=faults)
    one = arrived(1.2, 0, plan.sends[0].events[0])
    records = [
        *(Started(0.5, 1, 0), Sent(1.0, 0, 1, True), Answered(1.1, 0, 1, 202, ""), one, Replied(1.3, 0, 200)),
        *(Happened(fault.at, fault, "") for fault in faults if frozen_s),
        *(Ended(10.0, 1, "crash"), Started(11.0, 2, 0), replace(one, at=12.0, number=1, generation=2)),
        *(Replied(12.1, 1, 200), Quiet(100.0, True)),
    ]
    found = {v.promise for v in violations(plan, History(records))}
    assert found == (set() if frozen_s > 10 else {"a-crash-repeats-little"})


@pytest.mark.parametrize("generation", [1, 2])
def test_what_was_sent_before_a_stop_may_arrive_after_it(generation: int) -> None:
    faults = (Fault(2.0, "restart", seconds=10.0),)
    plan = replace(PLAN, configs=(Config((Trigger("t1"),)),), sends=(Send(1, (Event("e1"),)),), faults=faults)
    one = arrived(1.2, 0, plan.sends[0].events[0])
    records = [
        *(Started(0.5, 1, 0), Sent(1.0, 0, 1, True), Answered(1.1, 0, 1, 202, ""), one, Replied(1.3, 0, 200)),
        *(Heard(1.4, 0), Happened(2.0, faults[0], ""), Ended(2.1, 1, "stop"), Started(2.2, 2, 0)),
        *(replace(one, at=12.0, number=1, generation=generation), Replied(12.1, 1, 200), Quiet(100.0, True)),
    ]
    found = {v.promise for v in violations(plan, History(records))}
    assert ("a-stop-repeats-nothing" in found) == (generation == 2)


@pytest.mark.parametrize("later_s", [0.1, 20.0])
def test_what_has_no_answer_yet_may_fail_after_a_success(later_s: float) -> None:
    plan = replace(PLAN, configs=(Config((Trigger("t1", policy=Policy(timeout_s=10.0)),)),))
    one, two = (arrived(1.2, number, event) for number, event in enumerate(plan.sends[0].events))
    two = replace(two, at=1.2 + later_s)
    counts = ("attempts", "delivered", "dead_lettered", "in_flight", "retried", "waiting")
    told = {"name": "t1", "ready": False, "condition": "SubscriberFails", "reason": "no response within 10 s"}
    told |= dict.fromkeys(counts, 0) | {"dead_lettered_by_stage": {}}
    status = Status(50.0, 1, {"triggers": [told], "brokers": []})
    records = [
        *(Started(0.5, 1, 0), Sent(1.0, 0, 1, True), Answered(1.1, 0, 1, 202, ""), one, Replied(1.2, 0, None, "hang")),
        *(two, Replied(two.at, 1, 200), Heard(two.at + 0.1, 1), status, Quiet(60.0, True)),
    ]
    found = {v.promise for v in violations(plan, History(sorted(records, key=lambda record: record.at)))}
    assert ("conditions-are-true" in found) == (later_s > 10)


@pytest.mark.parametrize(("how", "until"), [("hang", 6.0), ("silent", 6.0), ("garbage", 1.3), ("cut-answer", 1.3)])
def test_an_answer_of_any_kind_may_end_an_attempt(how: str, until: float) -> None:
    plan = replace(PLAN, configs=(Config((Trigger("t1", policy=Policy(timeout_s=5.0)),)),))
    one = arrived(1.2, 0, plan.sends[0].events[0])
    facts = Facts(plan, History([Started(0.5, 1, 0), one, Replied(1.3, 0, None, how)]))
    assert certain_end(facts, "t1", facts.attempts[0]) == pytest.approx(until, abs=0.15)


def test_shrinking_finds_what_matters() -> None:
    assert minimal(range(100), lambda items: {17, 80} <= set(items)) == (17, 80)
    assert minimal(range(100), lambda items: True) == ()


def test_a_fault_of_unknown_meaning_is_no_reason_to_fail() -> None:
    assert Fault(1.0, "crash").target == ""
