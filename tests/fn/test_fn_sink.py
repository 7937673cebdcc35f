"""Events to a function, one way: deadlines, replies and errors, with a clock that stands still."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import gateway_cloudevents.plugin
import gateway_fn.plugin
import pytest
from gateway_testing import FakeClock, MemoryFeed, ScriptedSink

from gateway_core.config.registry import Registry
from gateway_core.contract.component import BuildContext, Component, Config, SinkRef, Transport
from gateway_core.contract.config_model import DeliveryConfig
from gateway_core.contract.errors import StartError
from gateway_core.contract.event import Event
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.interfaces import Accepted, Outcome, Sink
from gateway_core.delivery import Subscription

ERROR = "io.fnproject.fnError"
BUSY = Outcome(False, retry=True, code=503, reason="503 Service Unavailable")
FN = {"cloudEventsVersion": "0.1", "eventType": "t", "source": "/s", "eventID": "1"}
CE = {"specversion": "1.0", "type": "t", "source": "/s", "id": "1"}


class Options(Config):
    reading: bool = False


class Reading(ScriptedSink):
    async def start_reading(self, feed: Any, tasks: Any) -> None: ...
    def state(self) -> dict[str, Any]:
        return {}


class Functions:
    """A plugin whose sink `scripted` is `function`."""

    def __init__(self, function: ScriptedSink) -> None:
        self.function = function

    @hookimpl
    def gateway_transports(self) -> list[Transport]:
        def build(options: Options, context: BuildContext) -> Any:
            assert context.wants_reply
            return Reading() if options.reading else self.function

        return [Transport("scripted", sink=Component("scripted", "For tests.", Options, build))]


class Bench:
    """An `fn` sink around a scripted function."""

    def __init__(self, *script: Outcome, wants_reply: bool = True, hold: bool = False, **options: Any) -> None:
        self.clock = FakeClock()
        self.function = ScriptedSink(script, hold=hold, address="http://f.example/")
        registry = Registry()
        registry.add("cloudevents", gateway_cloudevents.plugin)
        registry.add("fn", gateway_fn.plugin)
        registry.add("functions", Functions(self.function))
        context = BuildContext("test", Path(), self.clock, registry, wants_reply=wants_reply)
        self.sink: Sink = registry.build(SinkRef("fn", {"function": "scripted", **options}), context)
        self.outcomes: list[Outcome] = []

    def send(self, attributes: dict[str, Any], position: int = 1, timeout_s: float = 30.0) -> Outcome | None:
        """One attempt; its outcome, where it has one already."""
        count = len(self.outcomes)
        self.sink.send(Event(dict(attributes), b"{}", position=position), timeout_s, self.outcomes.append)
        return self.outcomes[-1] if len(self.outcomes) > count else None

    def deadline(self, index: int = -1) -> datetime:
        attributes = self.function.sent[index].attributes
        text = attributes.get("iofnprojectdeadline") or attributes["extensions"]["ioFnProjectDeadline"]
        assert text.endswith("Z")
        return datetime.fromisoformat(text)

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now_ns() / 1e9, tz=self.deadline().tzinfo)


@pytest.mark.spec("FN-12", "FN-14")
@pytest.mark.parametrize("attributes", [FN, FN | {"extensions": {"own": "kept"}}, CE | {"own": "kept"}])
def test_the_deadline_goes_with_the_event_and_nothing_else_changes(attributes: dict[str, Any]) -> None:
    bench = Bench()
    outcome = bench.send(attributes, timeout_s=12.5)
    assert outcome is not None
    assert outcome.delivered
    assert bench.deadline() == bench.now() + timedelta(seconds=12.5)
    (sent,) = bench.function.sent
    left = dict(sent.attributes)
    if "specversion" in left:
        del left["iofnprojectdeadline"]
    else:
        left["extensions"] = {k: v for k, v in left["extensions"].items() if k != "ioFnProjectDeadline"}
    assert left == {**attributes, **({"extensions": attributes.get("extensions", {})} if "eventID" in left else {})}
    assert sent.data == b"{}"


@pytest.mark.spec("FN-12")
def test_events_are_sent_in_the_version_that_the_function_wants() -> None:
    bench = Bench(version="1.0")
    bench.send(FN)
    assert bench.function.sent[0].attributes.keys() == {*CE, "iofnprojectdeadline"}
    bench = Bench(version="0.1")
    bench.send(CE)
    assert bench.function.sent[0].attributes.keys() == {*FN, "extensions"}


@pytest.mark.spec("FN-12", "FN-13")
def test_retries_have_the_deadline_of_the_first_attempt() -> None:
    bench = Bench(BUSY, BUSY, deadline_s=60)
    bench.send(CE)
    first = bench.deadline()
    bench.clock.advance(20)
    bench.send(CE)
    assert bench.deadline() == first
    bench.send(CE | {"id": "2"}, position=2)
    assert bench.deadline() == first + timedelta(seconds=20)


@pytest.mark.spec("FN-13")
def test_past_the_deadline_no_attempt_starts() -> None:
    bench = Bench(BUSY, deadline_s=60)
    outcome = bench.send(CE)
    assert outcome is BUSY
    bench.clock.advance(60)
    outcome = bench.send(CE)
    assert outcome is not None
    assert (outcome.delivered, outcome.retry) == (False, False)
    assert outcome.reason.startswith("past its deadline")
    assert len(bench.function.sent) == 1


@pytest.mark.spec("FN-13")
def test_an_attempt_that_fails_at_the_deadline_is_the_last() -> None:
    bench = Bench(hold=True)
    bench.send(CE, timeout_s=5)
    bench.clock.advance(5)
    bench.function.answer(Outcome(False, retry=True, code=504, data=b"x", reason="no response within 5 s"))
    (outcome,) = bench.outcomes
    assert (outcome.retry, outcome.code, outcome.data) == (False, 504, b"x")
    assert outcome.reason == "past its deadline: no response within 5 s"


def test_an_attempt_has_the_time_that_is_left() -> None:
    limits: list[float] = []
    bench = Bench(deadline_s=10)
    bench.function.send = lambda event, timeout_s, done: (limits.append(timeout_s), done(BUSY))[0]  # type: ignore
    bench.send(CE, timeout_s=8)
    bench.clock.advance(7)
    bench.send(CE, timeout_s=8)
    assert limits == [8, 3]


def test_an_event_of_that_place_that_is_done_has_left_no_deadline() -> None:
    bench = Bench(BUSY, Outcome(True), deadline_s=60)
    bench.send(CE)
    bench.send(CE)
    bench.clock.advance(100)
    outcome = bench.send(CE)
    assert outcome is not None
    assert outcome.delivered


def test_deadlines_of_events_that_were_given_up_are_forgotten() -> None:
    bench = Bench(*[BUSY] * 3, deadline_s=60)
    bench.send(CE, position=1)
    bench.clock.advance(4000)
    bench.send(CE, position=2)
    bench.send(CE, position=1)
    assert len(bench.function.sent) == 3


@pytest.mark.spec("FN-11", "FN-14")
@pytest.mark.parametrize(("attributes", "id", "time"), [(FN, "eventID", "eventTime"), (CE, "id", "time")])
def test_what_a_function_returns_is_a_reply_from_the_function(attributes: dict[str, Any], id: str, time: str) -> None:
    bench = Bench(Outcome(True, code=200, reply=Event(dict(attributes), b"{}")))
    outcome = bench.send(CE)
    assert outcome is not None
    assert outcome.reply is not None
    reply = outcome.reply.attributes
    assert reply["source"] == "http://f.example/"
    assert len(reply[id]) == 36
    assert datetime.fromisoformat(reply[time]) == bench.now()
    assert (outcome.code, outcome.reply.data) == (200, b"{}")


def test_a_reply_that_nobody_wants_is_dropped() -> None:
    bench = Bench(Outcome(True, code=200, reply=Event(dict(CE))), wants_reply=False)
    outcome = bench.send(CE)
    assert outcome is not None
    assert (outcome.delivered, outcome.reply) == (True, None)


@pytest.mark.spec("FN-10")
@pytest.mark.parametrize("attributes", [FN | {"eventType": "io.fnproject.fnError"}, CE | {"type": ERROR}])
@pytest.mark.parametrize("wants_reply", [True, False])
def test_an_error_is_a_failed_attempt(attributes: dict[str, Any], wants_reply: bool) -> None:
    error = Event(attributes, b'{"message": "no such order"}')
    bench = Bench(Outcome(True, code=200, reply=error), wants_reply=wants_reply)
    outcome = bench.send(CE)
    assert outcome is not None
    assert (outcome.delivered, outcome.retry, outcome.reason) == (False, True, "no such order")
    assert (outcome.data, outcome.reply) == (error.data, None)


@pytest.mark.spec("FN-10", "FN-13")
def test_a_subscription_retries_errors_until_the_deadline_and_then_buries_the_event() -> None:
    error = Event(CE | {"type": ERROR}, b'{"message": "no such order"}')
    bench = Bench(*[Outcome(True, code=200, reply=error)] * 99, deadline_s=7)
    letters, published = ScriptedSink(), []

    def publish(events: list[Event], done: Accepted) -> None:
        published.extend(events)
        done(None)

    policy = DeliveryConfig(retry=50, backoff="linear", backoff_delay_s=2, backoff_max_s=2)
    s = Subscription("t", bench.sink, policy, bench.clock, dead_letter=letters, publish=publish, draw=lambda: 0.999)
    s.feed = MemoryFeed()
    s.offer(Event(dict(CE), b"{}", position=1))
    bench.clock.advance(60)
    assert len(bench.function.sent) == 4  # at 0, 2, 4 and 6 s
    (letter,) = letters.sent
    assert letter.attributes["tidegatereason"].startswith("past its deadline")
    assert (s.dead_lettered, published) == (1, [])
    assert letter.attributes["tidegateattempts"] == 4, "what never left is no attempt"
    assert [f.attempt for f in s.failures.of("1", None)] == [1, 2, 3, 4]


def test_a_sink_that_reads_by_itself_is_no_function() -> None:
    with pytest.raises(StartError, match=r"test\.function: 'scripted' reads the channel"):
        Bench(function={"scripted": {"reading": True}})
