"""A broker's channel in memory: it stores what the real channel would store, and feeds in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anyio.abc import TaskGroup

from gateway_core.contract.capabilities import Deduplicates, Previewing, Repeated, offers
from gateway_core.contract.deduplicate_config import DeduplicateConfig, content_of, key_headers, key_reader
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Accepted, Filter, Receiver
from gateway_core.contract.outcome import Outcome
from gateway_core.contract.outcome import Stage as Failed
from gateway_core.contract.start_position import LATEST, StartPosition

from .record import DeliveryRecord
from .stage import Stage


class MemoryChannel:
    """A `Channel` for scenarios. Events get consecutive positions in a single partition."""

    def __init__(self, stage: Stage, broker: str, real: Any) -> None:
        self.appended = 0
        self._stage = stage
        self._broker = broker
        self._real = real if isinstance(real, Previewing) else None
        self._feeds: dict[str, _Feed] = {}
        self._readers: dict[str, Filter] = {}
        self._due_of: dict[str, Callable[[Event, int], int] | None] = {}
        stage.channels[broker] = self
        if offers(real, Deduplicates):
            self.deduplicate = self._deduplicate
            self.append_again = self.append
            self.repeated = self._repeated
        self._keys: _Keys | None = None

    async def start(self, tasks: TaskGroup) -> None: ...

    async def open(self) -> None: ...

    async def stop(self) -> None: ...

    def attach(self, name: str, filter: Filter, receiver: Receiver, *, start: StartPosition = LATEST) -> _Feed:
        """Adds a subscription. The channel is empty, so every start is its beginning."""
        feed = self._feeds[name] = _Feed(filter, receiver, self._due_of.get(name))
        return feed

    def delay(self, name: str, due_of: Callable[[Event, int], int] | None) -> None:
        """See `gateway_core.contract.capabilities.DelayingChannel`."""
        self._due_of[name] = due_of

    def attach_reader(self, name: str, filter: Filter, *, start: StartPosition = LATEST) -> _ReaderFeed:
        self._readers[name] = filter
        return _ReaderFeed(name)

    def detach(self, name: str) -> None:
        self._feeds.pop(name, None)
        self._readers.pop(name, None)

    def preview(self, event: Event) -> Event:
        """The event as it leaves the channel, which may change the record key. Raises `Refused`."""
        if self._real is None:
            return event
        key = self._real.preview(event).key
        return Event(event.attributes, event.data, event.json_data, key, event.received_ns, event.position)

    def append(self, events: Sequence[Event], done: Accepted) -> None:
        try:
            kept = [self.preview(event) for event in events]
        except Refused as e:
            done(e)
            return
        if self._keys is not None:
            try:
                kept = self._keys.new(kept, self._stage.clock.now_ns())
            except Refused as e:
                done(e)
                return
            for event in self._keys.repeated:
                self._stage.repeated(self._broker, event)
        for event in kept:
            self.appended += 1
            event.position = self.appended
            history = self._stage.arrived(self._broker, event)
            for name, filter in self._readers.items():
                self._read(self._stage.filtered(history, ("trigger", name), filter))
            for name, feed in self._feeds.items():
                if self._stage.filtered(history, ("trigger", name), feed.filter).clause.matched:
                    self._keep(feed, event)
        done(None)
        # not immediately: a chain of replies would be as many calls deep
        self._stage.clock.call_later(0, self._feed)

    def _deduplicate(self, config: DeduplicateConfig) -> None:
        self._keys = _Keys(config)

    def _repeated(self, id: str, source: str | None) -> Sequence[Repeated]:
        return []

    def _keep(self, feed: _Feed, event: Event) -> None:
        """Queues an event, now or when it is due."""
        clock = self._stage.clock
        now = clock.now_ns()
        try:
            wait_ns = feed.due_of(event, now) - now if feed.due_of is not None else 0
        except ValueError as e:
            clock.call_later(0, feed.reject, event, Outcome(False, stage=Failed.DELAY, reason=str(e)))
            return
        if wait_ns <= 0:
            feed.queue.append(event)
        else:
            clock.call_later(wait_ns / 1e9, self._due, feed, event)

    def _due(self, feed: _Feed, event: Event) -> None:
        feed.queue.append(event)
        self._feed()

    def _read(self, delivery: DeliveryRecord) -> None:
        delivery.reads = True
        if delivery.clause.matched:
            delivery.delivered_s = self._stage.now_s

    def _feed(self) -> None:
        for feed in list(self._feeds.values()):
            feed.resume()

    def info(self) -> dict[str, Any]:
        return {"writable": True, "events": self.appended, "bytes": 0, "first": 1, "next": self.appended + 1}


class _Keys:
    """Finds events with the key of an earlier one. Those of the last call are `repeated`."""

    def __init__(self, config: DeduplicateConfig) -> None:
        self.repeated: list[Event] = []
        self._window_ns = int(config.window * 1e9)
        self._refuses = config.on_conflict == "refuse"
        self._key_of = key_reader(config.key)
        self._status = 422 if key_headers(config.key) else 409
        self._known: dict[str, tuple[int, Event]] = {}

    def new(self, events: Sequence[Event], now_ns: int) -> list[Event]:
        """The events that are no duplicates. Raises `Refused`."""
        found, repeated, known = [], [], dict(self._known)
        for event in events:
            key = self._key_of(event)
            at, first = known.get(key or "", (0, event))
            if key is None or first is event or now_ns - at > self._window_ns:
                found.append(event)
                if key is not None:
                    known[key] = (now_ns, event)
                continue
            same = first.data == event.data and content_of(first.attributes) == content_of(event.attributes)
            if self._refuses and not same:
                raise Refused("an event with the same key but other content was accepted before", status=self._status)
            repeated.append(event)
        self._known, self.repeated = known, repeated
        return found


class _Feed:
    """A subscription's feed."""

    def __init__(self, filter: Filter, receiver: Receiver, due_of: Callable[[Event, int], int] | None) -> None:
        self.filter = filter
        self.due_of = due_of
        self.reject = receiver.reject
        self.queue: deque[Event] = deque()
        self._offer = receiver.offer

    def ack(self, position: int) -> None: ...

    def resume(self) -> None:
        while self.queue and self._offer(self.queue[0]):
            self.queue.popleft()

    def lag(self) -> int:
        return len(self.queue)


class _ReaderFeed:
    """The feed of a sink that reads the channel itself. Scenarios don't start such sinks."""

    location = ""
    options: Mapping[str, Any] = {}
    start: Mapping[str, int] = {}

    def __init__(self, name: str) -> None:
        self.name = name

    def advance(self, offsets: Mapping[str, int]) -> None: ...

    def ends(self) -> Mapping[str, int]:
        return {}
