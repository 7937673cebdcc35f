"""A listener's memory budget for incomplete requests."""

from __future__ import annotations

import logging
import time
from typing import Protocol
from weakref import WeakSet

from . import process_facts

log = logging.getLogger(__name__)

_budgets: WeakSet[Budget] = WeakSet()
_PATIENCE_S = 0.5
_LOG_EVERY_S = 10.0


class Unfinished(Protocol):
    """A connection with an incomplete request. The budget sets `held`."""

    held: int

    def begun(self) -> float:
        """When the request began, in the loop's time."""

    def hold_back(self, paused: bool) -> None:
        """Pauses or resumes reading."""

    def evict(self) -> None:
        """Refuses the request (503) and frees its memory; calls `Budget.release`."""


class _Refused:
    count = 0


_refused = _Refused()


def totals() -> dict[str, int]:
    """For status: `unfinished_bytes` of all listeners of this process, and `unfinished_refused`, the number of requests
    refused because of them since the start."""
    return {"unfinished_bytes": sum(budget.held for budget in _budgets), "unfinished_refused": _refused.count}


process_facts.add(totals)


class Budget:
    """At most `limit` bytes, but never less than two requests of `largest` bytes.

    Above three quarters, connections that keep sending are paused. If that lasts, or the limit is reached, the oldest
    requests are refused until half of the budget is free, so that slow senders make room for the others.
    """

    def __init__(self, limit: int, largest: int) -> None:
        self.limit = max(limit, 2 * largest)
        self.held = 0
        _budgets.add(self)
        self._holders: set[Unfinished] = set()
        self._waiting: set[Unfinished] = set()
        self._pressed_since: float | None = None
        self._said = -_LOG_EVERY_S
        self._unsaid = 0

    def hold(self, holder: Unfinished, size: int) -> None:
        """Records that a request has grown to `size` bytes."""
        self.held += size - holder.held
        holder.held = size
        self._holders.add(holder)
        if self.held > self.limit:
            self._evict()
        elif self.held > self.limit * 3 // 4 and holder not in self._waiting:
            self._waiting.add(holder)
            holder.hold_back(True)

    def release(self, holder: Unfinished) -> None:
        """Records that nothing is held any more: the request is complete, refused or gone."""
        self._holders.discard(holder)
        self.held -= holder.held
        holder.held = 0
        if holder in self._waiting:
            self._waiting.discard(holder)
            holder.hold_back(False)
        if self._waiting and self.held <= self.limit // 2:
            waiting, self._waiting = self._waiting, set()
            for other in waiting:
                other.hold_back(False)

    def sweep(self, now: float) -> None:
        """Runs every half second, with the loop's time."""
        if not self._waiting:
            self._pressed_since = None
        elif self._pressed_since is None:
            self._pressed_since = now
        elif now - self._pressed_since >= _PATIENCE_S:
            self._pressed_since = None
            self._evict()

    def _evict(self) -> None:
        held = self.held
        # the clock is coarse: among requests of the same age, the largest go first
        for holder in sorted(self._holders, key=lambda h: (h.begun(), -h.held)):
            if self.held <= self.limit // 2:
                break
            holder.evict()
            self._unsaid += 1
            _refused.count += 1
        now = time.monotonic()
        if now - self._said >= _LOG_EVERY_S:
            self._said = now
            log.warning(
                "unfinished requests held %d bytes of %d (max_unfinished_bytes): the %d slowest were refused",
                held,
                self.limit,
                self._unsaid,
            )
            self._unsaid = 0
