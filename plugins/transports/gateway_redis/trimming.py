"""Trims streams without losing what a consumer group has not acknowledged (`trim: acked`)."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import anyio
from redis.exceptions import ResponseError

from . import faults
from .client import Client, pairs
from .group import after, floor_of, number_of

log = logging.getLogger("tidegate.redis")

INTERVAL_S = 5.0
MOST_STREAMS = 10_000
"""How many streams are remembered until they are trimmed; others are when they are written to again."""


class Trimmer:
    """Trims the streams that were written to. An entry is removed once every group of its stream has acknowledged it;
    a stream without groups is left alone, since nobody has read it."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._streams: set[str] = set()
        self._scope: anyio.CancelScope | None = None
        self._told = ""

    def wrote(self, streams: Iterable[str]) -> None:
        """These streams have new entries."""
        if len(self._streams) < MOST_STREAMS:
            self._streams.update(streams)

    def stop(self) -> None:
        if self._scope is not None:
            self._scope.cancel()

    async def run(self, redis: Client) -> None:
        """Trims now and then until `stop`. A failure is logged once, and tried again. What the server says of one
        stream is no concern of the others."""
        with anyio.CancelScope() as self._scope:
            while True:
                await anyio.sleep(INTERVAL_S)
                failed = ""
                for stream in list(self._streams):
                    try:
                        if await trim(redis, stream):
                            self._streams.discard(stream)
                    except ResponseError as e:
                        if faults.is_no_stream(e):  # until it is written to again
                            self._streams.discard(stream)
                        else:
                            failed = self._failed(stream, e)
                    except Exception as e:  # also what a connection raises that the sink closed at this moment
                        failed = self._failed(stream, e)
                        break
                self._told = failed

    def _failed(self, stream: str, error: Exception) -> str:
        text = faults.words(error)
        if text != self._told:
            log.warning("%s: can't trim the stream %s, will retry: %s", self._owner, stream, text)
            self._told = text
        return text


async def trim(redis: Client, stream: str) -> bool:
    """Removes the entries that all groups have acknowledged. Returns whether that leaves none."""
    floors = []
    for found in await redis.execute_command("XINFO GROUPS", stream):
        facts = pairs(found)
        name, last, pending = facts[b"name"], facts[b"last-delivered-id"], facts[b"pending"]
        floors.append(after(await floor_of(redis, stream, name, last, pending)))
    if not floors:
        return False
    await redis.execute_command("XTRIM", stream, "MINID", min(floors, key=number_of))
    return bool(await redis.execute_command("XLEN", stream) == 0)
