"""Whether a signed request is new: its timestamp, and the requests that were seen before."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from gateway_core.contract.authenticator import Unauthenticated

_MOST_DIGITS = 12  # seconds until the year 33,658


class Freshness:
    """Refuses requests outside the window, and with `remember`, those that came before within it."""

    def __init__(self, window_s: float, remember: int, now_ns: Callable[[], int]) -> None:
        self._window_ns = int(window_s * 1e9)
        self._remember = remember
        self._now_ns = now_ns
        self._seen: dict[bytes, int] = {}  # digest -> when its timestamp leaves the window; the oldest first

    def check(self, timestamp: bytes) -> None:
        """Raises `Unauthenticated` unless `timestamp` is decimal Unix seconds within the window."""
        # a zero before it could be the last character of a body that is signed before it
        if not timestamp.isdigit() or len(timestamp) > _MOST_DIGITS or timestamp.startswith(b"0"):
            raise Unauthenticated("the timestamp is not a number of seconds")
        if abs(self._now_ns() - int(timestamp) * 1_000_000_000) > self._window_ns:
            raise Unauthenticated("the timestamp is too far from the gateway's time")

    def take(self, content: bytes, timestamp: bytes) -> None:
        """Raises `Unauthenticated` if a request came before in which the same was signed. It takes what is signed, not
        the signature: a request with two signatures could be replayed with one of them."""
        if not self._remember:
            return
        seen, digest = self._seen, hashlib.sha256(content).digest()
        if digest in seen:
            raise Unauthenticated("this request has come before")
        now = self._now_ns()
        while seen and (len(seen) >= self._remember or seen[next(iter(seen))] < now):
            del seen[next(iter(seen))]
        seen[digest] = int(timestamp) * 1_000_000_000 + self._window_ns
