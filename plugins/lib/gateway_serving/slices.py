"""Long work on the event loop, in slices, so that events never wait long for it."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator
from typing import Any, Generic, TypeVar

import anyio

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Work in short steps, which returns what it made."""

HOLD_S = 0.001
"""How long a slice lasts at most, in seconds, but for its last step; then as long belongs to everything else."""
CHUNK = 64 * 1024


class _Kept(Generic[T]):
    """Goes through the steps, and keeps what they return."""

    result: T

    def __init__(self, steps: Generator[Any, None, T]) -> None:
        self._steps = steps

    def __iter__(self) -> Iterator[Any]:
        self.result = yield from self._steps


def at_once(steps: Generator[Any, None, T]) -> T:
    """What the generator returns."""
    kept = _Kept(steps)
    for _ in kept:
        pass
    return kept.result


async def finished(steps: Generator[Any, None, T]) -> T:
    """What the generator returns. Whatever it yields is dropped: each `yield` says that others may have their turn."""
    kept = _Kept(steps)
    until = time.perf_counter() + HOLD_S
    for _ in kept:
        if time.perf_counter() >= until:
            await anyio.sleep(HOLD_S)
            until = time.perf_counter() + HOLD_S
    return kept.result


async def chunks(pieces: Iterable[bytes]) -> list[bytes]:
    """The pieces of a text, joined to chunks that can be written one after the other."""
    found: list[bytes] = []
    await finished(_joined(pieces, found))
    return found


async def drop(items: list[Any]) -> None:
    """Empties a long list of things that need time to go."""

    def steps() -> Generator[None, None, None]:
        while items:
            items.pop()
            yield

    await finished(steps())


def _joined(pieces: Iterable[bytes], found: list[bytes]) -> Generator[None, None, None]:
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= CHUNK:
            found.append(b"".join(waiting))
            waiting.clear()
            size = 0
        yield
    found.append(b"".join(waiting))
