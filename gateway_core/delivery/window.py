"""How many attempts may be under way at once: a congestion window per sink, as in TCP."""

from __future__ import annotations


class Window:
    """Starts fully open at `most`. A retriable failure halves it, at most once a `pause_s` so that one burst of
    failures counts once; every success opens it by one. It never closes below a sixteenth: an event's own retries must
    not wait for ever behind others (Knative data plane contract: brokers MUST implement congestion control)."""

    __slots__ = ("_halved", "_least", "_most", "_pause_s", "size")

    def __init__(self, most: int, pause_s: float = 0.1) -> None:
        self._most = most
        self._least = max(1, most // 16)
        self._pause_s = pause_s
        self._halved = float("-inf")
        self.size = most

    def succeeded(self) -> None:
        if self.size < self._most:
            self.size += 1

    def failed(self, now: float) -> None:
        if now - self._halved >= self._pause_s:
            self._halved = now
            self.size = max(self._least, self.size // 2)
