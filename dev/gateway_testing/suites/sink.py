"""What every sink must do (`gateway_core.contract.interfaces.Sink`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread
import pytest

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome, Sink

from ..vectors import HOSTILE_EVENTS, VECTORS, same_data, texts
from .faulty_codec import FAULTY_CODEC, RAISES
from .kit import PATIENCE_S, Kit, Suite, patience_s, until
from .remote import ControllableRemote, Remote, ReturningRemote

AWAY_S = 1.0
"""How long an attempt may take while the remote side is down, in seconds: a sink may wait for it that long."""
EVENTS = [v.event for v in VECTORS if v.version == "1.0"]


def numbered(count: int, first: int = 0) -> list[Event]:
    """Small events with the ids `n0`, `n1`, …"""
    base = {"specversion": "1.0", "source": "/tidegate/suite", "type": "t", "datacontenttype": "text/plain"}
    return [Event({**base, "id": f"n{n}"}, b"data %d" % n) for n in range(first, first + count)]


class Attempts:
    """The outcomes of attempts, one list per attempt. `there` is what `look` returned when the last one came."""

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
        """Waits until each attempt has exactly one outcome, and returns all."""
        await until(lambda: all(self.outcomes), "each attempt to be answered")
        await anyio.sleep(0.02)
        assert [len(answers) for answers in self.outcomes] == [1] * len(self.outcomes), "answered more than once"
        return [answers[0] for answers in self.outcomes]


async def attempt(sink: Sink, event: Event, timeout_s: float = PATIENCE_S) -> Outcome:
    """The outcome of one attempt."""
    attempts = Attempts()
    attempts.send(sink, event, timeout_s)
    (outcome,) = await attempts.ended()
    return outcome


@asynccontextmanager
async def running(sink: Sink) -> AsyncIterator[Sink]:
    """A started sink, stopped at the end."""
    async with anyio.create_task_group() as tasks:
        await sink.start(tasks)
        yield sink
        with anyio.move_on_after(patience_s()) as limit:
            await sink.stop()
        assert not limit.cancelled_caught, f"the stop did not end within {patience_s():g} s"
        tasks.cancel_scope.cancel()


class SinkSuite(Suite):
    """Subclass it and write `remote` and `build`:

    class TestMine(SinkSuite):
        def remote(self, kit):
            return MyFarSide(kit.folder)

        def build(self, kit, far):
            return kit.sink("mine", {"path": str(far.path)})
    """

    pytestmark = pytest.mark.anyio

    def remote(self, kit: Kit) -> Remote:
        raise NotImplementedError

    def build(self, kit: Kit, remote: Remote) -> Sink:
        raise NotImplementedError

    async def test_what_is_delivered_is_there_as_it_was(self, kit: Kit) -> None:
        with self.remote(kit) as remote:
            async with running(self.build(kit, remote)) as sink:
                for event in EVENTS:
                    attempts = Attempts(remote.events)
                    attempts.send(sink, event)
                    (outcome,) = await attempts.ended()
                    assert outcome.delivered, (event, outcome)
                    assert any(_same(event, found) for found in attempts.there), (
                        f"{event} had not arrived when its outcome was reported"
                    )
            assert len(remote.events()) == len(EVENTS)

    async def test_it_has_an_address_for_status_and_dead_letters(self, kit: Kit) -> None:
        with self.remote(kit) as remote:
            assert self.build(kit, remote).address

    async def test_attempts_at_once_are_each_answered_once(self, kit: Kit) -> None:
        with self.remote(kit) as remote:
            async with running(self.build(kit, remote)) as sink:
                attempts = Attempts()
                for event in numbered(100):
                    attempts.send(sink, event)
                assert all(o.delivered for o in await attempts.ended())
                assert sorted(str(e.attributes["id"]) for e in remote.events()) == sorted(f"n{n}" for n in range(100))

    async def test_sending_does_not_change_the_event(self, kit: Kit) -> None:
        with self.remote(kit) as remote:
            async with running(self.build(kit, remote)) as sink:
                (event,) = numbered(1)
                before = dict(event.attributes)
                await attempt(sink, event)
                assert event.attributes == before

    async def test_a_stop_leaves_no_attempt_without_an_answer(self, kit: Kit) -> None:
        with self.remote(kit) as remote:
            attempts = Attempts()
            async with running(self.build(kit, remote)) as sink:
                for event in numbered(20):
                    attempts.send(sink, event)
            outcomes = await attempts.ended()
            there = {str(e.attributes["id"]) for e in remote.events()}
            claimed = {f"n{n}" for n, o in enumerate(outcomes) if o.delivered}
            assert claimed <= there

    async def test_no_event_keeps_it_from_sending_others(self, kit: Kit) -> None:
        """Each attempt ends with one outcome, or `send` raises `Refused` and does not call `done`."""
        with self.remote(kit) as remote:
            async with running(self.build(kit, remote)) as sink:
                attempts = Attempts()
                for event in HOSTILE_EVENTS.values():
                    try:
                        attempts.send(sink, event, 5)
                    except Refused:
                        assert attempts.outcomes.pop() == []
                await attempts.ended()
                assert (await attempt(sink, numbered(1, 7)[0])).delivered

    async def test_it_starts_and_stops_with_nothing_to_do(self, kit: Kit) -> None:
        with self.remote(kit) as remote:
            async with running(self.build(kit, remote)):
                pass


class ReconnectingSinkSuite(SinkSuite):
    """For sinks whose remote side goes away and comes back: a `ReturningRemote`. What it does not get fails and is to
    be retried; the core retries."""

    def remote(self, kit: Kit) -> ReturningRemote:
        raise NotImplementedError

    def with_codec(self, kit: Kit, remote: Remote, codec: str) -> Sink | None:
        """The same sink with this codec, to see what it does with one that raises; None if it has no codec."""
        return None

    async def test_it_delivers_again_when_the_remote_side_is_back(self, kit: Kit) -> None:
        with self.remote(kit) as entered:
            remote = _as_returning(entered)
            async with running(self.build(kit, remote)) as sink:
                assert (await attempt(sink, numbered(1)[0])).delivered
                for n in (1, 3):
                    await anyio.to_thread.run_sync(remote.leave)
                    outcome = await attempt(sink, numbered(1, n)[0], AWAY_S)
                    assert (outcome.delivered, outcome.retry) == (False, True)
                    assert outcome.reason
                    await anyio.to_thread.run_sync(remote.take)
                    await self._until_delivered(sink, n + 1)
                there = {str(event.attributes["id"]) for event in remote.events()}
                assert {"n0", "n2", "n4"} <= there

    async def test_it_starts_while_the_remote_side_is_away_and_delivers_when_it_is_back(self, kit: Kit) -> None:
        with self.remote(kit) as entered:
            remote = _as_returning(entered)
            await anyio.to_thread.run_sync(remote.leave)
            async with running(self.build(kit, remote)) as sink:
                outcome = await attempt(sink, numbered(1)[0], AWAY_S)
                assert (outcome.delivered, outcome.retry) == (False, True)
                await anyio.to_thread.run_sync(remote.take)
                await self._until_delivered(sink, 1)
                assert "n1" in [event.attributes["id"] for event in remote.events()]

    async def test_an_outage_leaves_no_attempt_without_an_answer(self, kit: Kit) -> None:
        with self.remote(kit) as entered:
            remote = _as_returning(entered)
            async with running(self.build(kit, remote)) as sink:
                attempts = Attempts()
                for event in numbered(50):
                    attempts.send(sink, event, AWAY_S)
                await anyio.to_thread.run_sync(remote.leave)
                for event in numbered(50, 50):
                    attempts.send(sink, event, AWAY_S)
                outcomes = await attempts.ended()
                assert all(outcome.delivered or outcome.retry for outcome in outcomes)
                await anyio.to_thread.run_sync(remote.take)
                await self._until_delivered(sink, 100)
            there = {str(event.attributes["id"]) for event in remote.events()}
            assert {f"n{n}" for n, outcome in enumerate(outcomes) if outcome.delivered} <= there

    async def test_a_stop_ends_while_the_remote_side_is_away(self, kit: Kit) -> None:
        with self.remote(kit) as entered:
            remote = _as_returning(entered)
            attempts = Attempts()
            async with running(self.build(kit, remote)) as sink:
                assert (await attempt(sink, numbered(1)[0])).delivered
                await anyio.to_thread.run_sync(remote.leave)
                for event in numbered(5, 1):
                    attempts.send(sink, event, 10)
            assert not any(outcome.delivered for outcome in await attempts.ended())

    async def test_a_codec_that_raises_costs_one_attempt(self, kit: Kit) -> None:
        """The sink may pass on what the codec raised: the core counts it as a failed attempt."""
        with self.remote(kit) as remote:
            sink = self.with_codec(kit, remote, FAULTY_CODEC)
            if sink is None:
                return
            async with running(sink):
                attempts = Attempts()
                try:
                    attempts.send(sink, numbered(1)[0].with_attributes(id=RAISES), 5)
                except Exception:
                    assert attempts.outcomes.pop() == []
                assert not any(outcome.delivered for outcome in await attempts.ended())
                assert (await attempt(sink, numbered(1, 1)[0])).delivered

    async def _until_delivered(self, sink: Sink, number: int) -> None:
        """Tries an event until it is delivered: a sink may wait a little before it connects again."""
        with anyio.move_on_after(patience_s()):
            while not (await attempt(sink, numbered(1, number)[0], 5)).delivered:  # noqa: ASYNC110
                await anyio.sleep(0.05)
            return
        raise AssertionError(f"nothing was delivered within {patience_s():g} s after the remote side came back")


class RemoteSinkSuite(ReconnectingSinkSuite):
    """For remotes that can refuse, fail, hang and be down: a `ControllableRemote`; for HTTP `HttpRemote`."""

    def remote(self, kit: Kit) -> ControllableRemote:
        raise NotImplementedError

    async def test_what_is_refused_is_not_to_be_retried(self, kit: Kit) -> None:
        with self.remote(kit) as remote:
            async with running(self.build(kit, remote)) as sink:
                _as_remote(remote).refuse()
                outcome = await attempt(sink, numbered(1)[0])
                assert (outcome.delivered, outcome.retry) == (False, False)
                assert outcome.reason

    async def test_what_failed_for_now_is_to_be_retried(self, kit: Kit) -> None:
        with self.remote(kit) as remote:
            async with running(self.build(kit, remote)) as sink:
                _as_remote(remote).fail()
                outcome = await attempt(sink, numbered(1)[0])
                assert (outcome.delivered, outcome.retry) == (False, True)
                assert outcome.reason

    async def test_an_attempt_ends_within_its_time(self, kit: Kit) -> None:
        with self.remote(kit) as remote:
            async with running(self.build(kit, remote)) as sink:
                _as_remote(remote).hang()
                attempts = Attempts()
                for event in numbered(3):
                    attempts.send(sink, event, 0.2)
                assert [(o.delivered, o.retry) for o in await attempts.ended()] == [(False, True)] * 3
                _as_remote(remote).take()
                assert (await attempt(sink, numbered(1, 9)[0])).delivered


def _as_returning(remote: Remote) -> ReturningRemote:
    return remote  # type: ignore[return-value]  # `remote` says so; entering it only forgets


def _as_remote(remote: Remote) -> ControllableRemote:
    return remote  # type: ignore[return-value]  # `remote` says so; entering it only forgets


def _same(event: Event, found: Event) -> bool:
    """Whether this is the event; the remote may add attributes."""
    have = texts(found)
    return all(have.get(n) == v for n, v in texts(event).items()) and same_data(event.data, found.data)
