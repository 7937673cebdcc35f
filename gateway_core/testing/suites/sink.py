"""What every sink must do (`gateway_core.interfaces.Sink`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread
import pytest

from ...errors import Refused
from ...event import Event
from ...interfaces import Outcome, Sink
from ..vectors import HOSTILE_EVENTS, VECTORS, same_data, texts
from .farside import FarSide, RemoteFarSide
from .kit import PATIENCE_S, Kit, Suite, until

EVENTS = [v.event for v in VECTORS if v.version == "1.0"]


def numbered(count: int, first: int = 0) -> list[Event]:
    """Small events with the ids `n0`, `n1`, …"""
    base = {"specversion": "1.0", "source": "/tidegate/suite", "type": "t", "datacontenttype": "text/plain"}
    return [Event({**base, "id": f"n{n}"}, b"data %d" % n) for n in range(first, first + count)]


class Attempts:
    """The outcomes of attempts, one list for each. `there` is what `look` saw when the last one came."""

    def __init__(self, look: Callable[[], list[Event]] = list) -> None:
        self.outcomes: list[list[Outcome]] = []
        self.there: list[Event] = []
        self._look = look

    def send(self, sink: Sink, event: Event, timeout_s: float = PATIENCE_S) -> None:
        answers: list[Outcome] = []
        self.outcomes.append(answers)

        def done(outcome: Outcome) -> None:
            self.there = self._look()
            answers.append(outcome)

        sink.send(event, timeout_s, done)

    async def ended(self) -> list[Outcome]:
        """All outcomes, once each attempt has one; it must be the only one."""
        await until(lambda: all(self.outcomes), "each attempt to be answered")
        await anyio.sleep(0.02)
        assert [len(answers) for answers in self.outcomes] == [1] * len(self.outcomes), "answered more than once"
        return [answers[0] for answers in self.outcomes]


async def attempt(sink: Sink, event: Event, timeout_s: float = PATIENCE_S) -> Outcome:
    """One attempt's outcome."""
    attempts = Attempts()
    attempts.send(sink, event, timeout_s)
    (outcome,) = await attempts.ended()
    return outcome


@asynccontextmanager
async def running(sink: Sink) -> AsyncIterator[Sink]:
    """The sink, started, and stopped at the end."""
    async with anyio.create_task_group() as tasks:
        await sink.start(tasks)
        yield sink
        with anyio.fail_after(PATIENCE_S):
            await sink.stop()
        tasks.cancel_scope.cancel()


class SinkSuite(Suite):
    """Derive, and write `far_side` and `build`:

    class TestMine(SinkSuite):
        def far_side(self, kit):
            return MyFarSide(kit.folder)

        def build(self, kit, far):
            return kit.sink("mine", {"path": str(far.path)})
    """

    pytestmark = pytest.mark.anyio

    def far_side(self, kit: Kit) -> FarSide:
        raise NotImplementedError

    def build(self, kit: Kit, far: FarSide) -> Sink:
        raise NotImplementedError

    async def test_what_is_delivered_is_there_as_it_was(self, kit: Kit) -> None:
        with self.far_side(kit) as far:
            async with running(self.build(kit, far)) as sink:
                for event in EVENTS:
                    attempts = Attempts(far.events)
                    attempts.send(sink, event)
                    (outcome,) = await attempts.ended()
                    assert outcome.delivered, (event, outcome)
                    assert any(_same(event, found) for found in attempts.there), (
                        f"{event} was not there when it was said so"
                    )
            assert len(far.events()) == len(EVENTS)

    async def test_it_has_an_address_for_status_and_dead_letters(self, kit: Kit) -> None:
        with self.far_side(kit) as far:
            assert self.build(kit, far).address

    async def test_attempts_at_once_are_each_answered_once(self, kit: Kit) -> None:
        with self.far_side(kit) as far:
            async with running(self.build(kit, far)) as sink:
                attempts = Attempts()
                for event in numbered(100):
                    attempts.send(sink, event)
                assert all(o.delivered for o in await attempts.ended())
                assert sorted(str(e.attributes["id"]) for e in far.events()) == sorted(f"n{n}" for n in range(100))

    async def test_sending_does_not_change_the_event(self, kit: Kit) -> None:
        with self.far_side(kit) as far:
            async with running(self.build(kit, far)) as sink:
                (event,) = numbered(1)
                before = dict(event.attributes)
                await attempt(sink, event)
                assert event.attributes == before

    async def test_a_stop_leaves_no_attempt_without_an_answer(self, kit: Kit) -> None:
        with self.far_side(kit) as far:
            attempts = Attempts()
            async with running(self.build(kit, far)) as sink:
                for event in numbered(20):
                    attempts.send(sink, event)
            outcomes = await attempts.ended()
            there = {str(e.attributes["id"]) for e in far.events()}
            claimed = {f"n{n}" for n, o in enumerate(outcomes) if o.delivered}
            assert claimed <= there

    async def test_no_event_keeps_it_from_sending_others(self, kit: Kit) -> None:
        """Each attempt ends with one outcome, or `send` raises `Refused`: then it calls nobody."""
        with self.far_side(kit) as far:
            async with running(self.build(kit, far)) as sink:
                attempts = Attempts()
                for event in HOSTILE_EVENTS.values():
                    try:
                        attempts.send(sink, event, 5)
                    except Refused:
                        assert attempts.outcomes.pop() == []
                await attempts.ended()
                assert (await attempt(sink, numbered(1, 7)[0])).delivered

    async def test_it_starts_and_stops_with_nothing_to_do(self, kit: Kit) -> None:
        with self.far_side(kit) as far:
            async with running(self.build(kit, far)):
                pass


class RemoteSinkSuite(SinkSuite):
    """For a far side that may refuse, fail, hang and be away: a `RemoteFarSide`; by HTTP it is `HttpFarSide`."""

    def far_side(self, kit: Kit) -> RemoteFarSide:
        raise NotImplementedError

    async def test_what_is_refused_is_not_to_be_retried(self, kit: Kit) -> None:
        with self.far_side(kit) as far:
            async with running(self.build(kit, far)) as sink:
                _as_remote(far).refuse()
                outcome = await attempt(sink, numbered(1)[0])
                assert (outcome.delivered, outcome.retry) == (False, False)
                assert outcome.reason

    async def test_what_failed_for_now_is_to_be_retried(self, kit: Kit) -> None:
        with self.far_side(kit) as far:
            async with running(self.build(kit, far)) as sink:
                _as_remote(far).fail()
                outcome = await attempt(sink, numbered(1)[0])
                assert (outcome.delivered, outcome.retry) == (False, True)
                assert outcome.reason

    async def test_it_starts_while_the_far_side_is_away_and_delivers_when_it_is_back(self, kit: Kit) -> None:
        with self.far_side(kit) as far:
            remote = _as_remote(far)
            await anyio.to_thread.run_sync(remote.leave)
            async with running(self.build(kit, far)) as sink:
                outcome = await attempt(sink, numbered(1)[0], 5)
                assert (outcome.delivered, outcome.retry) == (False, True)
                await anyio.to_thread.run_sync(remote.take)
                assert (await attempt(sink, numbered(1, 1)[0])).delivered
                assert [e.attributes["id"] for e in far.events()] == ["n1"]

    async def test_an_attempt_ends_within_its_time(self, kit: Kit) -> None:
        with self.far_side(kit) as far:
            async with running(self.build(kit, far)) as sink:
                _as_remote(far).hang()
                attempts = Attempts()
                for event in numbered(3):
                    attempts.send(sink, event, 0.2)
                assert [(o.delivered, o.retry) for o in await attempts.ended()] == [(False, True)] * 3
                _as_remote(far).take()
                assert (await attempt(sink, numbered(1, 9)[0])).delivered


def _as_remote(far: FarSide) -> RemoteFarSide:
    return far  # type: ignore[return-value]  # `far_side` says so; entering it only forgets


def _same(event: Event, found: Event) -> bool:
    """Whether this is the event; a far side may have more attributes."""
    have = texts(found)
    return all(have.get(n) == v for n, v in texts(event).items()) and same_data(event.data, found.data)
