"""Sets a trigger back: halts it in all workers, waits for its attempts under way, lets its subscription stand aside,
moves its place in the channel, and lets it go on.

The first worker asks the others over and over until all are where they should be, since any of them may end and start
again meanwhile. Once all stand still it decides, in the channel and durably; a worker that ends after that goes back
when it starts again. One that is not asked any more, because the first one has ended, resumes its trigger by itself.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Container, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import anyio
from anyio.abc import TaskGroup
from gateway_api.routes import Problem

from gateway_core.contract.errors import StorageError
from gateway_core.contract.event import Event, split_position
from gateway_core.contract.one_line import one_line
from gateway_core.contract.replayable import Replayable, RewindRefused, Rewinds
from gateway_core.contract.services import GatewayView
from gateway_core.contract.topology import DeliveryView, TriggerView

from . import selection
from .job import Counts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SERVICE = "replay"
IDLE_S = 60.0
"""How long a rewind waits for attempts under way."""
GO_S = 30.0
"""How long it waits for the other workers, once it is decided."""
ASK_EVERY_S = 0.05
RETRY_S = 1.0
LEASE_S = 15.0
"""A worker that is not asked for so long lets its trigger go on."""
Step = Literal["halt", "go", "end"]
_T = TypeVar("_T")


class Rewinder:
    """Rewinds triggers, one at a time. In the first worker."""

    def __init__(self, gateway: GatewayView) -> None:
        self._gateway = gateway
        self._lock = anyio.Lock()

    async def preview(self, name: str, to_ns: int) -> Counts:
        """The events that it would get again: those since then that match the filter and are settled. Raises
        `Problem`."""
        _, counts = await self._looked(name, to_ns)
        return counts

    async def rewind(self, name: str, to_ns: int) -> Counts:
        """Sets the trigger back. Returns what it gets again. Raises `Problem`."""
        async with self._lock:
            await self._looked(name, to_ns)  # what is refused halts nothing
            id_ = secrets.token_hex(6)
            try:
                async with self._halted(id_, name):
                    firsts, counts = await self._kept(id_, name, self._decided(name, to_ns))
                    await go_back(self._gateway, name, firsts)
                    asked = {**_question(id_, name, "go"), "firsts": {str(p): first for p, first in firsts.items()}}
                    await self._others(asked, ("gone",), GO_S, "not gone back yet: it does by its next start")
            except RewindRefused as e:
                raise Problem(409, str(e)) from e
            except StorageError as e:
                raise Problem(503, str(e)) from e
            return counts

    async def _decided(self, name: str, to_ns: int) -> tuple[Mapping[int, int], Counts]:
        firsts, counts = await self._looked(name, to_ns)
        _, channel = _rewindable(self._gateway, name)
        await channel.decide_rewind(name, firsts)
        return firsts, counts

    async def _kept(self, id_: str, name: str, work: Awaitable[_T]) -> _T:
        """What `work` returns. The other workers are asked to stand still meanwhile, however long it takes."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep, _question(id_, name, "halt"))
            try:
                found: _T | Exception = await work
            except (Problem, RewindRefused, StorageError) as e:
                found = e
            tasks.cancel_scope.cancel()
        if isinstance(found, Exception):
            raise found
        return found

    async def _keep(self, asked: Mapping[str, Any]) -> None:
        while True:
            await anyio.sleep(LEASE_S / 4)
            await self._gateway.peers.ask(SERVICE, asked)

    @asynccontextmanager
    async def _halted(self, id_: str, name: str) -> AsyncIterator[None]:
        """Within it, no worker makes an attempt for the trigger."""
        gateway = self._gateway
        gateway.halt({name})
        try:
            with anyio.move_on_after(IDLE_S) as waited:
                await idle(gateway, name)
            if waited.cancelled_caught:
                raise Problem(409, f"attempts are still under way after {IDLE_S:.0f} s: try again")
            await stand_aside(gateway, name)
            await self._others(_question(id_, name, "halt"), ("halted",), IDLE_S, "does not stand still: try again")
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await stay(gateway, name)
                gateway.halt(())
                await gateway.peers.ask(SERVICE, _question(id_, name, "end"))

    async def _others(self, asked: Mapping[str, Any], wanted: Container[str], within_s: float, otherwise: str) -> None:
        """Asks the other workers until all are there. Raises `Problem`, which says `otherwise` of one that is not."""
        gateway = self._gateway
        there: set[int] = set()
        faults: dict[int, str] = {}
        with anyio.move_on_after(within_s):
            while True:
                for answer in await gateway.peers.ask(SERVICE, asked):
                    if answer and answer["state"] in wanted:
                        there.add(answer["worker"])
                    elif answer and answer["fault"]:
                        faults[answer["worker"]] = answer["fault"]
                if len(there) >= gateway.workers - 1:
                    return
                await anyio.sleep(ASK_EVERY_S)
        missing = next(n for n in range(1, gateway.workers) if n not in there)
        raise Problem(503, f"worker {missing}: {otherwise}" + (f" ({faults[missing]})" if missing in faults else ""))

    async def _looked(self, name: str, to_ns: int) -> tuple[Mapping[int, int], Counts]:
        gateway = self._gateway
        trigger, channel = _rewindable(gateway, name)
        now_ns = gateway.clock.now_ns()
        if to_ns > now_ns:
            raise Problem(422, "a trigger is set back: `to` is in the future")
        try:
            await channel.check_rewind(trigger.name, gateway.workers)
        except RewindRefused as e:
            raise Problem(409, str(e)) from e
        except StorageError as e:
            raise Problem(503, str(e)) from e
        broker = trigger.broker.name
        assert isinstance(channel, Replayable)
        found = await selection.stretch_of(channel, broker, to_ns, now_ns + 1, "--to")
        matches = selection.matcher(trigger, None, to_ns, 2**63 - 1)
        firsts = {partition: end for partition, (_, end) in found.parts.items()}
        try:
            settled = await channel.settled(trigger.name)

            def again(event: Event) -> bool:
                partition, number = split_position(event.position)
                if event.received_ns >= to_ns:
                    firsts[partition] = min(firsts[partition], number)
                return matches(event) and settled(event.position)

            counts = await selection.counted(channel, found.parts, again)
        except StorageError as e:
            raise Problem(503, str(e)) from e
        return firsts, counts


class RewindPart:
    """Another worker's part in a rewind."""

    def __init__(self, gateway: GatewayView, tasks: TaskGroup) -> None:
        self._gateway = gateway
        self._tasks = tasks
        self._id = self._name = self._fault = ""
        self._state = "over"
        self._asked = 0.0

    def answer(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Begins what the first worker asks for, unless it has begun, and says how far it is: "halting", "halted",
        "going", "gone", or "over"."""
        id_, step = question["rewind"], question["step"]
        self._asked = anyio.current_time()
        if id_ != self._id and step != "end":
            self._id, self._name, self._state, self._fault = id_, question["trigger"], "halting", ""
            self._gateway.halt({self._name})
            self._tasks.start_soon(self._halt, id_)
            self._tasks.start_soon(self._watch, id_)
        elif id_ == self._id and step == "go" and self._state == "halted":
            self._state = "going"
            self._tasks.start_soon(self._go, id_, {int(p): first for p, first in question["firsts"].items()})
        elif id_ == self._id and step == "end":
            self._end("over")
        return {"worker": self._gateway.worker, "state": self._state, "fault": self._fault}

    async def _halt(self, id_: str) -> None:
        while id_ == self._id and self._state == "halting":
            await idle(self._gateway, self._name)
            try:
                await stand_aside(self._gateway, self._name)
            except StorageError as e:
                self._fault = one_line(e, 300)
                await anyio.sleep(RETRY_S)
                continue
            if id_ == self._id and self._state == "halting":
                self._state = "halted"
            elif id_ == self._id:  # it is over by now
                await stay(self._gateway, self._name)

    async def _go(self, id_: str, firsts: Mapping[int, int]) -> None:
        try:
            await go_back(self._gateway, self._name, firsts)
        except (StorageError, Problem) as e:
            if id_ == self._id:
                self._state, self._fault = "halted", one_line(e, 300)  # the next question retries it
            return
        if id_ == self._id:
            self._end("gone")

    async def _watch(self, id_: str) -> None:
        """Lets the trigger go on if nobody asks any more."""
        while id_ == self._id and self._state not in ("gone", "over"):
            if anyio.current_time() - self._asked > LEASE_S:
                self._end("over")
            await anyio.sleep(1.0)

    def _end(self, state: str) -> None:
        if self._state not in ("gone", "over"):
            self._gateway.halt(())
            self._tasks.start_soon(stay, self._gateway, self._name)
        self._state = state


async def idle(gateway: GatewayView, name: str) -> None:
    """Returns once no attempt for a trigger is under way in this worker."""
    while (delivery := _delivery(gateway, name)) is not None and delivery.in_flight:  # noqa: ASYNC110 - once in a rewind
        await anyio.sleep(0.01)


async def stand_aside(gateway: GatewayView, name: str) -> None:
    """Lets a trigger's subscription stand aside in this worker. Raises `StorageError`."""
    if (channel := _channel(gateway, name)) is not None:
        await channel.stand_aside(name)


async def stay(gateway: GatewayView, name: str) -> None:
    """Lets a trigger's subscription read on in this worker, if it stands aside."""
    if (channel := _channel(gateway, name)) is not None:
        await channel.stay(name)


async def go_back(gateway: GatewayView, name: str, firsts: Mapping[int, int]) -> None:
    """Sets the trigger back in this worker, as was decided. Raises `StorageError` and `Problem`."""
    trigger, channel = _rewindable(gateway, name)
    for partition in firsts:
        if trigger.delivery is not None:
            trigger.delivery.withdraw(partition)
    await channel.rewind(name, firsts)


def _channel(gateway: GatewayView, name: str) -> Rewinds | None:
    trigger = gateway.topology.triggers.get(name)
    channel = None if trigger is None else trigger.broker.channel
    return channel if isinstance(channel, Rewinds) else None


def _delivery(gateway: GatewayView, name: str) -> DeliveryView | None:
    trigger = gateway.topology.triggers.get(name)
    return None if trigger is None else trigger.delivery


def _rewindable(gateway: GatewayView, name: str) -> tuple[TriggerView, Rewinds]:
    """A trigger that can be set back, and its channel. Raises `Problem`."""
    trigger, _, channel = selection.trigger_of(gateway, name)
    if not isinstance(channel, Rewinds):
        kind = trigger.broker.channel_name
        raise Problem(409, f"the channel {kind} of broker {trigger.broker.name!r} can't set a trigger back")
    return trigger, channel


def _question(id_: str, name: str, step: Step) -> dict[str, str]:
    return {"rewind": id_, "trigger": name, "step": step}
