"""The parts of a running gateway, started and stopped in an order that loses nothing.

Parts start in the reverse order of an event's path: channels, sinks, triggers, sources. They stop in the opposite
order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

import anyio
from anyio.abc import TaskGroup

from ..contract.capabilities import Fetched, Joined, TakingOver, offers, pulls
from ..contract.interfaces import Sink
from ..contract.owner import within
from ..contract.tasks import quietly
from ..delivery import Subscription
from ..delivery.subscription import NO_FEED
from ..pipeline.bridge import Bridged
from ..pipeline.broker import Broker, ReadingTrigger, Trigger
from ..pipeline.intake import BoundSource
from .build import Built
from .component_tasks import STOP_S, component_tasks, plugin_of, started
from .role import Role


class Stoppable(Protocol):
    async def stop(self) -> None: ...


class Parts:
    """Starts and stops parts in one worker. `drain_s` limits a stop's wait for deliveries; `paused` triggers make no
    attempt."""

    def __init__(self, tasks: TaskGroup, role: Role, drain_s: float, paused: Callable[[str], bool]) -> None:
        self.tasks = tasks
        self._role = role
        self._drain_s = drain_s
        self._paused = paused

    async def start(self, built: Built) -> None:
        """Starts everything. Raises `StartError`; then call `stop` for what had started."""
        tasks = self.tasks
        for observer in built.observers:
            own = component_tasks(tasks, observer.errors.owner, partial(setattr, observer, "fault"))
            await started(observer.errors.owner, observer.start(own))
        for broker in built.brokers.values():
            await self.start_channel(broker)
        for trigger in built.triggers.values():
            await self.attach(trigger)
        for broker in built.brokers.values():
            await self.open_channel(broker)
        for trigger in built.triggers.values():
            await self.begin_reading(trigger)
        for bridged in built.bridges.values():
            await self.start_bridge_sinks(bridged)
        # the ingress opens last, once its events have somewhere to go; one that waits for a server holds up no other
        for bound_source in sorted(built.bound_sources(), key=lambda bound: pulls(bound.source)):
            await self.start_source(bound_source)
        for broker in built.brokers.values():
            broker.taking = True

    async def stop(self, built: Built) -> None:
        """Stops everything: sources first, then deliveries, then the channels, which save the results."""
        for broker in built.brokers.values():
            broker.taking = False
        with anyio.move_on_after(self._drain_s):
            await self._stop_sources(built.bound_sources())
            await _idle(list(built.subscriptions()))
        for subscription in built.subscriptions():
            subscription.stop()
        for broker in built.brokers.values():
            broker.dead_letters.stop()
        readers = [t.sink for t in built.triggers.values() if isinstance(t, ReadingTrigger)]
        async with anyio.create_task_group() as stopping:
            for reader in readers:
                stopping.start_soon(self._stop_one, reader)
        for broker in built.brokers.values():
            await self._stop_one(broker.channel)
        for trigger in built.triggers.values():
            await self.stop_sinks(trigger.sinks if isinstance(trigger, Trigger) else [])
        for bridged in built.bridges.values():
            await self.stop_sinks(bridged.sinks)
        for broker in built.brokers.values():
            await self.stop_sinks([broker.dead_letter])
        for observer in built.observers:
            await quietly(observer.stop, observer.errors.owner, self._stop_s)

    async def start_channel(self, broker: Broker) -> None:
        """The first half of a broker's start."""
        owner = f"brokers.{broker.name}.channel ({broker.channel_name})"
        await started(owner, broker.channel.start(self._own(owner, broker.faults, "channel")))
        await self.start_dead_letter(broker, broker.dead_letter)

    async def open_channel(self, broker: Broker) -> None:
        """Once its triggers are attached."""
        await started(f"brokers.{broker.name}.channel ({broker.channel_name})", broker.channel.open())

    async def start_dead_letter(self, broker: Broker, sink: Sink) -> None:
        """The dead letter that the broker has, or will have."""
        await self.start_sinks([sink], f"brokers.{broker.name}", broker.faults, ("dead_letter",))

    async def start_bridge_sinks(self, bridged: Bridged) -> None:
        """Raises `StartError`."""
        await self.start_sinks(bridged.sinks, f"bridges.{bridged.name}", bridged.bridge.faults, ("sink", "dead_letter"))

    async def open(self, broker: Broker) -> None:
        """The second half, once its triggers are attached and its channel is open."""
        for bound_source in broker.bound_sources:
            await self.start_source(bound_source)
        broker.taking = True

    async def retire_broker(self, broker: Broker) -> None:
        """Stops a broker whose triggers are gone. What its channel holds stays there."""
        broker.taking = False
        await self._stop_sources(broker.bound_sources)
        broker.dead_letters.stop()
        await self._stop_one(broker.channel)
        await self.stop_sinks([broker.dead_letter])

    async def start_source(
        self, bound_source: BoundSource, instead: list[BoundSource] | None = None, *, in_place: bool = False
    ) -> None:
        """Starts a source, unless another worker runs it. One of `instead`, which end, may hand over its address, so
        that no sender finds it closed; it is then removed. `in_place` starts no others. Raises `StartError`."""
        if bound_source.alone and not self._role.fetches:
            return
        owner = within(bound_source.owner, f" ({bound_source.ref.name})")
        tasks = component_tasks(self.tasks, owner, partial(setattr, bound_source, "fault"))
        source = bound_source.source
        if isinstance(source, TakingOver) and instead:
            for gone in [each for each in instead if each.open]:
                if await source.take_over(gone.source, bound_source.intake, tasks):
                    instead.remove(gone)
                    bound_source.open, gone.open = True, False
                    return
        if not in_place:
            bound_source.open = True  # a source that failed half-way must be stopped
            await started(owner, source.start(bound_source.intake, tasks))

    async def stop_source(self, bound_source: BoundSource) -> None:
        """Stops a source that was started."""
        if bound_source.open:
            bound_source.open = False
            await self._stop_one(bound_source.source)

    async def _stop_sources(self, bound_sources: Iterable[BoundSource]) -> None:
        async with anyio.create_task_group() as stopping:
            for bound_source in bound_sources:
                stopping.start_soon(self.stop_source, bound_source)

    @staticmethod
    def waiting(built: Built) -> list[BoundSource]:
        """The sources that this worker has not started because another worker ran them."""
        return [bound_source for bound_source in built.bound_sources() if bound_source.alone and not bound_source.open]

    async def attach(self, trigger: Trigger | ReadingTrigger) -> None:
        """Starts the trigger's sinks and attaches it to the channel."""
        if isinstance(trigger, Trigger):
            owner = f"triggers.{trigger.name}"
            await self.start_sinks(trigger.sinks, owner, trigger.faults, ("subscriber", "dead_letter"))
            if self._paused(trigger.name):
                trigger.subscription.pause()
        trigger.attach()
        channel = trigger.broker.channel
        if trigger.broker.taking and isinstance(channel, Joined):
            await channel.joined(trigger.name)

    async def begin_reading(self, trigger: Trigger | ReadingTrigger) -> None:
        """Starts a sink that reads the channel itself; only in the first worker."""
        if isinstance(trigger, ReadingTrigger) and self._role.worker == 0:
            owner = f"triggers.{trigger.name}.subscriber ({plugin_of(trigger.sink)})"
            await started(owner, trigger.start(self._own(owner, trigger.faults, "subscriber")))

    async def retire(self, trigger: Trigger | ReadingTrigger) -> None:
        """Finishes what the trigger has under way, and detaches it. Its cursor is kept."""
        if isinstance(trigger, ReadingTrigger):
            await self._stop_one(trigger.sink)
            trigger.broker.channel.detach(trigger.name)
            return
        with anyio.move_on_after(self._drain_s):
            await _idle([trigger.subscription])
        trigger.subscription.stop()
        trigger.broker.channel.detach(trigger.name)
        trigger.subscription.feed = NO_FEED  # a late answer must not move the cursor of the next trigger
        await self.stop_sinks(trigger.sinks)

    async def retire_bridge(self, bridged: Bridged, *, with_source: bool) -> None:
        """Finishes what the bridge has accepted, and stops it."""
        with anyio.move_on_after(self._drain_s):
            if with_source:
                await self.stop_source(bridged.bound_source)
            while bridged.bridge.lag():  # noqa: ASYNC110 once in a reload; no event per attempt
                await anyio.sleep(0.01)
        bridged.bridge.subscription.stop()
        await self.stop_sinks(bridged.sinks)

    async def start_sinks(
        self, sinks: Iterable[Sink], owner: str, faults: dict[str, str], words: Sequence[str]
    ) -> None:
        """Sinks that the config has at `owner` by these `words`. Raises `StartError`."""
        for sink, word in zip(sinks, words, strict=False):
            place = f"{owner}.{word} ({plugin_of(sink)})"
            faults.pop(word, None)
            await started(place, sink.start(self._own(place, faults, word)))

    async def stop_sinks(self, sinks: Iterable[Sink]) -> None:
        for sink in sinks:
            await self._stop_one(sink)

    def _own(self, owner: str, faults: dict[str, str], word: str) -> TaskGroup:
        """Tasks for one component; `faults` tells by this word when one of them has ended."""
        return component_tasks(self.tasks, owner, partial(faults.__setitem__, word))

    @property
    def _stop_s(self) -> float:
        return self._drain_s + STOP_S

    async def _stop_one(self, part: Stoppable) -> None:
        await quietly(part.stop, f"a component of {plugin_of(part)}", self._stop_s)


async def _idle(subscriptions: list[Subscription]) -> None:
    """Stops new attempts; returns once none is under way."""
    for subscription in subscriptions:
        subscription.stop()
        if offers(subscription.sink, Fetched):
            subscription.sink.release()
    while any(s.busy for s in subscriptions):  # noqa: ASYNC110 once in a life; no event per attempt
        await anyio.sleep(0.01)
