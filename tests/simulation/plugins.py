"""The simulation's plugin: components that behave, until a fault says otherwise. Each asks `FAULTS` for its place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup
from gateway_cloudevents.codec import build as build_codec
from gateway_cloudevents.config import CloudEventsConfig

from gateway_core.contract.authenticator import Unauthenticated
from gateway_core.contract.component import BuildContext, Component, Config, Transport
from gateway_core.contract.event import Event, Message, text_of
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.identity import Identity
from gateway_core.contract.interfaces import DELIVERED, Codec, Filter, KeyMapper, Observer, Outcome

SENDER = Identity("sender", "simulated")


class Simulated(Exception):
    """What the plugins raise."""


class Playing(Protocol):
    """The world, as the plugins see it."""

    def fault(self, kind: str, target: str) -> int | None:
        """The `amount` of the fault of this kind that lasts now for this target, None without one."""

    def out_of_memory(self, place: str) -> bool:
        """Whether there is no memory at this place (`shortages.PLUGINS`) now."""

    def arrive(self, server: str, headers: tuple[tuple[str, str], ...], body: bytes) -> int:
        """An event reached a simulated sink; returns the arrival's number."""

    def replied(self, number: int, status: int | None, how: str) -> None:
        """What the sink said of it."""

    def heard(self, number: int) -> None:
        """The gateway is told so."""

    def later(self, delay_s: float, call: Callable[..., Any], *args: Any) -> None:
        """Calls it later, in the gateway's process, unless that is gone by then."""


playing: Playing | None = None
"""The world that runs now."""


def _fault(kind: str, target: str = "") -> int | None:
    """The `amount` of such a fault. Raises `MemoryError` while memory is short at a place of this name."""
    if playing is None:
        return None
    if playing.out_of_memory(kind):
        raise MemoryError
    return playing.fault(kind, target)


class TypeConfig(Config):
    """Which events match."""

    type: str
    """Their type."""


class Nothing(Config):
    """No options."""


def build_filter(config: TypeConfig, context: BuildContext) -> Filter:
    """A filter on the type."""
    trigger = str(context.place[1])

    def matches(event: Event) -> bool:
        if _fault("filter", trigger) is not None:
            raise Simulated("the filter failed")
        return event.attributes.get("type") == config.type

    return Filter(matches)


def build_mapper(config: Nothing, context: BuildContext) -> KeyMapper:
    """The key is the attribute `partitionkey`."""
    trigger = str(context.place[1])

    def key(event: Event) -> bytes | None:
        if _fault("mapper", trigger) is not None:
            raise Simulated("the key mapper failed")
        value = event.attributes.get("partitionkey")
        return None if value is None else text_of(value).encode()

    return key


class SimulatedSink:
    """Takes 5 ms to deliver."""

    def __init__(self, config: Nothing, context: BuildContext) -> None:
        self._trigger = str(context.place[1])
        self.address = f"simulated:{self._trigger}"

    async def start(self, tasks: TaskGroup) -> None:
        return

    async def stop(self) -> None:
        return

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        world = playing
        assert world is not None
        fault = _fault("sink", self._trigger)
        if fault == 0:
            raise Simulated("the sink failed")
        headers = tuple(("content-type" if n == "datacontenttype" else f"ce-{n}", text_of(v))
                        for n, v in event.attributes.items())  # fmt: skip
        number = world.arrive(self._trigger, headers, event.data or b"")

        def answer(outcome: Any, status: int | None) -> None:
            world.replied(number, status, "" if status else f"sink {fault}")
            if status:
                world.heard(number)
            done(outcome)

        match fault:
            case 1:
                world.replied(number, None, "sink 1")
            case 2:
                world.later(0.005, answer, DELIVERED, 202)
                world.later(0.005, done, Outcome(False, retry=True, reason="again"))
            case 3:
                world.later(timeout_s + 5, answer, DELIVERED, 202)
            case 4:
                world.later(0.005, answer, "delivered", None)
            case 5:
                answer(DELIVERED, 202)
                raise Simulated("the sink failed after its answer")
            case 6:
                world.later(0.005, answer, Outcome(False, reason="refused"), None)
            case 7:
                world.later(0.005, answer, Outcome(False, retry=True, reason="failed"), None)
            case _:
                world.later(0.005, answer, DELIVERED, 202)


class SimulatedObserver(Observer):
    """Does nothing."""

    def __init__(self, config: Nothing, context: BuildContext) -> None:
        return

    def accepted(self, broker: str, events: Sequence[Event]) -> None:
        self._look()

    def refused(self, broker: str, error: Any) -> None:
        self._look()

    def attempted(self, trigger: str, event: Event, outcome: Outcome, seconds: float) -> None:
        self._look()

    def dead_lettered(self, trigger: str, event: Event) -> None:
        self._look()

    def _look(self) -> None:
        if _fault("observer") is not None:
            raise Simulated("the observer failed")


class SimulatedCodec:
    """The codec `cloudevents`."""

    def __init__(self, config: Nothing, context: BuildContext) -> None:
        self._inner: Codec = build_codec(CloudEventsConfig(), context)
        self.encode = self._inner.encode

    def decode(self, message: Message) -> list[Event]:
        if _fault("codec") is not None:
            raise Simulated("the codec failed")
        return self._inner.decode(message)


class SimulatedAuthenticator:
    """Knows everyone."""

    challenge = ""

    def __init__(self, config: Nothing, context: BuildContext) -> None:
        return

    async def start(self, tasks: TaskGroup) -> None:
        return

    async def stop(self) -> None:
        return

    def authenticate(self, request: Message) -> Any:
        match fault := _fault("authenticator"):
            case 0:
                raise Simulated("the authenticator failed")
            case 3:
                raise Unauthenticated("nobody is known")
            case 4:
                return "somebody"
            case None:
                return SENDER
            case _:
                return self._later(fault)

    async def _later(self, fault: int) -> Identity:
        match fault:
            case 1:
                await anyio.sleep_forever()
            case 2:
                await anyio.sleep(1)
            case 5:
                raise Simulated("the authenticator failed")
            case _:
                raise asyncio.CancelledError
        return SENDER


@hookimpl
def gateway_authenticators() -> list[Component]:
    return [Component("simulated", "Knows everyone.", Nothing, SimulatedAuthenticator)]


@hookimpl
def gateway_filters() -> list[Component]:
    return [Component("simulated", "Matches a type.", TypeConfig, build_filter)]


@hookimpl
def gateway_key_mappers() -> list[Component]:
    return [Component("simulated", "The attribute partitionkey.", Nothing, build_mapper)]


@hookimpl
def gateway_transports() -> list[Transport]:
    return [Transport("simulated", sink=Component("simulated", "Delivers.", Nothing, SimulatedSink))]


@hookimpl
def gateway_observers() -> list[Component]:
    return [Component("simulated", "Observes.", Nothing, SimulatedObserver)]


@hookimpl
def gateway_codecs() -> list[Component]:
    return [Component("simulated", "CloudEvents.", Nothing, SimulatedCodec)]
