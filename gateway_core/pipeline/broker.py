"""A broker and its triggers at run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anyio.abc import TaskGroup

from ..contract.capabilities import Deduplicates, DelayingChannel, StartsLate, offers
from ..contract.condition import Condition
from ..contract.event import Event
from ..contract.filter_guard import FilterGuard
from ..contract.interfaces import Accepted, Channel, Feed, Filter, Observer, ReaderFeed, ReadingSink, Sink, Source
from ..contract.start_position import StartPosition
from ..contract.status import ChannelStatus, TriggerStatus
from ..delivery import Subscription
from ..delivery.dead_letter import DeadLetterWriter
from ..delivery.due import DueOf
from . import compose
from .infos import delay_facts, delivery_facts, fault_of, held_while_down, lag_of, reader_state, source_errors
from .intake import BoundSource, Counted
from .metering import Meter
from .steps import Accept


class Broker(Counted):
    """One broker: the intake of its sources, in front of its channel."""

    stores = True

    def __init__(
        self,
        name: str,
        channel_name: str,
        channel: Channel,
        dead_letter: Sink,
        dead_letters: DeadLetterWriter,
        observers: tuple[Observer, ...],
        meter: Meter | None = None,
        *,
        deduplicates: bool = False,
    ) -> None:
        super().__init__(name, observers)
        self.deduplicates = deduplicates
        self.meter = meter
        self.channel_name = channel_name
        self.channel = channel
        self.bound_sources: list[BoundSource] = []
        self.taking = False
        self.dead_letter = dead_letter
        self.dead_letters = dead_letters
        self.undeliverable = dead_letters.write
        self.accept: Accept
        self.observe(observers)

    @property
    def sources(self) -> list[Source]:
        """Its sources."""
        return [bound_source.source for bound_source in self.bound_sources]

    def observe(self, observers: tuple[Observer, ...]) -> None:
        """Replaces the observers."""
        super().observe(observers)
        tell = self._stored if observers else None
        self.accept = compose.storing(self.channel.append, tell, self.meter)
        self._again = self.accept
        if self.deduplicates and offers(self.channel, Deduplicates):
            self._again = compose.storing(self.channel.append_again, tell, self.meter)
        self.dead_letters.observe(observers)
        for bound_source in self.bound_sources:
            if bound_source.intake.target is self:  # during a reload it may already feed another one
                bound_source.intake.switch_to(self)

    def reply(self, events: Sequence[Event], done: Accepted) -> None:
        """Accepts replies, which come from no source."""
        self.accept(events, done)

    def publish(self, events: Sequence[Event], done: Accepted) -> None:
        """Accepts events that are replayed, whether the channel has them or not."""
        self._again(events, done)

    def use_dead_letter(self, dead_letter: Sink, traced: Sink) -> None:
        """Uses this dead letter from now on; `traced` writes to it."""
        self.dead_letter = dead_letter
        self.dead_letters.use(traced)

    def _stored(self, events: Sequence[Event]) -> None:
        if self.deduplicates:
            events = [event for event in events if not event.duplicate]
            if not events:
                return
        for observer in self._observers:
            observer.accepted(self.name, events)

    def withdraw(self, partition: int) -> Sequence[int]:
        """See `Intake.withdraw`: what was accepted is stored by now or soon."""
        return ()

    def condition(self, channel: ChannelStatus) -> Condition:
        """Whether it is ready, else why not (Knative Broker specification: Ready while the ingress takes events)."""
        if not self.taking:
            return Condition(False, "the ingress is not open", "IngressClosed")
        if not channel.writable:
            why = f": {channel.error}" if channel.error else ""
            return Condition(False, f"the channel can't be written{why}", "ChannelNotWritable")
        if fault := self.faults.get("channel"):
            return Condition(False, fault, "ComponentFailed")
        errors = source_errors(self.bound_sources)
        if errors:
            first = next(iter(errors.values()))
            if len(errors) == len(self.bound_sources):
                return Condition(False, f"no source works: {first}", "SourceFails")
            return Condition(
                True, f"{len(errors)} of {len(self.bound_sources)} sources do not work: {first}", "IngressDegraded"
            )
        if fault := self.faults.get("dead_letter") or self.dead_letters.fault:
            return Condition(True, fault, "DeadLetterFails")  # events are accepted; undeliverable ones wait
        if self.deduplicates and (fault := channel.details.get("faults", {}).get("deduplication")):
            return Condition(True, fault, "DeduplicationShort")
        return Condition(True, "", "IngressOpen")


class Trigger:
    """A trigger whose events are sent to its subscriber."""

    def __init__(
        self,
        name: str,
        broker: Broker,
        filter: Filter,
        subscription: Subscription,
        dead_letter: Sink,
        start_position: StartPosition,
        sinks: list[Sink],
        meter: Meter | None = None,
        due_of: DueOf | None = None,
    ) -> None:
        self.name = name
        self.broker = broker
        self.filter = filter
        self.due_of = due_of
        self.subscription = subscription
        self.dead_letter = dead_letter
        self.start_position = start_position
        self.sinks = sinks  # started and stopped with it
        self.faults: dict[str, str] = {}  # components that do not work any more, by their word in the config
        self.meter = meter

    reads = False

    @property
    def sink(self) -> Sink:
        """The subscriber."""
        return self.subscription.sink

    @property
    def delivery(self) -> Subscription:
        """How it delivers."""
        return self.subscription

    @property
    def feed(self) -> Feed:
        """What the channel offers it."""
        return self.subscription.feed

    def attach(self) -> None:
        """Attaches the trigger to the broker's channel."""
        s, channel = self.subscription, self.broker.channel
        if offers(channel, DelayingChannel):
            channel.delay(self.name, self.due_of)
        s.feed = channel.attach(self.name, self.filter, s, start=self.start_position)

    def condition(self) -> Condition:
        """Whether it is ready, else why not (Knative Broker specification: Ready while events can be delivered)."""
        s = self.subscription
        if not self.broker.taking:
            return Condition(False, f"broker {self.broker.name!r} is not ready", "BrokerNotReady")
        if fault := next(iter(self.faults.values()), ""):
            return Condition(False, fault, "ComponentFailed")
        if s.paused:
            return Condition(False, "paused by an operator", "Paused")
        if why := fault_of(s.feed):
            return Condition(False, why, "FeedFails")
        if s.blocked:
            return Condition(False, s.failures.last or "blocked", "DeadLetterFails")
        if s.short:
            return Condition(False, s.failures.last or "this machine is short of resources", "OutOfResources")
        if s.holding:
            return Condition(False, held_while_down(s), "HeldWhileDown")
        if s.failures.many:
            return Condition(False, f"the subscriber fails: {s.failures.last}", "SubscriberFails")
        if why := fault_of(s.sink):
            return Condition(False, f"the subscriber fails: {why}", "SubscriberFails")
        if offers(s.feed, StartsLate) and (late := s.feed.started_late):
            return Condition(True, late, "StartedLate")
        return Condition(True, "", "Delivering")

    def status(self) -> TriggerStatus:
        """Its condition and counts."""
        s, (ready, reason, condition) = self.subscription, self.condition()
        return TriggerStatus(
            name=self.name,
            broker=self.broker.name,
            ready=bool(ready),
            reason=reason,
            condition=condition,
            subscriber=s.sink.address,
            dead_letter=self.dead_letter.address,
            lag=lag_of(s.feed),
            paused=s.paused,
            **delay_facts(s.feed),
            replayed=dict(s.replayed),
            **delivery_facts(s, self.meter),
        )


class ReadingTrigger:
    """A trigger whose subscriber reads the channel itself (Spark)."""

    reads = True
    dead_letter = None
    delivery = None
    due_of = None

    def __init__(
        self,
        name: str,
        broker: Broker,
        filter: Filter,
        sink: ReadingSink,
        start_position: StartPosition,
        options: Mapping[str, Any],
        guard: FilterGuard | None = None,
    ) -> None:
        self.name = name
        self.broker = broker
        self.filter = filter
        self.sink = sink
        self.start_position = start_position
        self._options = options
        self._guard = guard
        self.faults: dict[str, str] = {}
        self.feed: ReaderFeed | None = None

    def attach(self) -> None:
        """Attaches the trigger to the broker's channel."""
        feed = self.broker.channel.attach_reader(self.name, self.filter, start=self.start_position)
        self.feed = feed
        self.filtered = FilteredFeed(feed, self._options)

    async def start(self, tasks: TaskGroup) -> None:
        await self.sink.start_reading(self.filtered, tasks)

    def condition(self) -> Condition:
        """Whether it is ready, else why not."""
        state = reader_state(self.sink)
        if not self.broker.taking:
            return Condition(False, f"broker {self.broker.name!r} is not ready", "BrokerNotReady")
        if fault := next(iter(self.faults.values()), ""):
            return Condition(False, fault, "ComponentFailed")
        if state.state in ("running", "submitted"):  # submitted: others run it
            if self.feed is not None and offers(self.feed, StartsLate) and (late := self.feed.started_late):
                return Condition(True, late, "StartedLate")
            return Condition(True, "", "Delivering")
        reason = "ReaderStarting" if state.state == "starting" and not state.error else "ReaderNotRunning"
        return Condition(False, state.error or f"the reader is {state.state}", reason)

    def status(self) -> TriggerStatus:
        """Its condition and counts."""
        state, (ready, reason, condition) = reader_state(self.sink), self.condition()
        return TriggerStatus(
            name=self.name,
            broker=self.broker.name,
            ready=bool(ready),
            reason=reason,
            condition=condition,
            subscriber=self.sink.address,
            delivered=state.rows,
            lag=state.lag,
            last_error=state.error,
            filter_errors=self._guard.errors.count if self._guard else 0,
            reader=state,
        )


class FilteredFeed:
    """A channel's reader feed with the trigger's filter among its options."""

    def __init__(self, feed: ReaderFeed, options: Mapping[str, Any]) -> None:
        self.name = feed.name
        self.location = feed.location
        self.start = feed.start
        self.options: Mapping[str, Any] = {**feed.options, **options}
        self.advance = feed.advance
        self.ends = feed.ends
