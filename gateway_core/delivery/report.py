"""Logs the deliveries of a trigger or bridge: the first failure, changes of readiness, and recovery.

A failing subscriber gets one line at once, one when the trigger is no longer ready, one a minute while that lasts, and
one when it accepts events again, however many events fail.
"""

from __future__ import annotations

import logging

from ..contract.clock import Clock
from ..contract.interfaces import Sink
from ..contract.one_line import one_line

log = logging.getLogger("tidegate.delivery")

EVERY_S = 60.0
"""Seconds between two lines about failures."""
CHANGE_S = 10.0
"""Seconds between two lines that say "not ready", for triggers whose state changes often."""


class Report:
    """Writes for one subscription. `what` is "trigger" or "bridge"."""

    __slots__ = ("_change", "_clock", "_count", "_name", "_next", "_said", "_short", "_since", "_sink")

    def __init__(self, what: str, name: str, sink: Sink, clock: Clock) -> None:
        self._name = f"{what} {name}"
        self._sink = sink
        self._clock = clock
        self._next = self._change = float("-inf")
        self._count = 0  # failures since the last line
        self._since = 0.0  # when the first failure in a row came
        self._said = False  # that it is not ready
        self._short = False

    def failed(self, in_a_row: int, ready: bool, reason: str, waiting: int) -> None:
        """An attempt failed, the `in_a_row`-th since the last that did not; `waiting` events are held."""
        now = self._clock.monotonic()
        self._count += 1
        if in_a_row == 1:
            self._since = now
        if not ready and not self._said:
            if now < self._change:
                return
            self._said = True
            self._change = now + CHANGE_S
            self._tell(now, "%s is not ready: %d attempts in a row failed at %s (%d events held), the last: %s",
                       in_a_row, waiting, reason)  # fmt: skip
        elif now >= self._next:
            if self._said:
                since = now - self._since
                self._tell(now, "%s is still not ready after %.0f s: %d more attempts failed at %s (%d events held), "
                           "the last: %s", since, self._count, waiting, reason)  # fmt: skip
            else:
                self._tell(now, "%s: %d attempts failed at %s (%d events held), the last: %s",
                           self._count, waiting, reason)  # fmt: skip

    def _tell(self, now: float, text: str, *facts: object) -> None:
        *counts, waiting, reason = facts
        log.warning(text, self._name, *counts, one_line(self._sink.address), waiting, one_line(reason))
        self._next = now + EVERY_S
        self._count = 0

    def recovered(self, failures: int) -> None:
        """An attempt succeeded after so many failures in a row."""
        if self._said:
            self._said = False
            self._next = float("-inf")
            seconds = self._clock.monotonic() - self._since
            log.info(
                "%s is ready again: %s took an event after %d failures in %.1f s",
                *(self._name, one_line(self._sink.address), failures, seconds),
            )

    def short(self, reason: str) -> None:
        """This machine is short of something that an attempt needs."""
        now = self._clock.monotonic()
        if not self._short or now >= self._next:
            self._short = True
            self._next = now + EVERY_S
            log.error("%s makes no attempts for now: %s", self._name, one_line(reason))

    def plenty(self) -> None:
        """The shortage is over."""
        if self._short:
            self._short = False
            self._next = float("-inf")
            log.info("%s makes attempts again: the shortage of this machine is over", self._name)
