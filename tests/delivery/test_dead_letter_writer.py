"""Dead letters that sources ask for: of a broker, of a bridge, and when the dead letter is unavailable."""

from __future__ import annotations

from typing import Any

import pytest
from gateway_testing import FakeClock, ScriptedSink

from gateway_core.contract.config_model import DeliveryConfig
from gateway_core.contract.errors import StorageError
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Observer, Outcome, Sink
from gateway_core.delivery import Subscription
from gateway_core.delivery.dead_letter import DeadLetterWriter
from gateway_core.pipeline.bridge import Bridge

LATE = Outcome(False, code=504, data=b"body", reason="too late")
AWAY = Outcome(False, retry=True, reason="away")


def event() -> Event:
    return Event(
        {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b"x", received_ns=1_800_000_000 * 10**9
    )


class Seen(Observer):
    def __init__(self) -> None:
        self.letters: list[tuple[str, Event]] = []
        self.attempts: list[tuple[str, bool]] = []

    def dead_lettered(self, trigger: str, event: Event) -> None:
        self.letters.append((trigger, event))

    def attempted(self, trigger: str, event: Event, outcome: Outcome, seconds: float) -> None:
        self.attempts.append((trigger, outcome.delivered))


def test_a_letter_says_why_and_observers_are_told() -> None:
    sink, clock, seen, answers = ScriptedSink(), FakeClock(), Seen(), []
    letters = DeadLetterWriter("broker", "b", sink, clock, (seen,))
    clock.advance(2)
    letters.write(event(), LATE, "http://f/", answers.append)
    assert answers == [None]
    (letter,) = sink.sent
    facts = {k: v for k, v in letter.attributes.items() if k.startswith(("knative", "tidegate"))}
    assert facts == {
        "knativeerrordest": "http://f/",
        "knativeerrorcode": "504",
        "knativeerrordata": "Ym9keQ==",
        "tidegatetrigger": "b",
        "tidegateattempts": 1,
        "tidegatefirst": "2027-01-15T08:00:00.000000000Z",
        "tidegatelast": "2027-01-15T08:00:02.000000000Z",
        "tidegatestage": "delivery",
        "tidegatereason": "too late",
    }
    assert (letters.written, seen.letters) == (1, [("b", letter)])


def test_a_letter_is_tried_until_it_is_safe(caplog: pytest.LogCaptureFixture) -> None:
    sink, clock, answers = ScriptedSink([AWAY, AWAY]), FakeClock(), []
    letters = DeadLetterWriter("broker", "b", sink, clock)
    letters.write(event(), LATE, "http://f/", answers.append)
    assert (answers, letters.written) == ([], 0)
    assert "away" in caplog.text
    clock.advance(60)
    assert (answers, letters.written, len(sink.sent)) == ([None], 1, 3)


def test_a_fault_lasts_until_no_letter_waits_for_another_try() -> None:
    sink, clock, answers = ScriptedSink(hold=True), FakeClock(), []
    letters = DeadLetterWriter("broker", "b", sink, clock)
    for _ in range(2):
        letters.write(event(), LATE, "http://f/", answers.append)
        sink.answer(AWAY)
    letters.write(event(), LATE, "http://f/", answers.append)
    sink.answer()
    assert (answers, letters.fault) == ([None], "dead letter memory: failed: away")
    clock.advance(60)
    sink.answer()
    assert (len(answers), letters.fault) == (2, "dead letter memory: failed: away")
    sink.answer()
    assert (len(answers), letters.fault) == (3, "")


@pytest.mark.spec("SAFE-34")
def test_a_letter_for_which_there_is_no_memory_is_made_later() -> None:
    class Large(dict[str, object]):
        tries = 0

        def items(self) -> Any:
            self.tries += 1
            if self.tries < 3:
                raise MemoryError
            return super().items()

    sink, clock, answers = ScriptedSink(), FakeClock(), []
    letters = DeadLetterWriter("broker", "b", sink, clock)
    letters.write(Event(Large(event().attributes), b"x"), LATE, "http://f/", answers.append)
    assert (sink.sent, answers) == ([], [])
    assert letters.fault == "dead letter memory: failed: MemoryError"
    clock.advance(60)
    assert answers == [None]
    assert [(e.attributes["id"], e.attributes["tidegatereason"]) for e in sink.sent] == [("1", "too late")]
    assert letters.fault == ""


def test_a_bridges_source_is_told_where_there_is_no_dead_letter() -> None:
    bridge, answers, sink = Bridge("b", None), [], ScriptedSink()

    def subscription(dead_letter: Sink | None) -> Subscription:
        return Subscription("b", ScriptedSink(), DeliveryConfig(), FakeClock(), dead_letter=dead_letter, what="bridge")

    bridge.subscription = subscription(None)
    bridge.undeliverable(event(), LATE, "http://f/", answers.append)
    assert isinstance(answers[0], StorageError)
    bridge.subscription = subscription(sink)
    bridge.undeliverable(event(), LATE, "http://f/", answers.append)
    assert (answers[1:], len(sink.sent)) == ([None], 1)


def test_attempts_that_sources_make_are_counted_and_observed() -> None:
    seen = Seen()
    bridge = Bridge("b", None, (seen,))
    bridge.attempted(event(), LATE, 0.1)
    bridge.attempted(event(), Outcome(True), 0.1)
    assert (bridge.failed, seen.attempts) == (1, [("b", False), ("b", True)])
