"""Turns at dear work, which those who ask for it share."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from gateway_core.contract.errors import Overloaded


class _Place:
    """A place in the queue, until its turn comes or another needs it more."""

    __slots__ = ("ended", "has_turn")

    def __init__(self) -> None:
        self.ended = anyio.Event()
        self.has_turn = False


class Turns:
    """Lets `at_once` work at a time, and `waiting` more wait. Addresses take turns, and if there is no place left, the
    address with most places gives its newest to one with fewer: a flood from one address does not keep out others."""

    def __init__(self, at_once: int, waiting: int) -> None:
        self._free = at_once
        self._most = waiting
        self._count = 0
        self._queues: OrderedDict[str, deque[_Place]] = OrderedDict()  # whose turn is next is the first

    def has_room(self, address: str) -> bool:
        """Whether this address may wait for a turn now."""
        return self._free > 0 or self._count < self._most or self._greediest(address) is not None

    def _greediest(self, address: str) -> deque[_Place] | None:
        """The queue that gives a place to this address, if any has more than this one would have then."""
        longest = max(self._queues.values(), key=len, default=None)
        mine = self._queues.get(address, ())
        return longest if longest is not None and len(longest) > len(mine) + 1 else None

    @asynccontextmanager
    async def turn(self, address: str, busy: str) -> AsyncIterator[None]:
        """Waits for a turn, which lasts as long as this context. Raises `Overloaded` with this text if there is no
        place."""
        await self._wait(address, busy)
        try:
            yield
        finally:
            self._next()

    async def _wait(self, address: str, busy: str) -> None:
        if self._free > 0:
            self._free -= 1
            return
        if self._count >= self._most:
            if (longest := self._greediest(address)) is None:
                raise Overloaded(busy)
            longest.pop().ended.set()
            self._count -= 1
        place = _Place()
        self._queues.setdefault(address, deque()).append(place)
        self._count += 1
        try:
            await place.ended.wait()
        except BaseException:
            if place.has_turn:
                self._next()
            elif not place.ended.is_set():
                self._remove(address, place)
            raise
        if not place.has_turn:
            raise Overloaded(busy)

    def _next(self) -> None:
        if not self._queues:
            self._free += 1
            return
        address, queue = next(iter(self._queues.items()))
        place = queue.popleft()
        self._count -= 1
        if queue:
            self._queues.move_to_end(address)
        else:
            del self._queues[address]
        place.has_turn = True
        place.ended.set()

    def _remove(self, address: str, place: _Place) -> None:
        queue = self._queues[address]
        queue.remove(place)
        self._count -= 1
        if not queue:
            del self._queues[address]
