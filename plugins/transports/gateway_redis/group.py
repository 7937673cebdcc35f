"""One consumer's view of a consumer group: creates it, and knows how far it has come."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from redis.exceptions import NoPermissionError, OutOfMemoryError, ResponseError

from .client import Client, pairs

log = logging.getLogger("tidegate.redis")

_LAST_NUMBER = (1 << 64) - 1
FORGET = """
if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) > 0 then return 0 end
redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
return 1
"""
"""A script that removes a consumer (of a group of a stream) if it holds nothing. It is one step, since entries that the
consumer gets in between would be lost with it."""


@dataclass(slots=True)
class Progress:
    """The state of a group at some time. `lag` counts entries that no consumer has got yet (before Redis 7 at most,
    and all of the stream if there are any), `pending` those that one has got and not acknowledged."""

    lag: int
    pending: int
    last: bytes
    floor: bytes
    """All entries up to this id are acknowledged."""


class Group:
    """The group `name` of `stream`, for the consumer `consumer`. It is created at `start`, and created again after the
    last entry that is known to be acknowledged, with all before it, if someone deleted it."""

    def __init__(self, owner: str, stream: str, name: str, consumer: str, start: str) -> None:
        self._owner = owner
        self.stream = stream
        self.name = name
        self.consumer = consumer
        self._start = start
        self.progress: Progress | None = None
        """The last known state."""
        self._exists = False

    async def create(self, client: Client) -> None:
        """Creates the group, and the stream, unless they exist."""
        start: str | bytes = self._start
        if self._exists:  # someone deleted it
            start = b"0" if self.progress is None else await self._again(client, self.progress)
        try:
            await client.execute_command("XGROUP CREATE", self.stream, self.name, start, "MKSTREAM")
        except OutOfMemoryError:  # even if the group exists; reading it needs no memory, and may give some back
            if not await self._is_there(client):
                raise
        except ResponseError as e:
            if not str(e).startswith("BUSYGROUP"):
                raise
        else:
            if isinstance(start, bytes):
                log.error(
                    "%s: the group %s of the stream %s was deleted; created it again after %s: "
                    "entries since then may come twice",
                    self._owner,
                    self.name,
                    self.stream,
                    start.decode(),
                )
        self._exists = True
        if self.progress is None:
            with suppress(NoPermissionError):  # the regular look says so
                await self.look(client)

    async def _is_there(self, client: Client) -> bool:
        try:
            found = await client.execute_command("XINFO GROUPS", self.stream)
        except ResponseError:  # there is no such key, or no permission
            return False
        return any(pairs(group)[b"name"] == self.name.encode() for group in found)

    async def _again(self, client: Client, progress: Progress) -> bytes:
        """After which id the group is created again. A stream that ends before that is another one."""
        try:
            facts = pairs(await client.execute_command("XINFO STREAM", self.stream))
        except ResponseError:  # there is no such key, or no permission
            return progress.floor
        return progress.floor if number_of(facts[b"last-generated-id"]) >= number_of(progress.floor) else b"0"

    async def look(self, client: Client) -> None:
        """Updates `progress`."""
        for found in await client.execute_command("XINFO GROUPS", self.stream):
            facts = pairs(found)
            if facts[b"name"] == self.name.encode():
                last, pending, lag = facts[b"last-delivered-id"], facts[b"pending"], facts.get(b"lag")
                if lag is None:
                    lag = await self._most_lag(client, last)
                self.progress = Progress(lag, pending, last, await self._floor(client, last, pending))

    async def _most_lag(self, client: Client, last: bytes) -> int:
        facts = pairs(await client.execute_command("XINFO STREAM", self.stream))
        return 0 if facts[b"last-generated-id"] == last else int(facts[b"length"])

    async def _floor(self, client: Client, last: bytes, pending: int) -> bytes:
        return await floor_of(client, self.stream, self.name.encode(), last, pending)

    async def forget_consumers(self, client: Client, prefix: str, silent_s: float) -> None:
        """Removes consumers that hold no entries and were silent for so long. Only those whose names begin with
        `prefix`, and not our own."""
        for found in await client.execute_command("XINFO CONSUMERS", self.stream, self.name):
            facts = pairs(found)
            name = facts[b"name"].decode(errors="replace")
            if name == self.consumer or not name.startswith(prefix):
                continue
            if (
                facts[b"pending"] == 0
                and facts[b"idle"] >= silent_s * 1000
                and await client.execute_command("EVAL", FORGET, 1, self.stream, self.name, name)
            ):
                log.info("%s: removed the silent consumer %s from the group %s", self._owner, name, self.name)


async def floor_of(client: Client, stream: str, group: bytes, last: bytes, pending: int) -> bytes:
    """The id up to which a group has acknowledged all entries. `last` and `pending` are its last delivered id and its
    number of pending entries."""
    if pending == 0:
        return last
    summary: Any = await client.execute_command("XPENDING", stream, group)
    return before(summary[1]) if summary[0] else last  # all were acknowledged in the meantime


def number_of(id: bytes) -> tuple[int, int]:
    """An id as numbers, for comparisons."""
    time, _, number = id.partition(b"-")
    return int(time), int(number or 0)


def before(id: bytes) -> bytes:
    """The greatest id that is smaller."""
    time, _, number = id.partition(b"-")
    if int(number):
        return b"%s-%d" % (time, int(number) - 1)
    return b"%d-%d" % (int(time) - 1, _LAST_NUMBER) if int(time) else b"0-0"


def after(id: bytes) -> bytes:
    """The smallest id that is greater."""
    time, _, number = id.partition(b"-")
    if int(number) < _LAST_NUMBER:
        return b"%s-%d" % (time, int(number) + 1)
    return b"%d-0" % (int(time) + 1)
