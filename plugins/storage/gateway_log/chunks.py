"""Reads for subscriptions that are behind: in a thread, one bounded chunk at a time."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gateway_core.contract.event import Event

from .reader import LogReader
from .rows import CHUNK, MAX_BYTES, Unreadable, is_damage

log = logging.getLogger("tidegate.log")


Answer = Callable[[list[Event] | None, int], None]
"""Called on the loop with the events and the next sequence to read, or with None if they can't be read now."""


class ChunkReader:
    """At most one chunk is in memory, however many subscriptions wait; they are served in turn."""

    def __init__(
        self, folder: Path, loop: asyncio.AbstractEventLoop, report: Callable[[int, Unreadable], None]
    ) -> None:
        self._reader = LogReader(folder, report)
        self._report = report
        self._loop = loop
        self._pool = ThreadPoolExecutor(1, "tidegate-log-read")
        self._pool.submit(int)  # starts its thread now: later there may be no memory for one
        self._line: deque[tuple[Callable[[], tuple[list[Event], int]], Answer]] = deque()
        self._reading = False
        self._closed = False

    def ask(self, shard: int, start: int, end: int, answer: Answer) -> None:
        """Reads from `start` to at most `end`."""
        self._line.append((lambda: self.range(shard, start, end), answer))
        self._next()

    def ask_for(self, shard: int, sequences: Sequence[int], answer: Answer) -> None:
        """Reads single events; missing ones are skipped."""
        wanted = list(sequences[:CHUNK])
        self._line.append((lambda: self.single(shard, wanted), answer))
        self._next()

    async def read(self, shard: int, start: int, end: int) -> tuple[list[Event], int]:
        """A chunk, and the next sequence to read. Raises `sqlite3.Error`."""
        return await self._loop.run_in_executor(self._pool, self.range, shard, start, end)

    def _next(self) -> None:
        if self._reading or not self._line or self._closed:
            return
        self._reading = True
        read, answer = self._line.popleft()
        future = self._loop.run_in_executor(self._pool, read)
        future.add_done_callback(lambda done: self._answer(done, answer))

    def _answer(self, done: asyncio.Future[tuple[list[Event], int]], answer: Answer) -> None:
        self._reading = False
        if self._closed or done.cancelled():
            return
        if error := done.exception():
            log.error("the log %s can't be read: %s", self._reader.folder, error)
            answer(None, 0)
        else:
            answer(*done.result())
        self._next()

    def range(self, shard: int, start: int, end: int) -> tuple[list[Event], int]:
        """See `read`; runs on the reading thread."""
        try:
            rows = self._reader.rows(shard)
        except sqlite3.Error as e:
            if not is_damage(e):
                raise
            self._report(shard, Unreadable(start, end - 1, str(e), page=True))  # nothing of the file can be read
            return [], end
        if rows is None:
            raise sqlite3.OperationalError(f"the file of shard {shard} is gone")
        found, following = rows.read(start, end)
        return list(self._reader.events(shard, found)), following

    def single(self, shard: int, sequences: Sequence[int]) -> tuple[list[Event], int]:
        """Events by their sequences; runs on the reading thread."""
        events: list[Event] = []
        size = 0
        for sequence in sequences:
            events += self.range(shard, sequence, sequence + 1)[0]
            size += len(events[-1].data or b"") if events else 0
            if size >= MAX_BYTES:
                return events, sequence + 1
        return events, sequences[-1] + 1

    def close(self) -> None:
        """Stops reading. Blocks until the current chunk is done; call it in a thread."""
        self._closed = True
        self._pool.shutdown()
        self._reader.close()
