"""After a stop nothing is tried again: neither deliveries nor letters, whatever is answered late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_file.line_writer import FileTarget, LineWriter
from gateway_testing import FakeClock, ScriptedSink

from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import DELIVERED, Outcome
from gateway_core.delivery.dead_letter import DeadLetterWriter

from .gateway_rig import Parts, running, until

pytestmark = pytest.mark.spec("SAFE-40")

REFUSED = Outcome(False, retry=True, reason="connection refused")
BAD = Outcome(False, code=400, reason="400")


def event(n: int) -> Event:
    return Event({"specversion": "1.0", "id": str(n), "source": "/t", "type": "t"}, position=n)


@pytest.mark.anyio
@pytest.mark.parametrize("answer", [REFUSED, BAD], ids=["retries", "letters"])
async def test_a_stopped_gateway_sends_nothing_more(tmp_path: Path, answer: Outcome) -> None:
    letters = ScriptedSink(default=REFUSED, address="letters:")
    parts = Parts(ScriptedSink(default=answer), letters)
    config: dict[str, Any] = {
        "brokers": {"b": {"ingress": [{"tap": {}}], "dead_letter": {"letters": {}}}},
        "triggers": {"t": {"broker": "b", "subscriber": {"far": {}}}},
        "bridges": {"br": {"source": {"pull": {}}, "sink": {"far": {}}, "dead_letter": {"letters": {}}}},
    }
    async with running(parts, config, tmp_path):
        parts.tap.put(*(event(n) for n in range(3)))
        parts.pull.put(event(3))
        for tap in (parts.tap, parts.pull):
            tap.intake.undeliverable(event(9), REFUSED, "somewhere", [].append)
        await until(lambda: len(letters.sent) > 5)
    sent = len(parts.far.sent), len(letters.sent)
    await anyio.sleep(0.1)  # waits are 2 ms at most here
    assert (len(parts.far.sent), len(letters.sent)) == sent


def test_letters_that_are_stopped_are_not_tried_again() -> None:
    clock, sink = FakeClock(), ScriptedSink(hold=True)
    letters = DeadLetterWriter("broker", "b", sink, clock)
    answers: list[object] = []
    letters.write(event(1), BAD, "x", answers.append)
    letters.write(event(2), BAD, "x", answers.append)
    sink.answer(REFUSED)
    letters.stop()
    sink.answer(REFUSED)
    letters.write(event(3), BAD, "x", answers.append)
    sink.answer(REFUSED)
    assert clock.next_timer() is None
    assert answers == []


def test_letters_on_their_way_follow_to_another_dead_letter() -> None:
    clock, old, new = FakeClock(), ScriptedSink(default=REFUSED), ScriptedSink()
    letters = DeadLetterWriter("broker", "b", old, clock)
    answers: list[object] = []
    letters.write(event(1), BAD, "x", answers.append)
    letters.use(new)
    tried = len(old.sent)
    clock.advance(5)
    assert answers == [None]
    assert (len(old.sent), len(new.sent)) == (tried, 1)
    assert (letters.written, letters.fault) == (1, "")
    assert clock.next_timer() is None


@pytest.mark.anyio
async def test_the_writer_of_lines_leaves_no_timer(tmp_path: Path) -> None:
    clock = FakeClock()
    writer = LineWriter(FileTarget(tmp_path / "f", False), clock)
    await writer.start()
    outcomes: list[Outcome] = []
    writer.write(b"{}", 30.0, outcomes.append)
    await until(lambda: outcomes == [DELIVERED])
    await writer.stop()
    assert clock.next_timer() is None
