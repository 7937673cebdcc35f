"""The parts of a running gateway, started and stopped in an order that loses nothing.

What an event reaches later starts earlier: channels, sinks, triggers, sources. It stops the other way round.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator

import anyio
from anyio.abc import TaskGroup

from .abilities import Joined
from .broker import Broker, ReadingTrigger, Trigger
from .build import Bridged, Built
from .delivery import Subscription
from .delivery.attempt import NO_FEED
from .intake import Inlet
from .interfaces import Sink, Source

log = logging.getLogger("tidegate")


class Parts:
    """What runs in one worker. `drain_s` bounds how long a stop waits for deliveries; triggers that are `paused` begin
    without attempts."""

    def __init__(
        self, built: Built, tasks: TaskGroup, worker: int, drain_s: float, paused: Collection[str] = ()
    ) -> None:
        self.built = built
        self.tasks = tasks
        self._first = worker == 0
        self._drain_s = drain_s
        self._paused = paused

    # -- all of them ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Starts everything. Raises `StartError`; what had started is then to be stopped."""
        built, tasks = self.built, self.tasks
        for observer in built.observers:
            await observer.start(tasks)
        for broker in built.brokers.values():
            await self.start_channel(broker)
        for trigger in built.triggers.values():
            await self.attach(trigger)
        for broker in built.brokers.values():
            await broker.channel.open()
        for trigger in built.triggers.values():
            await self.begin_reading(trigger)
        for bridged in built.bridges.values():
            await self.start_sinks(bridged.sinks)
        # the ingress opens last: what it takes has somewhere to go
        for broker in built.brokers.values():
            await self.open(broker)
        for bridged in built.bridges.values():
            await self.start_source(bridged.inlet)

    async def stop(self) -> None:
        """Stops everything: sources first, then deliveries, then the channels, which make durable what these did."""
        built = self.built
        for broker in built.brokers.values():
            broker.taking = False
        with anyio.move_on_after(self._drain_s):
            await _together(source.stop for source in self.sources())
            await _idle(list(self.subscriptions()))
        for subscription in self.subscriptions():
            subscription.stop()
        readers = [t.sink for t in built.triggers.values() if isinstance(t, ReadingTrigger)]
        await _together(reader.stop for reader in readers)
        for broker in built.brokers.values():
            await quietly(broker.channel.stop)
        for trigger in built.triggers.values():
            await self.stop_sinks(trigger.sinks if isinstance(trigger, Trigger) else [])
        for bridged in built.bridges.values():
            await self.stop_sinks(bridged.sinks)
        for broker in built.brokers.values():
            await self.stop_sinks([broker.dead_letter])
        for observer in built.observers:
            await quietly(observer.stop)

    # -- one of them ------------------------------------------------------------------------------------------------

    async def start_channel(self, broker: Broker) -> None:
        """The first half of a broker's start."""
        await broker.channel.start(self.tasks)
        await broker.dead_letter.start(self.tasks)

    async def open(self, broker: Broker) -> None:
        """The second half, once its triggers are attached and its channel is open."""
        for inlet in broker.inlets:
            await self.start_source(inlet)
        broker.taking = True

    async def retire_broker(self, broker: Broker) -> None:
        """Stops a broker whose triggers are gone. What its channel holds stays there."""
        broker.taking = False
        await _together(source.stop for source in broker.sources)
        await quietly(broker.channel.stop)
        await self.stop_sinks([broker.dead_letter])

    async def start_source(self, inlet: Inlet, instead: list[Inlet] | None = None) -> None:
        """Starts a source. One of those that end (`instead`, which is taken out of the list) may hand over its address
        to it, so that no sender finds it closed. Raises `StartError`."""
        take_over = getattr(inlet.source, "take_over", None)
        for gone in instead or []:
            if take_over is not None and await take_over(gone.source, inlet.door, self.tasks):
                assert instead is not None
                instead.remove(gone)
                return
        await inlet.source.start(inlet.door, self.tasks)

    async def attach(self, trigger: Trigger | ReadingTrigger) -> None:
        """Makes the trigger's sinks ready and takes its place in the channel."""
        if isinstance(trigger, Trigger):
            await self.start_sinks(trigger.sinks)
            if trigger.name in self._paused:
                trigger.subscription.suspend()
        trigger.attach()
        channel = trigger.broker.channel
        if trigger.broker.taking and isinstance(channel, Joined):
            await channel.joined(trigger.name)

    async def begin_reading(self, trigger: Trigger | ReadingTrigger) -> None:
        """A sink that reads by itself runs in the first worker only."""
        if isinstance(trigger, ReadingTrigger) and self._first:
            await trigger.start(self.tasks)

    async def retire(self, trigger: Trigger | ReadingTrigger) -> None:
        """Finishes what the trigger has under way, and leaves its place to be taken again."""
        if isinstance(trigger, ReadingTrigger):
            await quietly(trigger.sink.stop)
            trigger.broker.channel.detach(trigger.name)
            return
        with anyio.move_on_after(self._drain_s):
            await _idle([trigger.subscription])
        trigger.subscription.stop()
        trigger.broker.channel.detach(trigger.name)
        trigger.subscription.feed = NO_FEED  # a late answer must not move the place of the trigger that follows
        await self.stop_sinks(trigger.sinks)

    async def retire_bridge(self, bridged: Bridged, *, with_source: bool) -> None:
        """Finishes what the bridge has accepted, and stops it."""
        with anyio.move_on_after(self._drain_s):
            if with_source:
                await quietly(bridged.inlet.source.stop)
            while bridged.bridge.lag():  # noqa: ASYNC110 once in a reload; no event per attempt
                await anyio.sleep(0.01)
        bridged.bridge.subscription.stop()
        await self.stop_sinks(bridged.sinks)

    async def start_sinks(self, sinks: Iterable[Sink]) -> None:
        """Raises `StartError`."""
        for sink in sinks:
            await sink.start(self.tasks)

    async def stop_sinks(self, sinks: Iterable[Sink]) -> None:
        for sink in sinks:
            await quietly(sink.stop)

    # -- looking in -------------------------------------------------------------------------------------------------

    def sources(self) -> Iterator[Source]:
        for broker in self.built.brokers.values():
            yield from broker.sources
        for bridged in self.built.bridges.values():
            yield bridged.inlet.source

    def subscriptions(self) -> Iterator[Subscription]:
        for trigger in self.built.triggers.values():
            if isinstance(trigger, Trigger):
                yield trigger.subscription
        for bridged in self.built.bridges.values():
            yield bridged.bridge.subscription


async def _idle(subscriptions: list[Subscription]) -> None:
    """No attempt begins any more; returns when none is under way."""
    for subscription in subscriptions:
        subscription.stop()
    while any(s.busy for s in subscriptions):  # noqa: ASYNC110 once in a life; no event per attempt
        await anyio.sleep(0.01)


async def _together(stops: Iterable[Callable[[], Awaitable[None]]]) -> None:
    async with anyio.create_task_group() as stopping:
        for stop in stops:
            stopping.start_soon(quietly, stop)


async def quietly(stop: Callable[[], Awaitable[None]]) -> None:
    """One part's failure to stop must not keep the others from stopping."""
    try:
        await stop()
    except Exception:
        log.exception("a part did not stop well")
