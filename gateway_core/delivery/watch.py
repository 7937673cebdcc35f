"""Attempts whose sink never says what became of them: after a while they count as failed."""

from __future__ import annotations

from ..clock import Clock, Timer
from ..interfaces import Outcome, Sink
from .attempt import Delivery

GRACE_S = 30.0
"""How much longer than its time limit an attempt may take before its sink counts as at fault, in seconds."""


def longest_s(sink: Sink, timeout_s: float) -> float:
    """How long an attempt may take. A sink whose client keeps a time limit of its own says so."""
    return max(timeout_s, getattr(sink, "longest_s", 0.0)) + GRACE_S


class Watch:
    """The attempts that are under way. One look every `longest_s` seconds: those that were there at the look before
    are ended, so none stays for more than twice that. Nothing is timed for each event."""

    __slots__ = ("_clock", "_longest_s", "_seen", "_stopped", "_timer", "under_way")

    def __init__(self, clock: Clock, longest_s: float) -> None:
        self.under_way: set[Delivery] = set()
        self._clock = clock
        self._longest_s = longest_s
        self._seen: dict[Delivery, int] = {}
        self._timer: Timer | None = None
        self._stopped = False

    def begin(self, delivery: Delivery) -> None:
        """An attempt is under way; its owner takes it out of `under_way` when it ends."""
        self.under_way.add(delivery)
        if self._timer is None and not self._stopped:
            self._timer = self._clock.call_later(self._longest_s, self._look)

    def _look(self) -> None:
        self._timer = None
        overdue = [d for d in self.under_way if self._seen.get(d) == d.attempts]
        self._seen = {d: d.attempts for d in self.under_way}
        if self.under_way:
            self._timer = self._clock.call_later(self._longest_s, self._look)
        for delivery in overdue:
            if delivery.awaited:
                reason = f"the sink said for {self._longest_s:g} s and more nothing of this attempt"
                delivery(Outcome(False, retry=True, reason=reason))

    def stop(self) -> None:
        """Looks no more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
