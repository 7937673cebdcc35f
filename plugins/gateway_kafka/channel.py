"""The channel `kafka`: a broker's events in a topic, its triggers as consumer groups (`interfaces.Channel`).

Any number of gateways with the same config share the work: Kafka gives each group's partitions to those that live.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
from anyio.abc import TaskGroup

from gateway_core.component import BuildContext
from gateway_core.errors import Overloaded, Refused
from gateway_core.event import Event, Message
from gateway_core.guards import text_of_error
from gateway_core.interfaces import Accepted, Filter, Receiver

from . import connect
from .admin import Admin
from .client import KafkaFault, Producer
from .config import KafkaChannelConfig
from .feed import KafkaFeed
from .memory import PlaceLost
from .reader_feed import KafkaReaderFeed
from .records import preview, writer

START_S = 30.0
JOIN_S = 20.0
MOST_RECORDS = 100_000
"""Records that may wait to be written, however small."""


class KafkaChannel:
    """One gateway's part of a broker's topic."""

    def __init__(self, options: KafkaChannelConfig, context: BuildContext) -> None:
        self.appended = 0
        self.failed = 0  # events that Kafka did not take
        self._options = options
        self._context = context
        self._topic = options.topic_of(context.broker)
        self._write = writer(options.codec, options.key, context)
        self._feeds: dict[str, KafkaFeed] = {}
        self._readers: dict[str, KafkaReaderFeed] = {}
        self._gone: dict[str, KafkaFeed] = {}  # detached; they may still be leaving
        self._tasks: TaskGroup
        self._producer: Producer
        self._started = self._taking = False

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self, tasks: TaskGroup) -> None:
        """Makes the topic where it does not exist. Raises `StartError` where the cluster can't be used."""
        self._tasks = tasks
        options = self._options
        self._producer = connect.producer(options)
        self._started = True
        try:
            with anyio.fail_after(START_S):
                async with Admin(options) as admin:
                    await admin.ensure_topic(self._topic, options.partitions, options.replication)
            await self._producer.start(tasks)
        except KafkaFault as e:
            raise connect.start_error(self._context.owner, options, e) from e
        except TimeoutError as e:
            fault = KafkaFault(f"no answer within {START_S:g} s")
            raise connect.start_error(self._context.owner, options, fault) from e

    async def open(self) -> None:
        """Makes the places of new subscriptions durable, and waits until all groups are joined: from then on no other
        gateway can move a place. Raises `StartError`."""
        feeds = list(self._feeds.values())
        try:
            async with Admin(self._options) as admin:
                for feed in list(feeds):
                    try:
                        await feed.join(admin, self._tasks)
                    except PlaceLost as lost:  # a matter of this trigger alone
                        feeds.remove(feed)
                        feed.wait_for(lost)
                        self._tasks.start_soon(feed.join_later, self._tasks, None)
                for reader in self._readers.values():
                    await reader.prepare(admin)
                    reader.begin(self._tasks)
            with anyio.move_on_after(JOIN_S):
                for feed in feeds:
                    await feed.flow.joined.wait()
        except KafkaFault as e:
            raise connect.start_error(self._context.owner, self._options, e) from e
        self._taking = True

    async def joined(self, name: str) -> None:
        """See `abilities.Joined`: waits until a subscription that came later has joined its group, but not for a
        cluster that is away. Raises `StartError` where a reader's place can't be had: it has to know where to begin."""
        reader = self._readers.get(name)
        with anyio.move_on_after(JOIN_S):
            await (self._feeds[name].flow.joined if reader is None else reader.ready).wait()
        if reader is not None and not reader.ready.is_set():
            fault = reader.health.fault or KafkaFault(f"no answer within {JOIN_S:g} s")
            raise connect.start_error(self._context.owner, self._options, fault)

    async def stop(self) -> None:
        """Finishes appends, commits all places, leaves the groups."""
        if not self._started:
            return
        self._taking = False
        async with anyio.create_task_group() as stopping:
            for feed in self._feeds.values():
                stopping.start_soon(feed.leave)
            for reader in self._readers.values():
                stopping.start_soon(reader.leave)
            for feed in self._gone.values():
                stopping.start_soon(feed.left.wait)
        await self._producer.stop()

    # -- appends ----------------------------------------------------------------------------------------------------

    def append(self, events: Sequence[Event], done: Accepted) -> None:
        """Writes events as records; `done(None)` follows when all in-sync replicas have all of them."""
        waiting, size = self._producer.waiting
        if size >= self._options.max_queue_bytes or waiting >= MOST_RECORDS:
            self.failed += len(events)
            why = self._producer.fault or "too many events wait to be written"
            done(Overloaded(f"Kafka is behind: {why}"))
            return
        try:
            records = [self._write(event) for event in events]
        except Exception as e:
            self.failed += len(events)
            text = f"the event can't be written as a record: {text_of_error(e)}"
            done(e if isinstance(e, Refused) else Refused(text, status=500))
            return
        if not records:
            done(None)
            return
        appending = _Append(self, len(records), done)
        send, topic = self._producer.send, self._topic
        for key, value, headers in records:
            send(topic, key, value, headers, appending)

    def preview(self, event: Event) -> Message:
        """See `gateway_core.abilities.Previewing`: the record that keeps this event."""
        return preview(f"kafka://{self._options.bootstrap[0]}/{self._topic}", *self._write(event))

    # -- subscriptions ----------------------------------------------------------------------------------------------

    def attach(self, name: str, filter: Filter, receiver: Receiver, *, from_start: bool = False) -> KafkaFeed:
        """Adds a subscription: the consumer group `PREFIX.BROKER.NAME`."""
        group = self._options.group_of(self._context.broker, name)
        feed = KafkaFeed(group, self._topic, filter, receiver, self._options, self._context, from_start)
        self._feeds[name] = feed
        if self._taking:
            self._tasks.start_soon(feed.join_later, self._tasks, self._gone.get(name))
        return feed

    def attach_reader(self, name: str, filter: Filter, *, from_start: bool = False) -> KafkaReaderFeed:
        """Adds a sink that reads the topic by itself; its place is the same consumer group, without members. Raises
        `StartError`. Each gateway with this config has such a reader: only one of them is to read."""
        group = self._options.group_of(self._context.broker, name)
        try:
            feed = KafkaReaderFeed(name, group, self._topic, self._options, from_start)
        except KafkaFault as e:
            raise connect.start_error(self._context.owner, self._options, e) from e
        self._readers[name] = feed
        if self._taking:
            feed.begin(self._tasks)
        return feed

    def detach(self, name: str) -> None:
        """Leaves the group; its place is kept by the cluster."""
        if (reader := self._readers.pop(name, None)) is not None:
            self._tasks.start_soon(reader.leave)
            return
        feed = self._gone[name] = self._feeds.pop(name)
        self._tasks.start_soon(self._leave, name, feed)

    async def _leave(self, name: str, feed: KafkaFeed) -> None:
        await feed.leave()
        if self._gone.get(name) is feed:
            del self._gone[name]

    # -- looking in -------------------------------------------------------------------------------------------------

    def info(self) -> dict[str, Any]:
        """For status. `groups` has each trigger's group with its lag, in the partitions that this gateway has."""
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
        """The producer's fault. One that has nothing to write notices nothing: then all groups' word counts."""
        if self._producer.fault is not None:
            return self._producer.fault
        faults = [feed.flow.consumer.fault for feed in self._feeds.values()]
        known = [fault for fault in faults if fault is not None and fault.retry]
        return known[0] if known and len(known) == len(faults) else None


class _Append:
    """Waits for the acknowledgement of records that came together."""

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
            self._done(Refused(f"Kafka does not take the event: {self._fault}", status=413))
