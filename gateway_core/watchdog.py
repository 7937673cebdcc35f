"""Notices a loop that does not turn any more, from a thread of the same process.

A thread counts its own ticks, not seconds: while the machine sleeps or the process is stopped (SIGSTOP) there are none,
so there is no false alarm. Code that holds Python's lock for so long keeps this thread from running, too; a timer of
the system that counts CPU time then has the stacks written by C code. A deadlock that holds the lock and uses no CPU is
noticed only by another process: the supervisor (`workers` more than one).
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
from contextlib import suppress
from types import TracebackType

from .stopping import ENDED_AT_ONCE, StopSignals, leave

log = logging.getLogger("tidegate.watchdog")

TICK_S = 0.5
BEAT_S = 0.5
LEAST_S = 2.0
"""Shorter limits would take a busy machine for a loop that hangs."""
AT_START = 4.0
"""While a gateway starts (libraries are imported, files read), its loop may take so much longer."""
AT_START_LEAST_S = 120.0
STUCK_STOP_S = 10.0
"""A loop that does not turn for so long after SIGTERM will not stop anything."""
STOP_MORE_S = 60.0
"""What a stop may take beyond the drain: files to close, a Spark that finishes its batch."""


def limit_of(limit_s: float, started: bool) -> float:
    """How long a loop may stand still, in seconds."""
    limit_s = max(limit_s, LEAST_S)
    return limit_s if started else max(AT_START * limit_s, AT_START_LEAST_S)


class Watchdog:
    """Watches the loop of the calling thread, which must be the main one, within the context. `limit_s` 0: only stops
    are watched."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limit_s: float, stop: StopSignals, drain_s: float) -> None:
        self._loop = loop
        self._limit_s = limit_s
        self._stop = stop
        self._drain_s = drain_s
        self._main = threading.get_ident()
        self._turns = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._timer: asyncio.TimerHandle | None = None
        self._started = False

    def __enter__(self) -> Watchdog:
        if self._limit_s and sys.__stderr__ is not None:
            with suppress(OSError, ValueError, RuntimeError):  # no file behind it
                faulthandler.register(signal.SIGPROF, file=sys.__stderr__, all_threads=True)
        self._turn()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        if self._timer is not None:
            self._timer.cancel()
        if self._limit_s:
            signal.setitimer(signal.ITIMER_PROF, 0)
            faulthandler.unregister(signal.SIGPROF)

    def started(self) -> None:
        """From now on the limit is that of a gateway that runs."""
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
                log.error(
                    "the loop has not turned for %g s: nothing is taken or sent. It is in\n%s", limit_s, self._stack()
                )
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
            log.error("some part does not stop: the process ends without it, %g s after the signal", stopping_s)
            leave(ENDED_AT_ONCE)

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._main)
        return "".join(traceback.format_stack(frame)).rstrip() if frame else "?"
