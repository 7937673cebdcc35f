"""File descriptors of this process: a reserve that incoming connections can't use, and who gives some up in a shortage.

The reserve is for deliveries and storage. A new connection's descriptor tells how many are in use, because the system
assigns the lowest free one. So nothing needs to be counted, and descriptors held by other parts of the process are
included.
"""

from __future__ import annotations

import heapq
import logging
import resource
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple, Protocol
from weakref import WeakSet

from gateway_core.contract.shortage import on_exhausted

from . import process_facts

log = logging.getLogger("tidegate.descriptors")

_MOST = 1 << 20
_LARGEST_RESERVE = 4096
_ALWAYS = 8  # connections that are always accepted
_CLOSE = 8  # idle connections closed at once: looking for the oldest takes time
_RESTING_S = 1.0  # an outgoing connection that is idle for longer is not between two requests
_LOG_EVERY_S = 10.0
_RELIEVE_EVERY_S = 0.1


class Candidate(NamedTuple):
    """A connection that may be closed for another. `rank` 0 is idle, 1 is in the middle of a request; `since` is the
    loop's time (that of `time.monotonic`) of its last sign of life."""

    rank: int
    since: float
    close: Callable[[], None]


class Holder(Protocol):
    """A listener, as seen from here."""

    def candidates(self) -> Iterable[Candidate]:
        """All of its connections that may be closed."""

    def count(self) -> int:
        """How many connections it has."""


class Lender(Protocol):
    """Who keeps connections to others for later, such as the pool of a sink."""

    def candidates(self) -> Iterable[Candidate]:
        """Those that are idle."""


_holders: WeakSet[Holder] = WeakSet()
_lenders: set[Lender] = set()


def _limit() -> int:
    soft: int = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MOST if soft == resource.RLIM_INFINITY else soft


def ceiling() -> int:
    """The first descriptor that incoming connections may not use: the limit minus the reserve."""
    limit = _limit()
    return limit - min(limit // 2, max(limit // 4, 64), _LARGEST_RESERVE)


def enlist(holder: Holder) -> None:
    """Registers a listener: its connections count, and are closed if descriptors run short."""
    _holders.add(holder)


def lend(lender: Lender) -> None:
    """Registers one who has outgoing connections: idle ones are closed before any that others have to us. They don't
    count as connections of listeners."""
    _lenders.add(lender)


def take_back(lender: Lender) -> None:
    """It has no connections any more. Nothing happens if it had none."""
    _lenders.discard(lender)


def has_room(number: int) -> bool:
    """Whether connections may use this descriptor."""
    return number < ceiling() or sum(holder.count() for holder in _holders) < _ALWAYS


def totals() -> dict[str, int]:
    """For status: `connections` to the listeners of this process, and `connections_cut`, those that were closed or
    refused for lack of descriptors, since the start."""
    return {"connections": sum(holder.count() for holder in _holders), "connections_cut": _shortage.all}


def refused() -> None:
    """Counts a connection that was refused because descriptors ran short."""
    _shortage.refused += 1
    _shortage.all += 1
    _shortage.say("")


def exhausted(error: OSError, doing: str) -> None:
    """Reports that a system call failed because descriptors (or buffers) ran short: logs it at a bounded rate, and
    closes the oldest idle connections unless it just did."""
    _shortage.failed += 1
    _shortage.say(f"{doing} failed: {error.strerror or error}")
    now = time.monotonic()
    if now - _shortage.relieved >= _RELIEVE_EVERY_S:
        _shortage.relieved = now
        relieve()


def relieve() -> int:
    """Closes the outgoing connections that rest for longest, since a new one costs only time; or else the oldest idle
    connections to us, or those that have been in the middle of a request for longest. Returns how many."""
    before = time.monotonic() - _RESTING_S
    chosen = _oldest(c for lender in _lenders for c in lender.candidates() if c.since < before)
    if not chosen:
        oldest = _oldest(c for holder in (*_holders, *_lenders) for c in holder.candidates())
        chosen = [c for c in oldest if c.rank == oldest[0].rank]
    for candidate in chosen:
        candidate.close()
    _shortage.closed += len(chosen)
    _shortage.all += len(chosen)
    if chosen:
        _shortage.say("")
    return len(chosen)


def _oldest(candidates: Iterable[Candidate]) -> list[Candidate]:
    return heapq.nsmallest(_CLOSE, candidates, key=lambda c: c[:2])


class _Shortage:
    """Counts what happens, and logs it every ten seconds at most."""

    def __init__(self) -> None:
        self.all = 0
        self.closed = self.refused = self.failed = 0
        self.relieved = 0.0
        self._said = -_LOG_EVERY_S

    def say(self, what: str) -> None:
        now = time.monotonic()
        if now - self._said < _LOG_EVERY_S:
            return
        self._said = now
        log.warning(
            "file descriptors are short (limit %d, connections may use %d)%s: %d silent connections closed, %d new ones"
            " refused, %d calls failed since this was last said; raise the limit (LimitNOFILE=, ulimit -n)",
            _limit(),
            ceiling(),
            f"; {what}" if what else "",
            self.closed,
            self.refused,
            self.failed,
        )
        self.closed = self.refused = self.failed = 0


_shortage = _Shortage()

process_facts.add(totals)
on_exhausted(partial(exhausted, doing="connecting"))
