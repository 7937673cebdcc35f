"""What the log says of failing subscribers, stuck sinks and refused inputs, and what it never says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from gateway_testing import FakeClock, MemoryFeed, ScriptedSink

from gateway_core.contract.config_model import DeliveryConfig
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import DELIVERED, Outcome
from gateway_core.contract.one_line import harmless, one_line
from gateway_core.delivery import Subscription
from gateway_core.pipeline.intake import Counted
from gateway_core.runtime.log_output import JsonFormatter, TextFormatter

from .gateway_rig import Parts, running, until

REFUSED = Outcome(False, retry=True, reason="connection refused")
NASTY = "gone\n12:00:00.000 ERROR tidegate: forged\r\x1b[2J\x00\u202eabc\u2028" + "x" * 5000


def event(n: int, **more: str) -> Event:
    return Event({"specversion": "1.0", "id": str(n), "source": "/t", "type": "t", **more}, position=n)


class Rig:
    def __init__(self, sink: ScriptedSink, **policy: object) -> None:
        self.clock, self.feed, self.letters = FakeClock(), MemoryFeed(), ScriptedSink()
        self.subscription = Subscription(
            *("late", sink, DeliveryConfig(**policy), self.clock),  # type: ignore[arg-type]
            dead_letter=self.letters,
        )
        self.subscription.feed = self.feed


@pytest.mark.spec("SAFE-38")
def test_failure_not_ready_and_recovery_are_logged_and_little_else(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    sink = ScriptedSink(default=REFUSED, address="http://far.example/in")
    rig = Rig(sink, retry=1000)
    for n in range(1, 500):
        rig.subscription.offer(event(n))
    first, second = caplog.messages
    assert "trigger late" in first
    assert "http://far.example/in" in first
    assert "connection refused" in first
    assert "trigger late is not ready: 5 attempts in a row failed at http://far.example/in" in second
    rig.clock.advance(600)
    later = caplog.messages[2:]
    assert 5 <= len(later) <= 11
    assert all("still not ready" in line and "499 events held" in line for line in later)
    sink.default = DELIVERED
    rig.clock.advance(60)
    assert "trigger late is ready again: http://far.example/in took an event after" in caplog.messages[-1]
    assert len(rig.feed.acked) == 499


@pytest.mark.slow
@pytest.mark.spec("SAFE-38")
def test_a_trigger_that_comes_and_goes_is_not_logged_each_time(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    outcomes = [o for _ in range(500) for o in [*[Outcome(False, code=400, reason="400")] * 6, DELIVERED]]
    rig = Rig(ScriptedSink(outcomes))
    for n in range(1, 3501):
        rig.subscription.offer(event(n))
    assert len([m for m in caplog.messages if "dead letter" not in m]) <= 4


@pytest.mark.spec("SAFE-38")
def test_what_others_wrote_makes_no_line_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(ScriptedSink(default=Outcome(False, reason=NASTY), address=f"http://x/{NASTY}"))
    for n in range(1, 8):
        rig.subscription.offer(event(n, source=NASTY))
    assert caplog.records
    for record in caplog.records:
        for line in (TextFormatter(False).format(record), JsonFormatter().format(record)):
            assert line.isprintable()
            assert len(line) < 3000


@pytest.mark.spec("SAFE-38")
def test_the_formatter_is_the_last_guard() -> None:
    record = logging.LogRecord("x", logging.ERROR, "f", 1, "said: %s", (NASTY,), None)
    record.peer = NASTY
    first, *rest = TextFormatter(False).format(record).split("\n")
    assert first.endswith("said: gone")
    assert all(line.startswith("    ") and line.isprintable() for line in rest)
    assert len(harmless("y" * 100_000)) < 20_000


def test_one_line() -> None:
    assert one_line("a  b\n c") == "a b c"
    assert one_line("a\x1b[1mb") == "a\\x1b[1mb"
    assert one_line("\u202e!") == "\\u202e!"
    assert len(one_line("z" * 10_000)) == 300
    assert one_line("z" * 300) == "z" * 300
    assert one_line(None) == "None"


@pytest.mark.spec("SAFE-38")
def test_refused_inputs_are_logged_with_their_number_at_a_bounded_rate(caplog: pytest.LogCaptureFixture) -> None:
    intake = Counted("b", ())
    for _ in range(1000):
        intake.refuse(Refused(f"id is missing {NASTY}"))
    (line,) = caplog.messages
    assert line.startswith("b refused inputs: 1; the last: id is missing")
    assert line.isprintable()
    assert intake.refused == 1000


@pytest.mark.spec("SAFE-39")
@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit(3)])
def test_a_sink_that_raises_no_ordinary_exception_stops_nobody(error: BaseException) -> None:
    class Raising(ScriptedSink):
        def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
            if not self.sent:
                self.sent.append(event)
                raise error
            super().send(event, timeout_s, done)

    rig = Rig(Raising())
    rig.subscription.offer(event(1))
    rig.subscription.offer(event(2))
    rig.clock.advance(5)
    assert sorted(rig.feed.acked) == [1, 2]
    assert rig.letters.sent == []


@pytest.mark.spec("SAFE-39")
def test_an_attempt_of_which_the_sink_says_nothing_ends_and_is_tried_again() -> None:
    sink = ScriptedSink(hold=True)
    rig = Rig(sink, timeout_s=10, retry=1)
    rig.subscription.offer(event(1))
    rig.clock.advance(39)
    assert rig.subscription.in_flight == 1
    rig.clock.advance(42)
    assert len(sink.held) == 2, "the second attempt"
    rig.clock.advance(100)
    assert [e.attributes["id"] for e in rig.letters.sent] == ["1"]
    assert "reported no outcome" in rig.letters.sent[0].attributes["tidegatereason"]
    for late in sink.held:
        late(DELIVERED)
    assert rig.feed.acked == [1]
    assert (rig.subscription.in_flight, rig.subscription.held) == (0, 0)


@pytest.mark.spec("SAFE-39")
def test_a_dead_letter_that_says_nothing_is_asked_again() -> None:
    letters = ScriptedSink(hold=True)
    rig = Rig(ScriptedSink(default=Outcome(False, reason="400")))
    rig.subscription = Subscription("t", rig.subscription.sink, DeliveryConfig(), rig.clock, dead_letter=letters)
    rig.subscription.feed = rig.feed
    rig.subscription.offer(event(1))
    rig.clock.advance(62)
    assert len(letters.held) == 2
    letters.answer(index=1)
    letters.answer()
    assert rig.feed.acked == [1]


@pytest.mark.spec("SAFE-40")
def test_no_timer_goes_on_after_the_stop_whatever_is_answered_late() -> None:
    sink, letters = ScriptedSink(hold=True), ScriptedSink(hold=True)
    clock = FakeClock()
    subscription = Subscription("t", sink, DeliveryConfig(max_in_flight=8), clock, dead_letter=letters)
    for n in range(1, 20):
        subscription.offer(event(n))
    sink.answer(Outcome(False, reason="400"))
    sink.answer(REFUSED)
    subscription.stop()
    while sink.held:
        sink.answer(REFUSED)
    letters.answer(REFUSED)
    assert clock.next_timer() is None


@pytest.mark.anyio
@pytest.mark.spec("SAFE-38")
@pytest.mark.parametrize("kind", ["triggers", "bridges"])
async def test_a_running_gateway_says_which_trigger_is_not_ready(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    parts = Parts(ScriptedSink(default=REFUSED, address="http://far.example/"))
    config = {
        "triggers": {
            "brokers": {"b": {"ingress": [{"tap": {}}], "dead_letter": {"letters": {}}}},
            "triggers": {"t": {"broker": "b", "subscriber": {"far": {}}}},
        },
        "bridges": {"bridges": {"t": {"source": {"pull": {}}, "sink": {"far": {}}}}},
    }[kind]
    async with running(parts, config, tmp_path):
        (parts.tap if kind == "triggers" else parts.pull).put(event(0))
        await until(lambda: any(f"{kind[:-1]} t is not ready" in m for m in caplog.messages))
        assert any("http://far.example/" in m for m in caplog.messages)
