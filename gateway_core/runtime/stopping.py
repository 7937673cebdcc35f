"""SIGTERM and SIGINT. They must work whatever the loop does.

The loop's own handlers only run while it turns. These run between two steps of Python code: the first signal notifies
the loop, a second one ends the process at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import Any

ENDED_AT_ONCE = 130


class StopSignals:
    """`first` is called by the loop after the first signal, `second` in the handler at the second, before the process
    ends. `ignored` signals have no effect. Use it as a context, in the main thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        first: Callable[[], None],
        second: Callable[[], None] = lambda: None,
        *,
        ignored: Sequence[signal.Signals] = (),
    ) -> None:
        self._loop = loop
        self._first = first
        self._second = second
        self._ignored = ignored
        self._before: dict[int, Any] = {}
        self.since: float | None = None  # `time.monotonic` of the first signal

    def __enter__(self) -> StopSignals:
        for number in (signal.SIGTERM, signal.SIGINT):
            handler = signal.SIG_IGN if number in self._ignored else self._handle
            self._before[number] = signal.signal(number, handler)
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.since is None:
            self.since = time.monotonic()
            self._loop.call_soon_threadsafe(self._first)
            return
        # a drain is shielded from cancellation: only the end of the process ends it
        self._second()
        leave(ENDED_AT_ONCE)


def leave(code: int) -> None:
    """Ends the process without waiting for anything."""
    # the interrupted code may hold a handler's lock: nothing may wait for it
    for handler in logging.getLogger().handlers:
        handler.acquire = lambda: None  # type: ignore[method-assign]
    os._exit(code)
