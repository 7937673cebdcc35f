"""Replays inside a running gateway: one at a time, the others wait.

An event goes to the trigger or bridge that gave it up, and to no other: whatever the channel, it stays out of it. It is
removed once the subscriber has it, and what fails again stays as it is. An input that its broker never took, and an
event of a replay with `all_triggers`, goes to its broker as a reply of a subscriber does: stored by the channel, then
delivered to all triggers that match it; it is removed once it is stored, and what fails again is a new dead letter.

No ingress is involved, so no credentials are needed, and no policy is evaluated again: policies say which senders may
send, and this broker took this event from its sender before. What an admin has edited counts as the admin's own; the
audit log says who. An edited event replaces its dead letter only when it was delivered. What was sent is removed by
portions: after a crash at most one of them is sent again.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup
from gateway_api.routes import Problem
from gateway_audit_log.log import audit_log

from gateway_core.contract.capabilities import FindsGivenUp, GivenUp
from gateway_core.contract.dead_letter_facts import without_facts
from gateway_core.contract.errors import Overloaded, Refused, StorageError
from gateway_core.contract.event import Event, id_of
from gateway_core.contract.interfaces import Outcome
from gateway_core.contract.one_line import one_line
from gateway_core.contract.outcome import Stage
from gateway_core.contract.topology import DeliveryView

from .dead_letters import DeadLetter, Query, Stores, stores_of
from .line import last_ns
from .replay import Replay, ReplaySeen, selection
from .replaying import PORTION, Removals, was_event

if TYPE_CHECKING:
    from gateway_core.contract.services import GatewayView

log = logging.getLogger("tidegate.deadletter")

ACTION = "dlq.replay"
MOST_WAITING = 16
MOST_KEPT = 20
MOST_RATE = 100_000
_TRIES = 5
_WAIT_S = 0.25
_ANSWER_S = 30.0


@dataclass(frozen=True, slots=True)
class Reach:
    """How many events a replay to all triggers would send, and the triggers of their brokers."""

    count: int
    triggers: Sequence[str]


class Replays:
    """The replays of a gateway: the one that runs, those that wait, and the last ones."""

    def __init__(self, gateway: GatewayView) -> None:
        self._gateway = gateway
        self._tasks: TaskGroup | None = None
        self._waiting: deque[Replay] = deque()
        self._idle = anyio.Event()
        self._idle.set()
        self.known: dict[str, Replay] = {}
        self.failed = 0
        """How many have failed since the start."""

    def begin(self, tasks: TaskGroup) -> None:
        """Runs replays in these tasks from now on."""
        self._tasks = tasks

    async def stop(self) -> None:
        """Ends the one that runs after what it has sent is answered; the others never start."""
        self._tasks = None
        self._waiting.clear()
        with anyio.move_on_after(10):
            await self._idle.wait()

    def start(self, replay: Replay) -> Replay:
        """Starts a replay, or lets it wait for others. Raises `Problem`."""
        if self._tasks is None or self._gateway.stopping:
            raise Problem(503, "the gateway is stopping")
        if len(self._waiting) >= MOST_WAITING:
            raise Problem(409, f"{MOST_WAITING} replays are waiting: try again later, or cancel one")
        self.known[replay.id] = replay
        for old in [r.id for r in self.known.values() if r.ended][: max(0, len(self.known) - MOST_KEPT)]:
            del self.known[old]
        self._waiting.append(replay)
        if self._idle.is_set():
            self._idle = anyio.Event()
            self._tasks.start_soon(self._run_all)
        return replay

    def new(self, query: Query, rate: int, who: str, where: str) -> Replay:
        """A replay that is not started yet."""
        return Replay(secrets.token_hex(6), who, where or "socket", query, rate)

    def reach(self, query: Query) -> Reach:
        """What a replay to all triggers would send, and to whom. It may block."""
        gateway = self._gateway
        stores = stores_of(gateway)
        brokers = [d.broker for d in stores.dead_letters(query) if was_event(d) and d.broker]
        triggers = [name for name, trigger in gateway.config.triggers.items() if trigger.broker in {*brokers}]
        return Reach(len(brokers), triggers)

    def find(self, id_: str) -> Replay:
        """The replay with this id. Raises `Problem`."""
        found = self.known.get(id_)
        if found is None:
            raise Problem(404, f"there is no replay {id_}: the gateway knows the last {MOST_KEPT} since its start")
        return found

    def cancel(self, id_: str) -> Replay:
        """Ends a replay; what it has not sent stays. Raises `Problem`."""
        replay = self.find(id_)
        replay.cancelling = True
        if replay in self._waiting:
            self._waiting.remove(replay)
            self._end(replay, "cancelled")
        return replay

    async def _run_all(self) -> None:
        try:
            while self._waiting:
                replay = self._waiting.popleft()
                run = _Run(self._gateway, replay)
                try:
                    await run.run()
                finally:
                    self._end(replay, run.state)
        finally:
            self._idle.set()

    def _end(self, replay: Replay, state: str) -> None:
        replay.state, replay.ended_ns = state, self._gateway.clock.now_ns()
        self.failed += state == "failed"
        facts: dict[str, Any] = {
            "replay": replay.id,
            "state": state,
            **selection(replay),
            "replayed": replay.removed,
            "refused": replay.refused,
            "left": replay.total - replay.removed,
            "to": sorted(replay.brokers),
        }
        if replay.detail:
            facts["detail"] = replay.detail
        whole = state == "done" and replay.removed == replay.total
        audit_log(self._gateway.data_dir).record(
            replay.who, ACTION, replay.where, "done" if whole else "failed", **facts
        )


class _StillFails(Refused):
    """The subscriber does not take it now either."""


class _Waiting:
    """Replays under way at subscriptions: leaving it waits for them. `check` raises when they shall end."""

    def __init__(self, check: Callable[[], None], replay: str) -> None:
        self._check = check
        self._replay = replay
        self._open = 0
        self._used: set[DeliveryView] = set()
        self._changed = anyio.Event()

    def begin(
        self,
        number: int,
        subscription: DeliveryView,
        event: Event,
        dead_letter: DeadLetter,
        results: list[BaseException | None],
    ) -> BaseException | None:
        """Begins one; its result comes into `results`. Returns why it could not begin."""

        def done(result: str, outcome: Outcome | None) -> None:
            self._open -= 1
            if result == "delivered" or (result == "unwanted" and undecided):  # now the filter has decided
                results[number] = None
            else:
                reason = outcome.reason if outcome is not None else ""
                results[number] = _StillFails(one_line(reason, 300) or "no reason given")
            self._changed.set()

        undecided = dead_letter.fact("tidegatestage") == Stage.FILTER
        self._open += 1
        if subscription.again(event, done, given_up_of(dead_letter), self._replay):
            self._used.add(subscription)
            return results[number]
        self._open -= 1
        return Overloaded(
            f"{subscription.name} is paused" if subscription.paused else f"{subscription.name} has no room"
        )

    async def __aenter__(self) -> _Waiting:
        return self

    async def __aexit__(self, *exc: object) -> None:
        while self._open:
            try:
                self._check()
            except _Stopped:
                for subscription in self._used:
                    subscription.end_again(letters=True)
            with anyio.move_on_after(_WAIT_S):
                await self._changed.wait()
            self._changed = anyio.Event()


def given_up_of(dead_letter: DeadLetter) -> GivenUp:
    """The facts of a dead letter as its channel keeps them."""
    fact = dead_letter.fact
    code, attempts = fact("knativeerrorcode"), fact("tidegateattempts")
    return GivenUp(
        last_ns(dead_letter.event),
        dead_letter.place.address,
        fact("tidegatereason")[:300],
        int(attempts) if attempts.isascii() and attempts.isdigit() else 0,
        int(code) if code.isascii() and code.isdigit() else None,
    )


def _source_and_id(event: Event) -> tuple[str, str]:
    return str(event.attributes.get("source")), str(id_of(event))


class _Stopped(Exception):
    """The replay ends early, in this state."""


class _Run:
    """One replay while it runs."""

    def __init__(self, gateway: GatewayView, replay: Replay) -> None:
        self._gateway = gateway
        self._replay = replay
        self._removals = Removals()
        self._without_position: set[tuple[str, str]] = set()  # source and id
        self._given_up: dict[tuple[str, str], dict[tuple[str, str], list[int]]] = {}  # by broker and trigger
        self.state = "stopped"  # unless it comes to another end

    async def run(self) -> None:
        """Runs it, and notes in `state` how it ended. Whatever happens, what was accepted is removed, and nothing
        else."""
        replay = self._replay
        replay.state, replay.started_ns = "running", self._gateway.clock.now_ns()
        try:
            while not self._gateway.started:
                await self._sleep_until(anyio.current_time() + _WAIT_S)
            await self._send_selected()
            self.state = "done"
            self._tell_of_gone()
        except _Stopped as e:
            self.state = str(e)
        except Exception as e:
            log.warning("a replay of dead letters failed: %s", one_line(e))
            self.state, replay.detail = "failed", one_line(e, 300)
        finally:
            with anyio.CancelScope(shield=True):
                await self._finish()

    async def _send_selected(self) -> None:
        replay = self._replay
        stores = stores_of(self._gateway)
        ids = await to_thread.run_sync(self._counted, stores)
        replay.total = len(ids)
        status = {trigger.name: trigger for trigger in self._gateway.status().triggers}
        replay.before = {
            name: (status[name].delivered, status[name].dead_lettered) for name in replay.triggers if name in status
        }
        began = anyio.current_time()
        async for chunk in self._chunks(stores, ids):
            self._check()
            await self._send_all(chunk)
            if replay.rate:
                await self._sleep_until(began + (replay.accepted + replay.refused) / replay.rate)

    def _tell_of_gone(self) -> None:
        """Says so if somebody else was faster."""
        replay = self._replay
        gone = replay.total - replay.handled
        if not replay.total:
            replay.detail = "there was nothing left to send: these dead letters were replayed or removed before"
        elif gone > 0:
            replay.detail = f"{gone:,} of these dead letters were replayed or removed by somebody else meanwhile"

    async def _finish(self) -> None:
        try:
            await to_thread.run_sync(self._removals.finish)
        except OSError as e:
            self.state = "failed"
            self._replay.detail = f"what was sent can't be removed: {e.strerror or e}; the next replay sends it again"
        self._replay.removed = self._removals.removed

    def _counted(self, stores: Stores) -> frozenset[str]:
        """The ids to send. They are read first, because replayed events may come back meanwhile."""
        replay, found = self._replay, set[str]()
        brokers = set[str]()
        for dead_letter in stores.dead_letters(replay.query):
            if dead_letter.id not in found:
                found.add(dead_letter.id)
                name = dead_letter.fact("tidegatetrigger")
                replay.triggers[name] = replay.triggers.get(name, 0) + 1
                brokers.add(dead_letter.broker)
                if not dead_letter.event.position:
                    self._without_position.add(_source_and_id(dead_letter.event))
        replay.brokers = sorted(brokers)
        return frozenset(found)

    async def _chunks(self, stores: Stores, ids: frozenset[str]) -> AsyncIterator[list[DeadLetter]]:
        rate = self._replay.rate
        size = max(1, min(PORTION, rate // 4)) if rate else PORTION
        letters: Iterator[DeadLetter] = stores.dead_letters(Query(ids=ids)) if ids else iter(())
        while chunk := await to_thread.run_sync(lambda: list(islice(letters, size))):
            yield chunk

    async def _sleep_until(self, due: float) -> None:
        while (left := due - anyio.current_time()) > 0:
            self._check()
            await anyio.sleep(min(left, _WAIT_S))

    def _check(self) -> None:
        """Raises `_Stopped` if it must not continue."""
        if self._replay.cancelling:
            raise _Stopped("cancelled")
        if self._gateway.stopping:
            raise _Stopped("stopped")

    async def _send_all(self, chunk: Sequence[DeadLetter]) -> None:
        replay = self._replay
        left = []
        for dead_letter in chunk:
            if not was_event(dead_letter):
                replay.skipped += 1
                replay.fault(dead_letter, "it was never an event")
            elif not dead_letter.broker and replay.all_triggers:
                replay.skipped += 1
                replay.fault(dead_letter, "it belongs to a bridge, which has no triggers")
            else:
                left.append(dead_letter)
        for tried in range(_TRIES):
            left = await self._send(left)
            if not left:
                return
            await self._sleep_until(anyio.current_time() + _WAIT_S * 2**tried)
        raise _Stopped("failed")

    async def _send(self, chunk: Sequence[DeadLetter]) -> list[DeadLetter]:
        """Sends these; returns those that failed for now."""
        replay, again, accepted, slow, failing = self._replay, [], [], False, ""
        for dead_letter, error in zip(chunk, await self._accepted(chunk), strict=True):
            if error is None:
                accepted.append(dead_letter)
            elif isinstance(error, Refused) and error.status < 500:
                replay.refused += 1
                replay.fault(dead_letter, str(error))
                if isinstance(error, _StillFails):
                    failing = f"trigger {dead_letter.fact('tidegatetrigger')} still fails: {error}"
            else:
                replay.detail = one_line(error, 300)
                again.append(dead_letter)
                slow = slow or isinstance(error, TimeoutError)
        if not again:
            replay.detail = ""
        replay.accepted += len(accepted)
        if accepted:
            await to_thread.run_sync(self._remove, accepted)
            replay.removed = self._removals.removed
        if failing and not accepted and not again:
            replay.detail = one_line(f"{failing}; what was not delivered stays", 300)
            raise _Stopped("failed")
        if slow:  # it may be stored yet: don't send it again
            raise _Stopped("failed")
        return again

    def _remove(self, accepted: Sequence[DeadLetter]) -> None:
        for dead_letter in accepted:
            self._removals.accepted(dead_letter)
        self._removals.end_portion()

    async def _accepted(self, chunk: Sequence[DeadLetter]) -> list[BaseException | None]:
        """What became of each: None once its subscriber, or the channel, has its event."""
        replay = self._replay
        if replay.all_triggers:
            if replay.seen is not None and replay.edited is not None:
                return [await self._edited(dead_letter, replay.edited, replay.seen) for dead_letter in chunk]
            return await self._stored([(d.broker, without_facts(d.event)) for d in chunk])
        await self._locate(chunk)
        events = [without_facts(d.event) if replay.edited is None else replay.edited for d in chunk]
        results: list[BaseException | None] = [None] * len(chunk)
        untaken = []  # by their brokers
        async with _Waiting(self._check, replay.id) as waiting:
            for number, (dead_letter, event) in enumerate(zip(chunk, events, strict=True)):
                failed = self._failed_at(dead_letter)
                if failed is None:
                    untaken.append(number)
                elif isinstance(failed, Refused):
                    results[number] = failed
                else:
                    results[number] = waiting.begin(number, failed, event, dead_letter, results)
        stored = await self._stored([(chunk[n].broker, events[n]) for n in untaken])
        for number, result in zip(untaken, stored, strict=True):
            results[number] = result
        return results

    async def _locate(self, chunk: Sequence[DeadLetter]) -> None:
        """Finds the positions of events whose dead letters don't tell them, so that their log learns of the replay."""
        for dead_letter in chunk:
            failed = self._failed_at(dead_letter)
            if dead_letter.event.position or failed is None or isinstance(failed, Refused):
                continue
            owner = dead_letter.broker, failed.name
            if owner not in self._given_up:
                self._given_up[owner] = await self._given_up_by(dead_letter.broker, failed)
            if positions := self._given_up[owner].get(_source_and_id(dead_letter.event)):
                dead_letter.event.position = positions.pop(0)

    async def _given_up_by(self, name: str, subscription: DeliveryView) -> dict[tuple[str, str], list[int]]:
        broker = self._gateway.topology.brokers.get(name)
        if broker is None or not isinstance(broker.channel, FindsGivenUp):
            return {}
        try:
            kept = await to_thread.run_sync(broker.channel.given_up_by, subscription.name, self._without_position)
        except StorageError as e:
            log.warning("which events were given up can't be read, so the log does not learn of replays: %s", e)
            return {}
        found = {key: dict.fromkeys(positions) for key, positions in kept.items()}
        for id_, source, position, given_up in subscription.failures.all_given_up():  # the log may not have them yet
            key = str(source), str(id_)
            if position and key in self._without_position:
                positions = found.setdefault(key, {})
                positions.pop(position, None)
                if not given_up.delivered_ns:
                    positions[position] = None
        return {key: sorted(positions) for key, positions in found.items()}

    def _failed_at(self, dead_letter: DeadLetter) -> DeliveryView | Refused | None:
        """Who gave it up. None if its broker never took it."""
        built, name = self._gateway.topology, dead_letter.fact("tidegatetrigger")
        if not dead_letter.broker:
            bridge = built.bridges.get(name)
            return bridge.delivery if bridge is not None else Refused(f"bridge {name!r} no longer exists")
        trigger = built.triggers.get(name)
        untaken = name == dead_letter.broker and name in built.brokers and not dead_letter.was_offered
        if trigger is None:
            if untaken:
                return None
            return Refused(f"trigger {name!r} no longer exists: replay to all triggers")
        if (delivery := trigger.delivery) is None:
            return Refused(f"trigger {name!r} reads its channel by itself: replay to all triggers")
        if untaken and delivery.sink.address != dead_letter.fact("knativeerrordest"):
            return None
        broker = trigger.broker.name
        if not dead_letter.may_be_of(broker):
            was = dead_letter.fact("tidegatebroker")
            by = f"a trigger of broker {was!r}" if was else f"no trigger of broker {broker!r}"
            return Refused(f"it was given up by {by}, and {name!r} is one of broker {broker!r}: say where with --to")
        return delivery

    async def _edited(self, dead_letter: DeadLetter, event: Event, seen: ReplaySeen) -> BaseException | None:
        async def send() -> str:
            (error,) = await self._stored([(dead_letter.broker, event)])
            return "" if error is None else str(error) or type(error).__name__

        found: list[str] = []

        async def wait() -> None:
            found.append(await seen(event, send))
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            with suppress(_Stopped):
                await self._sleep_until(math.inf)
            tasks.cancel_scope.cancel()
        if not found:
            self._check()
        return None if found and not found[0] else Refused(found[0] if found else "no delivery was seen")

    async def _stored(self, events: Sequence[tuple[str, Event]]) -> list[BaseException | None]:
        results: list[BaseException | None] = [TimeoutError("the channel did not answer")] * len(events)
        open_, answered = len(events), anyio.Event()

        def answers(number: int) -> Callable[[BaseException | None], None]:
            def answer(error: BaseException | None) -> None:
                nonlocal open_
                results[number] = error
                open_ -= 1
                if not open_:
                    answered.set()

            return answer

        for number, (name, event) in enumerate(events):
            done = answers(number)
            broker = self._gateway.topology.brokers.get(name)
            if broker is None:
                done(Refused(f"broker {name!r} no longer exists"))
                continue
            event.received_ns, event.position = self._gateway.clock.now_ns(), 0
            try:
                broker.publish([event], done)
            except Exception as e:
                done(e)
        if open_:
            with suppress(TimeoutError), anyio.fail_after(_ANSWER_S):
                await answered.wait()
        return results
