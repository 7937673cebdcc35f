"""SIGTERM, SIGINT, and SIGHUP where it reloads nothing. They must work whatever the loop does.

The loop's own handlers only run while it turns. These run between two steps of Python code: the first signal notifies
the loop, a later one ends the process at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

ENDED_AT_ONCE = 130
SAME_S = 0.25
"""Signals that come within so many seconds are one: `timeout` signals its child, and then the group of it."""


class StopSignals:
    """`first` is called by the loop after the first signal, `second` in the handler at a later one, before the process
    ends. A `supervised` process knows only the first SIGTERM. Use it as a context, in the main thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        first: Callable[[], None],
        second: Callable[[], None] = lambda: None,
        *,
        supervised: bool = False,
    ) -> None:
        self._loop = loop
        self._first = first
        self._second = second
        self._supervised = supervised
        self._before: dict[int, Any] = {}
        self.since: float | None = None  # `time.monotonic` of the first signal

    def __enter__(self) -> StopSignals:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # what reloads at SIGHUP takes it over later
            nohup = number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN
            ignored = nohup or (self._supervised and number != signal.SIGTERM)
            self._before[number] = signal.signal(number, signal.SIG_IGN if ignored else self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.since is None:
            self.since = time.monotonic()
            self._loop.call_soon_threadsafe(self._first)
        elif not self._supervised and time.monotonic() - self.since > SAME_S:
            # a drain is shielded from cancellation: only the end of the process ends it
            self._second()
            leave(ENDED_AT_ONCE)


def leave(code: int) -> None:
    """Ends the process without waiting for anything."""
    # the interrupted code may hold a handler's lock: nothing may wait for it
    for handler in logging.getLogger().handlers:
        handler.acquire = lambda: None  # type: ignore[method-assign]
    os._exit(code)
