"""Fails attempts whose sink never reports an outcome."""

from __future__ import annotations

from ..contract.capabilities import TimingOut
from ..contract.clock import Clock, Timer
from ..contract.interfaces import Outcome, Sink
from .attempt import Delivery

GRACE_S = 30.0
"""How many seconds beyond its time limit an attempt may take before it is ended."""


def longest_s(sink: Sink, timeout_s: float) -> float:
    """How long an attempt may take, in seconds. A sink whose client has its own time limit is `TimingOut`."""
    return max(timeout_s, sink.longest_s if isinstance(sink, TimingOut) else 0.0) + GRACE_S


class Watch:
    """The attempts under way. It checks every `longest_s` seconds and ends those that were there at the previous check,
    so none lasts longer than twice that. There is no timer per event."""

    __slots__ = ("_clock", "_longest_s", "_seen", "_stopped", "_timer", "under_way")

    def __init__(self, clock: Clock, longest_s: float) -> None:
        self.under_way: set[Delivery] = set()
        self._clock = clock
        self._longest_s = longest_s
        self._seen: dict[Delivery, int] = {}
        self._timer: Timer | None = None
        self._stopped = False

    def begin(self, delivery: Delivery) -> None:
        """Adds an attempt. Its owner removes it from `under_way` when it ends."""
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
                reason = f"the sink reported no outcome within {self._longest_s:g} s"
                delivery(Outcome(False, retry=True, reason=reason))

    def stop(self) -> None:
        """Stops checking."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
