"""Calls from other threads onto the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any


class LoopCalls:
    """Queues calls for the running event loop. The loop is woken once for all that are queued when it gets to them, in
    their order. Make it on the loop's thread, call it from any."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._calls: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
        self._lock = threading.Lock()
        self._woken = False

    def call(self, function: Callable[..., Any], *args: Any) -> bool:
        """Calls `function(*args)` on the loop soon. Returns False if the loop has ended."""
        with self._lock:
            if self._loop.is_closed():
                return False
            self._calls.append((function, args))
            if self._woken:
                return True
            self._woken = True
        try:
            self._loop.call_soon_threadsafe(self._run)
        except RuntimeError:
            return False
        return True

    def _run(self) -> None:
        with self._lock:
            calls, self._calls = self._calls, deque()
            self._woken = False
        for function, args in calls:
            try:
                function(*args)
            except Exception as e:  # must not keep the calls behind it
                self._loop.call_exception_handler({"message": "a call from another thread failed", "exception": e})
