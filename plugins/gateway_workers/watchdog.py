"""Detects a loop that hangs, from a thread of the same process.

The thread counts its own ticks, not seconds: there are none while the machine sleeps or the process is stopped
(SIGSTOP), so there is no false alarm. Code that holds the GIL that long blocks this thread too; then a system timer of
CPU time makes C code write the stacks. Only another process, the supervisor (`workers` more than one), detects a
deadlock that holds the GIL and uses no CPU.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gateway_core.contract.stopping import ENDED_AT_ONCE, StopSignals, leave

log = logging.getLogger("tidegate.watchdog")

TICK_S = 0.5
BEAT_S = 0.5
LEAST_S = 2.0
"""With a shorter limit a busy machine would look like a loop that hangs."""
AT_START = 4.0
"""The factor for the limit while a gateway starts (imports libraries, reads files)."""
AT_START_LEAST_S = 120.0
STUCK_STOP_S = 10.0
"""A loop that hangs this long after SIGTERM will not stop anything."""
STOP_MORE_S = 60.0
"""How much longer than the drain a stop may take: files to close, a Spark batch to finish."""


def limit_of(limit_s: float, started: bool) -> float:
    """How long a loop may hang, in seconds."""
    limit_s = max(limit_s, LEAST_S)
    return limit_s if started else max(AT_START * limit_s, AT_START_LEAST_S)


class Watchdog:
    """Watches the loop of the main thread. `limit_s` 0: only stops are watched."""

    def __init__(self, limit_s: float, drain_s: float) -> None:
        self._limit_s = limit_s
        self._drain_s = drain_s
        self._main = threading.get_ident()
        self._turns = 0
        self._over = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._stop: StopSignals
        self._timer: asyncio.TimerHandle
        self._started = False

    @contextmanager
    def watch(self, stop: StopSignals) -> Iterator[None]:
        """Watches the running loop, and the stop that a signal begins."""
        self._loop, self._stop = asyncio.get_running_loop(), stop
        if self._limit_s and sys.__stderr__ is not None:
            with suppress(OSError, ValueError, RuntimeError):  # no file behind it
                faulthandler.register(signal.SIGPROF, file=sys.__stderr__, all_threads=True)
        self._turn()
        thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
            self._timer.cancel()
            if self._limit_s:
                signal.setitimer(signal.ITIMER_PROF, 0)
                faulthandler.unregister(signal.SIGPROF)

    def started(self) -> None:
        """Applies the limit of a running gateway from now on."""
        self._started = True
        self._arm()

    def _arm(self) -> None:
        if self._limit_s:
            signal.setitimer(signal.ITIMER_PROF, limit_of(self._limit_s, self._started))

    def _turn(self) -> None:
        self._turns += 1
        self._timer = self._loop.call_later(BEAT_S, self._turn)

    def _watch(self) -> None:
        seen, still_s, stopping_s, told_at = self._turns, 0.0, 0.0, 0.0
        while not self._over.wait(TICK_S):
            limit_s = limit_of(self._limit_s, self._started)
            self._arm()
            if self._turns != seen:
                seen, still_s = self._turns, 0.0
                if told_at:
                    log.warning("the loop turns again, after about %.0f s", time.monotonic() - told_at + limit_s)
                    told_at = 0.0
            else:
                still_s += TICK_S
            if self._limit_s and still_s >= limit_s and not told_at:
                told_at = time.monotonic()
                log.error("the loop has not turned for %g s: no events flow. It is in\n%s", limit_s, self._stack())
            if self._stop.since is not None:
                stopping_s += TICK_S
                self._check_stop(min(still_s, stopping_s), stopping_s)

    def _check_stop(self, still_s: float, stopping_s: float) -> None:
        if still_s >= STUCK_STOP_S:
            log.error(
                "can't stop: the loop has not turned for %g s since the signal. It is in\n%s", still_s, self._stack()
            )
            leave(ENDED_AT_ONCE)
        if stopping_s >= self._drain_s + STOP_MORE_S:
            log.error("a part did not stop within %g s after the signal; the process ends without it", stopping_s)
            leave(ENDED_AT_ONCE)

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._main)
        return "".join(traceback.format_stack(frame)).rstrip() if frame else "?"
