"""Reads one stream as a consumer of a group."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import anyio
from gateway_transport.handover import Handover
from gateway_transport.not_an_event import handle
from redis.exceptions import ResponseError

from gateway_core.contract.clock import Clock
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.outcome import Outcome

from . import faults
from .binding import message_of, wrap
from .client import Client
from .config import RedisSourceConfig
from .group import Group

log = logging.getLogger("tidegate.redis")

BLOCK_MS = 2000
"""How long a read waits for entries, at most; in milliseconds."""
MOST_READ = 500
"""The most entries in one read."""
MOST_ACKED = 1000
LOOK_S = 5.0
"""How often the state of the group is looked up, and entries of dead consumers are looked for; in seconds."""
FORGET_EVERY = 60
"""Silent consumers are looked for on every n-th of these turns."""

Entry = Sequence[Any]
"""An id and a list of fields; the fields are None if the entry was deleted."""


class StreamReader:
    """One stream. Entries in progress (`held`) stay pending in the group until they are safe.

    A reader first gets what is pending for its own consumer: after a restart these are the entries of the process
    before, after a reconnect those whose delivery it did not see. Entries in progress are never handed over twice. They
    are kept fresh, three times within `claim_idle_s`, so that no live consumer takes them over; whatever is older
    belongs to a dead one, and is taken over (XAUTOCLAIM).
    """

    def __init__(
        self,
        group: Group,
        options: RedisSourceConfig,
        owner: str,
        address: str,
        number: int,
        read: Callable[[Message], Event],
        clock: Clock,
    ) -> None:
        self.group = group
        self.handover: Handover[bytes] = Handover(owner, address, clock, self._settle, partition=number)
        self.redelivered = self.claimed = self.deleted = 0
        self._options = options
        self._owner = owner
        self._read = read
        self._clock = clock
        self._held: dict[bytes, int] = {}  # with their bytes
        self._bytes = 0
        self._most_bytes = options.max_held_bytes
        self._longest = self._most_bytes // 16  # bytes of an entry: a guess at first, which falls with each read
        self._settled: list[bytes] = []
        self._rereading = 0
        self._acked_meanwhile: set[bytes] = set()  # an answer that was under way may still name them
        self._to_ack = asyncio.Event()
        self._room = asyncio.Event()
        self._fetching: anyio.CancelScope | None = None
        self._stopping = False
        self._told: set[str] = set()
        self._idle_ms = int(options.claim_idle_s * 1000)
        self._block_ms = max(1, min(BLOCK_MS, int(options.timeout_s * 500)))  # answers come within the time limit
        self._most = min(MOST_READ, options.prefetch)
        self._enough = max(1, min(self._most, options.prefetch // 4))

    @property
    def held(self) -> int:
        """Entries in progress, and those whose acknowledgement is on its way."""
        return len(self._held)

    # -- life -------------------------------------------------------------------------------------------------------

    async def run(self, client: Client) -> None:
        """Reads until the connection fails: raises the error of the client."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._acknowledge, client)
            tasks.start_soon(self._look_after, client)
            with anyio.CancelScope() as self._fetching:
                while not self._stopping:
                    await self._fetch(client)

    def stop_fetching(self) -> None:
        """Reads no more entries."""
        self._stopping = True
        if self._fetching is not None:
            self._fetching.cancel()

    async def acknowledged(self) -> None:
        """Returns once all that is safe is acknowledged. It never does without a connection."""
        while self._settled:
            self._room.clear()
            await self._room.wait()

    # -- entries in -------------------------------------------------------------------------------------------------

    async def _fetch(self, client: Client) -> None:
        """Reads until the group is gone."""
        group = self.group
        head = ("XREADGROUP", "GROUP", group.name, group.consumer, "COUNT")
        tail = ("BLOCK", self._block_ms, "STREAMS", group.stream, ">")
        try:
            await self._own(client)
            while True:
                count = await self._free()
                if answer := await client.execute_command(*head, count, *tail):
                    self._take(answer[0][1])
        except ResponseError as e:
            if not faults.is_group_lost(e):
                raise
            await group.create(client)

    async def _free(self) -> int:
        """How many entries may be read; waits until it is worth it."""
        while (free := self._options.prefetch - len(self._held)) < self._enough or self._bytes >= self._most_bytes:
            self._room.clear()
            await self._room.wait()
        return max(1, min(free, self._most, (self._most_bytes - self._bytes) // self._longest))

    async def _own(self, client: Client, *, wait: bool = True) -> None:
        """Reads what is pending for this consumer. Without `wait`, only as far as there is room."""
        group, last = self.group, b"0-0"
        while wait or len(self._held) < self._options.prefetch:
            count = await self._free() if wait else self._most
            with self._reread():
                answer = await client.execute_command(
                    "XREADGROUP", "GROUP", group.name, group.consumer, "COUNT", count, "STREAMS", group.stream, last
                )
                entries = answer[0][1] if answer else []
                if not entries:
                    return
                last = entries[-1][0]
                await self._take_again(client, entries)

    @contextmanager
    def _reread(self) -> Iterator[None]:
        """Around commands that hand out again what is pending, while acknowledgements go another way."""
        self._rereading += 1
        try:
            yield
        finally:
            self._rereading -= 1
            if not self._rereading:
                self._acked_meanwhile.clear()

    async def _take_again(self, client: Client, entries: Sequence[Entry]) -> int:
        """Takes entries that were handed out before. Returns how many."""
        known = self._held.keys() | self._acked_meanwhile
        new = [entry for entry in entries if entry[0] not in known]
        self.redelivered += len(new)
        most = self._options.max_deliveries
        if new and most is not None:
            group = self.group
            about = ("XPENDING", group.stream, group.name, new[0][0], new[-1][0], 10 * MOST_READ, group.consumer)
            counts = {found[0]: found[3] for found in await client.execute_command(*about)}
            new = [entry for entry in new if not self._too_often(entry, counts.get(entry[0], 1) - 1, most)]
        self._take(new)
        return len(new)

    def _too_often(self, entry: Entry, times: int, most: int) -> bool:
        """Whether an entry was handed out too often without success; then it goes to the dead letter."""
        id, fields = entry
        if times < most or fields is None or id in self._held:
            return False
        try:
            event = self._event(fields)
        except Refused:
            return False
        self._hold(id, fields)
        reason = f"handed out {times} times without an acknowledgement (max_deliveries)"
        self.handover.dead_letter(event, id, Outcome(False, reason=reason))
        return True

    def _take(self, entries: Sequence[Entry]) -> None:
        held, take = self._held, self.handover.take
        if entries:
            self._longest = max(1, self._longest // 2)
        for id, fields in entries:
            if id in held:
                continue
            self._hold(id, fields)
            if fields is None:
                self.deleted += 1
                self.handover.skip(id)
                continue
            try:
                event = self._event(fields)
            except Refused as e:
                made = wrap(self.group.stream, id, fields, self._options.wrap_type, self._clock.now_ns())
                handle(self._options, self.handover, made, id, e)
                continue
            take(event, id)

    def _hold(self, id: bytes, fields: Sequence[bytes] | None) -> None:
        size = sum(map(len, fields)) if fields is not None else 0
        self._held[id] = size
        self._bytes += size
        if size > self._longest:
            self._longest = size

    def _event(self, fields: Sequence[bytes]) -> Event:
        return self._read(message_of(fields))

    # -- acknowledgements -------------------------------------------------------------------------------------------

    def _settle(self, id: bytes) -> None:
        self._settled.append(id)
        self._to_ack.set()

    async def _acknowledge(self, client: Client) -> None:
        """Sends acknowledgements, many in one command. Those that a lost connection left open are sent again."""
        settled, held, group = self._settled, self._held, self.group
        while True:
            while settled:
                ids = settled[:MOST_ACKED]
                await client.execute_command("XACK", group.stream, group.name, *ids)
                del settled[: len(ids)]
                for id in ids:
                    self._bytes -= held.pop(id, 0)
                if self._rereading:
                    self._acked_meanwhile.update(ids)
                self._room.set()
            self._to_ack.clear()
            await self._to_ack.wait()

    # -- the group --------------------------------------------------------------------------------------------------

    async def _look_after(self, client: Client) -> None:
        """Keeps entries in progress fresh, takes over those of dead consumers, and looks at the group."""
        interval = min(LOOK_S, self._options.claim_idle_s / 3)
        steps = [("XCLAIM", self._refresh), ("XAUTOCLAIM", self._claim), ("XINFO", self.group.look)]
        turn = 0
        while True:
            for what, step in steps:
                await self._try(what, step, client)
            if turn % FORGET_EVERY == 0:
                await self._try("XGROUP DELCONSUMER", self._forget, client)
            turn += 1
            await anyio.sleep(interval)

    async def _try(self, what: str, step: Callable[[Client], Any], client: Client) -> None:
        try:
            await step(client)
        except ResponseError as e:
            if not faults.is_group_lost(e) and what not in self._told:  # a lost group: the next read finds it
                self._told.add(what)
                log.error("%s: %s on the stream %s: %s", self._owner, what, self.group.stream, faults.words(e))

    async def _refresh(self, client: Client) -> None:
        group, ids = self.group, list(self._held)
        for n in range(0, len(ids), MOST_READ):
            some = ids[n : n + MOST_READ]
            idle = self._idle_ms // 6
            await client.execute_command("XCLAIM", group.stream, group.name, group.consumer, idle, *some, "JUSTID")

    async def _claim(self, client: Client) -> None:
        group, cursor = self.group, b"0-0"
        while (
            not self._stopping
            and (free := self._options.prefetch - len(self._held)) > 0
            and self._bytes < self._most_bytes
        ):
            count = max(1, min(free, self._most, (self._most_bytes - self._bytes) // self._longest))
            with self._reread():
                cursor, entries, *_ = await client.execute_command(
                    "XAUTOCLAIM", group.stream, group.name, group.consumer, self._idle_ms, cursor, "COUNT", count
                )
                whole = [entry for entry in entries if entry is not None]
                self.claimed += await self._take_again(client, whole)
            if len(whole) < len(entries):  # Redis 6 hands out deleted entries without their ids
                await self._own(client, wait=False)
            if cursor == b"0-0":
                return

    async def _forget(self, client: Client) -> None:
        await self.group.forget_consumers(client, CONSUMER_PREFIX, self._options.forget_consumers_s)

    # -- for status -------------------------------------------------------------------------------------------------

    def info(self) -> dict[str, Any]:
        progress = self.group.progress
        known = {"lag": progress.lag + progress.pending, "pending": progress.pending} if progress else {}
        return {
            "lag": 0,
            "pending": 0,
            **known,
            "in_progress": self.held,
            "redelivered": self.redelivered,
            "claimed": self.claimed,
            "deleted": self.deleted,
        }


CONSUMER_PREFIX = "tidegate-"
"""How the names of our consumers begin, unless `consumer` says otherwise."""
