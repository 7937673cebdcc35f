"""Finds past events of a topic by what they say: there is no index, so its partitions are read backwards from their
ends, a window at a time. Always on aiokafka, without a group, in a thread with a loop of its own."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from aiokafka import AIOKafkaConsumer, errors
from aiokafka.structs import TopicPartition

from gateway_core.contract.capabilities import Found
from gateway_core.contract.errors import Refused, StorageError
from gateway_core.contract.event import Event, id_of, position_of, split_position
from gateway_core.contract.replayable import Stretch

from .admin import Admin
from .aio.faults import fault_of
from .aio.options import client_options, connect_limit_s
from .aio.session import close
from .aio.ways import ways
from .client import KafkaFault, Partition, Record
from .client_config import KafkaConfig

_T = TypeVar("_T")
Wanted = Callable[[Event], bool]

WINDOW = 1000
"""How many offsets of a partition are read at once, if their records are small."""
_MOST_BYTES = 8 * 1024 * 1024
"""Of a window's records: one that has more is read again in smaller ones."""
_MOST_S = 5.0
"""How long the cluster may take to answer."""
_POLL_MS = 100
_SLACK_MS = 10_000
"""Records are written in nearly the order of their timestamps."""
_EVER_NS = 2**62


class TopicSearch:
    """Searches one topic. `read` decodes a record; it is called in threads. Raises `StorageError` if the cluster can't
    be read."""

    def __init__(self, config: KafkaConfig, topic: str, read: Callable[[Record], Event]) -> None:
        self._config = config.model_copy(update={"request_timeout_s": min(_MOST_S, config.request_timeout_s)})
        self._topic = topic
        self._read = read

    async def find(self, id: str, source: str | None, rest: Mapping[str, int] | None, within_s: float) -> Found:
        """See `gateway_core.contract.capabilities.Searchable`; `rest` is as for `browse`."""

        def wanted(event: Event) -> bool:
            return id_of(event) == id and source in (None, event.attributes.get("source"))

        return await self._in_thread(self._step, wanted, 0, _EVER_NS, rest, 1, WINDOW, within_s)

    async def browse(
        self,
        wanted: Mapping[str, str],
        since_ns: int,
        until_ns: int,
        rest: Mapping[str, int] | None,
        most: int,
        within_s: float,
    ) -> Found:
        """See `gateway_inspect.browse.Browsable`; `rest` has for each partition the offset before which to continue."""

        def agrees(event: Event) -> bool:
            for name, value in wanted.items():
                own = str(event.attributes.get(name, ""))
                if not (own.startswith(value[:-1]) if value.endswith("*") else own == value):
                    return False
            return True

        return await self._in_thread(self._step, agrees, since_ns, until_ns, rest, most, 0, within_s)

    async def at(self, position: int) -> Event | None:
        """The event at a position, None if it is gone or none."""
        return await self._in_thread(self._at, position)

    async def stretch(self, from_ns: int, to_ns: int) -> Stretch:
        """See `gateway_core.contract.replayable.Replayable`."""
        return await self._in_thread(self._stretch, from_ns, to_ns)

    async def read_again(self, number: int, first: int, end: int) -> tuple[list[Event], int]:
        """The events of a partition with these positions, from `first` to before `end`, of one window; and where to
        read on."""
        return await self._in_thread(self._read_again, number, first, end)

    async def _stretch(self, from_ns: int, to_ns: int) -> Stretch:
        async with Admin(self._config) as admin, self._reading() as windows:
            partitions = await admin.partitions([self._topic])
            beginnings, ends = await admin.beginnings(partitions), await admin.ends(partitions)
            firsts = await self._firsts(admin, partitions, from_ns)
            until = await self._ends(admin, to_ns, None)
            oldest = {}
            for name in partitions:
                if beginnings[name] < ends[name]:
                    records = await windows.records(name, beginnings[name], beginnings[name] + 1)
                    oldest[name] = min((max(0, r.timestamp_ms) * 1_000_000 for r in records), default=0)
        parts = {name[1]: (firsts[name] + 1, max(firsts[name], until[name]) + 1) for name in partitions}
        deleted = [name for name in partitions if beginnings[name]]
        if deleted and not oldest:
            return Stretch(parts, 0, _EVER_NS)
        whole = max((oldest.get(name, 0) for name in deleted), default=0)
        return Stretch(parts, min(oldest.values(), default=0), whole)

    async def _read_again(self, number: int, first: int, end: int) -> tuple[list[Event], int]:
        name = (self._topic, number)
        async with Admin(self._config) as admin, self._reading() as windows:
            start = max(first - 1, (await admin.beginnings([name]))[name])
            while True:
                until = min(end - 1, start + windows.size)
                if start >= until:
                    return [], end
                try:
                    records = await windows.records(name, start, until)
                except _TooLarge:
                    windows.size = max(1, windows.size // 8)
                    continue
                return [event for record in records if (event := self._event(number, record)) is not None], until + 1

    async def _in_thread(self, function: Callable[..., Awaitable[_T]], *args: Any) -> _T:
        try:
            return await anyio.to_thread.run_sync(anyio.run, partial(function, *args), abandon_on_cancel=True)
        except (KafkaFault, errors.KafkaError, OSError) as e:  # TimeoutError is an OSError
            raise StorageError(str(fault_of(e))) from e

    async def _at(self, position: int) -> Event | None:
        number, behind = split_position(position)
        async with Admin(self._config) as admin, self._reading() as windows:
            if (await self._ends(admin, 0, {str(number): behind})).get((self._topic, number)) != behind:
                return None
            records = await windows.records((self._topic, number), behind - 1, behind)
        return next(filter(None, map(partial(self._event, number), records)), None)

    async def _step(
        self,
        wanted: Wanted,
        since_ns: int,
        until_ns: int,
        rest: Mapping[str, int] | None,
        enough: int,
        each: int,
        within_s: float,
    ) -> Found:
        """Searches until `enough` are found; no more than `each` in one window (0: a fair share)."""
        found: list[Event] = []
        searched = 0
        async with Admin(self._config) as admin, self._reading() as windows:
            ends = await self._ends(admin, until_ns, rest)
            firsts = await self._firsts(admin, list(ends), since_ns)
            ends = {name: end for name, end in ends.items() if end > firsts[name]}
            each = each or max(1, enough // max(1, len(ends)))
            until = time.monotonic() + within_s
            while ends and len(found) < enough:
                name = max(ends, key=lambda name: ends[name] - firsts[name])  # none is left behind
                end = ends[name]
                start = max(firsts[name], end - windows.size)
                try:
                    records = await windows.records(name, start, end)
                except _TooLarge:
                    windows.size = max(1, windows.size // 8)
                    continue
                ends[name], count = start, 0
                for record in reversed(records):
                    event = self._event(name[1], record)
                    if event is not None and since_ns <= event.received_ns < until_ns and wanted(event):
                        found.append(event)
                        count += 1
                        if count >= each:
                            ends[name] = record.offset
                            break
                searched += end - ends[name]
                if ends[name] <= firsts[name]:
                    del ends[name]
                if time.monotonic() >= until:
                    break
        found.sort(key=lambda event: event.received_ns, reverse=True)
        return Found(found, searched, {str(number): end for (_, number), end in ends.items()} or None)

    async def _ends(self, admin: Admin, until_ns: int, rest: Mapping[str, int] | None) -> dict[Partition, int]:
        partitions = await admin.partitions([self._topic])
        if rest is not None:  # the topic may be another one meanwhile
            ends = await admin.ends(partitions)
            return {name: min(rest[str(name[1])], end) for name, end in ends.items() if str(name[1]) in rest}
        if until_ns >= _EVER_NS:
            return await admin.ends(partitions)
        return await admin.at_time(partitions, until_ns // 1_000_000 + _SLACK_MS)

    async def _firsts(self, admin: Admin, partitions: list[Partition], since_ns: int) -> dict[Partition, int]:
        since_ms = since_ns // 1_000_000 - _SLACK_MS
        return await (admin.at_time(partitions, since_ms) if since_ms > 0 else admin.beginnings(partitions))

    def _event(self, number: int, record: Record) -> Event | None:
        try:
            event = self._read(record)
        except Refused:
            return None
        event.position = position_of(number, record.offset + 1)
        event.received_ns = max(0, record.timestamp_ms) * 1_000_000
        return event

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[_Windows]:
        consumer = AIOKafkaConsumer(
            **client_options(self._config),
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            fetch_max_wait_ms=_POLL_MS,
        )
        ways().guard_consumer(consumer)
        try:
            with anyio.fail_after(connect_limit_s(self._config)):
                await consumer.start()
            ways().guard_started(consumer)
            yield _Windows(consumer)
        finally:
            await close(consumer)


class _TooLarge(Exception):
    """The records of a window take too much memory."""


class _Windows:
    """Reads ranges of offsets. `size` is how many to read at once."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self.size = WINDOW

    async def records(self, name: Partition, start: int, end: int) -> list[Record]:
        """The records from `start` to before `end`. Raises `TimeoutError`; `_TooLarge`, unless there is only one."""
        consumer, partition = self._consumer, TopicPartition(*name)
        consumer.assign([partition])
        consumer.seek(partition, start)
        found: list[Record] = []
        size = 0
        with anyio.fail_after(_MOST_S):
            while await consumer.position(partition) < end:
                for records in (await consumer.getmany(partition, timeout_ms=_POLL_MS)).values():
                    ours = [r for r in records if r.offset < end]
                    found += [Record(r.offset, r.timestamp, r.key, r.value, r.headers) for r in ours]
                    size += sum(len(r.value or b"") for r in ours)
                    if size > _MOST_BYTES and end - start > 1:
                        raise _TooLarge
        return found
