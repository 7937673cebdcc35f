"""The channel `kafka`: a broker's events in a topic, with a consumer group for each trigger (`interfaces.Channel`).

Any number of gateways with the same config share the work: Kafka distributes the partitions of each group among them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup
from gateway_transport.messages import unwritten
from gateway_transport.tasks import run

from gateway_core.contract.capabilities import Found
from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Overloaded, Refused, StorageError
from gateway_core.contract.event import Event, Message, split_position
from gateway_core.contract.interfaces import Accepted, Filter, Receiver
from gateway_core.contract.replayable import Stretch
from gateway_core.contract.start_position import LATEST, StartPosition

from . import connect, rewinds
from .admin import Admin
from .client import KafkaFault, Producer
from .config import KafkaChannelConfig
from .feed import KafkaFeed
from .group_history import OffsetsLost
from .reader_feed import KafkaReaderFeed
from .records import preview, reader, writer
from .search import TopicSearch

_T = TypeVar("_T")

START_S = 30.0
JOIN_S = 20.0
MAX_RECORDS = 100_000
"""The most records that may wait to be written, whatever their size."""


class KafkaChannel:
    """One gateway's part of a broker's topic."""

    def __init__(self, options: KafkaChannelConfig, context: BuildContext) -> None:
        self.appended = 0
        self.failed = 0  # events that Kafka rejected
        self._options = options
        self._context = context
        self._topic = options.topic_of(context.broker)
        self._write = writer(options.codec, options.key, context)
        self._search = TopicSearch(options, self._topic, reader(options.codec, context))
        self._feeds: dict[str, KafkaFeed] = {}
        self._readers: dict[str, KafkaReaderFeed] = {}
        self._gone: dict[str, KafkaFeed] = {}  # detached, possibly still leaving
        self._tasks: TaskGroup
        self._producer: Producer
        self._started = self._taking = False

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self, tasks: TaskGroup) -> None:
        """Creates the topic if it does not exist. Raises `StartError` if the cluster can't be used."""
        self._tasks = tasks
        options = self._options
        self._producer = connect.producer(options, self._context)
        self._started = True
        try:
            with anyio.fail_after(START_S):
                async with Admin(options) as admin:
                    await admin.ensure_topic(self._topic, options.partitions, options.replication)
            await self._producer.start(tasks)
        except KafkaFault as e:
            raise connect.start_error(self._context.owner, options, e) from e
        except TimeoutError as e:
            fault = KafkaFault(f"no answer within {START_S:g} s; `tidegate check --connect` may say why")
            raise connect.start_error(self._context.owner, options, fault) from e

    async def open(self) -> None:
        """Commits the start offsets of new subscriptions and waits until these have joined their groups, so that no
        other gateway can move them. A group that had offsets is not waited for: after a crash Kafka lets nobody in
        until the session of the member that is gone has ended. Raises `StartError`."""
        feeds = list(self._feeds.values())
        try:
            async with Admin(self._options) as admin:
                for feed in list(feeds):
                    try:
                        await feed.join(admin, self._tasks)
                    except OffsetsLost as lost:  # affects this trigger only
                        feeds.remove(feed)
                        feed.wait_for(lost)
                        self._tasks.start_soon(feed.join_later, self._tasks, None)
                for reader in self._readers.values():
                    await reader.prepare(admin)
                    reader.begin(self._tasks)
            with anyio.move_on_after(JOIN_S):
                for feed in feeds:
                    if feed.new:
                        await feed.flow.joined.wait()
        except KafkaFault as e:
            raise connect.start_error(self._context.owner, self._options, e) from e
        self._taking = True

    async def joined(self, name: str) -> None:
        """See `capabilities.Joined`: waits until a later subscription has joined its group, but not for an unreachable
        cluster. Raises `StartError` if the offsets of a reader can't be determined, since it must know where to begin.
        """
        reader = self._readers.get(name)
        with anyio.move_on_after(JOIN_S):
            await (self._feeds[name].flow.joined if reader is None else reader.ready).wait()
        if reader is not None and not reader.ready.is_set():
            fault = reader.health.fault or KafkaFault(f"no answer within {JOIN_S:g} s")
            raise connect.start_error(self._context.owner, self._options, fault)

    async def stop(self) -> None:
        """Finishes appends, commits all offsets, and leaves the groups."""
        if not self._started:
            return
        self._taking = False
        async with anyio.create_task_group() as stopping:
            for feed in self._feeds.values():
                stopping.start_soon(run, feed.leave)
            for reader in self._readers.values():
                stopping.start_soon(reader.leave)
            for feed in self._gone.values():
                stopping.start_soon(feed.left.wait)
        await self._producer.stop()

    # -- appends ----------------------------------------------------------------------------------------------------

    def append(self, events: Sequence[Event], done: Accepted) -> None:
        """Writes events as records; calls `done(None)` once all in-sync replicas have all of them."""
        waiting, size = self._producer.waiting
        if size >= self._options.max_queue_bytes or waiting >= MAX_RECORDS:
            self.failed += len(events)
            why = self._producer.fault or "too many events are waiting to be written"
            done(Overloaded(f"Kafka is behind: {why}"))
            return
        try:
            records = [self._write(event) for event in events]
        except Exception as e:
            self.failed += len(events)
            done(unwritten(e, "record"))
            return
        if not records:
            done(None)
            return
        appending = _Append(self, len(records), done)
        send, topic = self._producer.send, self._topic
        for key, value, headers in records:
            send(topic, key, value, headers, appending)

    def preview(self, event: Event) -> Message:
        """See `gateway_core.contract.capabilities.Previewing`: the record that would store this event."""
        return preview(f"kafka://{self._options.bootstrap[0]}/{self._topic}", *self._write(event))

    # -- past events ------------------------------------------------------------------------------------------------

    async def find(self, id: str, source: str | None, rest: Any = None, within_s: float = 0.5) -> Found:
        """See `gateway_core.contract.capabilities.Searchable`."""
        return await self._search.find(id, source, rest, within_s)

    async def browse(
        self,
        wanted: Mapping[str, str],
        since_ns: int,
        until_ns: int,
        rest: Any = None,
        most: int = 50,
        within_s: float = 0.5,
    ) -> Found:
        """See `gateway_inspect.browse.Browsable`."""
        return await self._search.browse(wanted, since_ns, until_ns, rest, most, within_s)

    async def at(self, position: int) -> Event | None:
        """See `gateway_inspect.browse.Browsable`."""
        return await self._search.at(position)

    async def stretch(self, from_ns: int, to_ns: int) -> Stretch:
        """See `gateway_core.contract.replayable.Replayable`; times are the records' timestamps."""
        return await self._search.stretch(from_ns, to_ns)

    async def read_again(self, partition: int, first: int, end: int, most: int) -> tuple[Sequence[Event], int]:
        """See `gateway_core.contract.replayable.Replayable`. A read opens a connection, so it takes more than `most`
        where that is little."""
        return await self._search.read_again(partition, first, end)

    async def keep(self, name: str, firsts: Mapping[int, int] | None) -> None:
        """Nothing: the topic's retention is the cluster's."""

    async def keep_only(self, names: Container[str]) -> None:
        """Nothing."""

    # -- rewinds ----------------------------------------------------------------------------------------------------

    async def check_rewind(self, name: str, workers: int) -> None:
        """See `gateway_core.contract.replayable.Rewinds`."""
        await self._asked(rewinds.check(self._options, self._group(name), workers))

    async def stand_aside(self, name: str) -> None:
        """See `gateway_core.contract.replayable.Rewinds`: it leaves its group."""
        if (feed := self._feeds.get(name)) is not None:
            await feed.stand_aside()

    async def settled(self, name: str) -> Callable[[int], bool]:
        """See `gateway_core.contract.replayable.Rewinds`."""
        feed, committed = self._feeds.get(name), await self._asked(self._committed(name))

        def settled(position: int) -> bool:
            number, behind = split_position(position)
            return behind <= committed.get(number, 0) or (feed is not None and feed.settled(position))

        return settled

    async def decide_rewind(self, name: str, firsts: Mapping[int, int]) -> None:
        """See `gateway_core.contract.replayable.Rewinds`."""
        await self._asked(rewinds.set_back(self._options, self._group(name), self._topic, firsts))

    async def rewind(self, name: str, firsts: Mapping[int, int]) -> None:
        """See `gateway_core.contract.replayable.Rewinds`: it joins its group again."""
        if (feed := self._feeds.get(name)) is not None:
            feed.come_back(self._tasks, firsts)
            with anyio.move_on_after(JOIN_S):
                await feed.flow.joined.wait()

    async def stay(self, name: str) -> None:
        """See `gateway_core.contract.replayable.Rewinds`."""
        if (feed := self._feeds.get(name)) is not None:
            feed.come_back(self._tasks, None)

    async def _committed(self, name: str) -> dict[int, int]:
        async with Admin(self._options) as admin:
            partitions = await admin.partitions([self._topic])
            found = await admin.committed(self._group(name), partitions)
        return {number: offset for (_, number), offset in found.items() if offset is not None}

    async def _asked(self, call: Awaitable[_T]) -> _T:
        try:
            return await call
        except KafkaFault as e:
            raise StorageError(f"the consumer groups can't be read or set back: {e}") from e

    def _group(self, name: str) -> str:
        return self._options.group_of(self._context.broker, name)

    # -- subscriptions ----------------------------------------------------------------------------------------------

    def attach(self, name: str, filter: Filter, receiver: Receiver, *, start: StartPosition = LATEST) -> KafkaFeed:
        """Adds a subscription: the consumer group `PREFIX.BROKER.NAME`. Positions are offsets plus one, as those of
        events; times are the records' timestamps, in milliseconds."""
        feed = KafkaFeed(self._group(name), self._topic, filter, receiver, self._options, self._context, start)
        self._feeds[name] = feed
        if self._taking:
            self._tasks.start_soon(feed.join_later, self._tasks, self._gone.get(name))
        return feed

    def attach_reader(self, name: str, filter: Filter, *, start: StartPosition = LATEST) -> KafkaReaderFeed:
        """Adds a sink that reads the topic itself. Its offsets are kept in the same consumer group, which has no
        members. Raises `StartError`. Each gateway with this config has such a reader; only one of them may read."""
        try:
            feed = KafkaReaderFeed(name, self._group(name), self._topic, self._options, start, self._context.data_dir)
        except KafkaFault as e:
            raise connect.start_error(self._context.owner, self._options, e) from e
        self._readers[name] = feed
        if self._taking:
            feed.begin(self._tasks)
        return feed

    def detach(self, name: str) -> None:
        """Leaves the group; the cluster keeps its offsets."""
        if (reader := self._readers.pop(name, None)) is not None:
            self._tasks.start_soon(reader.leave)
            return
        feed = self._gone[name] = self._feeds.pop(name)
        self._tasks.start_soon(self._leave, name, feed)

    async def _leave(self, name: str, feed: KafkaFeed) -> None:
        await feed.leave()
        if self._gone.get(name) is feed:
            del self._gone[name]

    # -- status -----------------------------------------------------------------------------------------------------

    def info(self) -> dict[str, Any]:
        """The channel's status. `groups` has each trigger's group with its lag in the partitions of this gateway."""
        groups = {feed.group: {**feed.flow.info(), "error": feed.fault} for feed in self._feeds.values()}
        fault = self._fault() if self._taking else KafkaFault("not open")
        return {
            "writable": fault is None,
            "error": str(fault) if fault else None,
            "failed": self.failed,
            "topic": self._topic,
            "groups": groups,
        }

    def _fault(self) -> KafkaFault | None:
        """The producer's fault. An idle producer notices nothing, so a fault that all groups share counts too."""
        if self._producer.fault is not None:
            return self._producer.fault
        faults = [feed.flow.consumer.fault for feed in self._feeds.values()]
        known = [fault for fault in faults if fault is not None and fault.retry]
        return known[0] if known and len(known) == len(faults) else None


class _Append:
    """Collects the acknowledgements of records that were appended together."""

    __slots__ = ("_channel", "_done", "_fault", "_left", "_size")

    def __init__(self, channel: KafkaChannel, size: int, done: Accepted) -> None:
        self._channel = channel
        self._size = self._left = size
        self._done = done
        self._fault: KafkaFault | None = None

    def __call__(self, fault: KafkaFault | None) -> None:
        self._left -= 1
        self._fault = fault or self._fault
        if self._left:
            return
        if self._fault is None:
            self._channel.appended += self._size
            self._done(None)
            return
        self._channel.failed += self._size
        if self._fault.retry or self._fault.credentials:  # not the event's fault
            self._done(Overloaded(f"Kafka did not take the event: {self._fault}"))
        else:
            self._done(Refused(f"Kafka rejects the event: {self._fault}", status=413))
