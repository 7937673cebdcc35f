"""How many dead letters there are now: what their files hold. What was given up since the start is another number."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping

import anyio
from anyio import to_thread
from gateway_deadletter.overview import Overview

_PATIENCE_S = 0.3
_REST, _LEAST_S = 20.0, 0.5


class Stock:
    """Counts in a thread, so that a page never waits long; until it knows, the numbers are None."""

    def __init__(self, overview: Overview) -> None:
        self._overview = overview
        self._lock = threading.Lock()
        self._number = -1
        self._again = float("-inf")
        self._of: Mapping[str, int] | None = None
        self.total: int | None = None

    def of(self, name: str) -> int | None:
        """Those of a trigger, bridge or broker."""
        return None if self._of is None else self._of.get(name, 0)

    async def refresh(self) -> None:
        """Counts again if something has changed, or continues counting if that takes long."""
        if time.monotonic() < self._again:
            return
        with anyio.move_on_after(_PATIENCE_S):
            await to_thread.run_sync(self._count, abandon_on_cancel=True)

    def _count(self) -> None:
        if not self._lock.acquire(blocking=False):
            return
        try:
            began = time.monotonic()
            snapshot = self._overview.current()
            if snapshot.number != self._number:
                self._number = snapshot.number
                self._of = Counter(entry.trigger for entry in snapshot.entries)
                self.total = len(snapshot.entries) + snapshot.beyond
            took = time.monotonic() - began
            self._again = began + max(_LEAST_S, _REST * took)
        except OSError:  # they can't be read now
            self._again = time.monotonic() + _LEAST_S
        finally:
            self._lock.release()
