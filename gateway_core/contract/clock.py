"""Time and timers behind a small interface, so that tests of retries need not wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol


class Timer(Protocol):
    """A running timer. `cancel` may be called at any time, even after it fired."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """The time source of the gateway. `gateway_testing.FakeClock` is the other implementation."""

    def now_ns(self) -> int:
        """Unix time in nanoseconds."""

    def monotonic(self) -> float:
        """Seconds from a clock that never goes backwards."""

    def call_later(self, delay_s: float, call: Callable[..., Any], *args: Any) -> Timer:
        """Calls `call(*args)` on the event loop after `delay_s` seconds."""


class SystemClock:
    """The machine's clock and the running asyncio loop's timers."""

    now_ns = staticmethod(time.time_ns)
    monotonic = staticmethod(time.monotonic)

    def call_later(self, delay_s: float, call: Callable[..., Any], *args: Any) -> Timer:
        return asyncio.get_running_loop().call_later(delay_s, call, *args)
