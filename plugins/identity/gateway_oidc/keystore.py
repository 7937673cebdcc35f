"""Keeps an issuer's keys current, away from the path of events.

They are read at an interval, and when a token names an unknown key. Strangers can write such tokens, so that is
limited; the requests that wait for the same reading share it.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from typing import Any
from weakref import WeakSet

import anyio
from anyio.abc import TaskGroup

from gateway_core.contract.clock import Clock, Timer
from gateway_core.contract.errors import Overloaded
from gateway_core.contract.one_line import one_line

from .issuer import IssuerFault, KeySource
from .keys import Algorithms, KeySet, KeySetFault, read_key_set

log = logging.getLogger("tidegate.oidc")

EXTRA_READS = 4
"""How often in a row unknown keys can cause a reading; each is given back after `EXTRA_READ_S`."""
EXTRA_READ_S = 10.0
LOOK_S = 1.0
"""How often keys in a file are looked at."""
_LONGEST_PAUSE_S = 60.0  # between attempts while the issuer is down
_MOST_WAITING = 256  # requests that wait for keys
_running: WeakSet[KeyStore] = WeakSet()
_MOST_NAMES, _LONGEST_NAME = 16, 64  # of keys in the status
_MOST_ABSENT = 256  # names of keys that the issuer does not have, remembered for EXTRA_READ_S


class KeyStore:
    """The keys of one issuer. `dropped` is told of the ids of all current keys when some are gone. `trust` is all that
    decides which keys are right, None for nothing: a store begins with the keys of a running one that trusts the same,
    so that a reload with the issuer away loses none."""

    def __init__(
        self,
        source: KeySource,
        algorithms: Algorithms,
        clock: Clock,
        owner: str,
        *,
        refresh_s: float,
        max_age_s: float,
        timeout_s: float,
        dropped: Callable[[frozenset[str]], None] = lambda ids: None,
        trust: Hashable = None,
    ) -> None:
        self._source = source
        self._algorithms = algorithms
        self._clock = clock
        self._owner = owner
        self._refresh_s = refresh_s
        self._max_age_s = max_age_s
        self._timeout_s = timeout_s
        self._dropped = dropped
        self._trust = trust
        self.keys = KeySet(())
        self.good_until = float("-inf")  # on the monotonic clock: then the keys are too old to be used
        self.error: str | None = None
        self._read_at: float | None = None
        self._read_ns: int | None = None  # the same as Unix time
        self._failures = 0
        self._wake = anyio.Event()
        self._round = anyio.Event()
        self._begun = self._ended = self._succeeded = 0  # numbers of readings
        self._extra = float(EXTRA_READS)
        self._extra_at = 0.0
        self._waiting = 0
        self._absent: dict[str, float] = {}
        self._reading: anyio.CancelScope | None = None
        self._looking: Timer | None = None
        self._stopping = False
        self._stopped = anyio.Event()

    async def start(self, tasks: TaskGroup) -> None:
        """Begins to read. Raises `StartError` if a file of ours can't be used; the issuer may be away."""
        await self._source.start()
        self._extra_at = self._clock.monotonic()
        for other in _running:
            if self._trust is not None and self._trust == other._trust and self._clock is other._clock:
                self._begin_with(other)
        _running.add(self)
        tasks.start_soon(self._keep)

    async def stop(self) -> None:
        """Stops reading."""
        _running.discard(self)
        self._stopping = True
        if self._reading is not None:
            self._reading.cancel()
            await self._stopped.wait()
        await self._source.stop()

    def _begin_with(self, other: KeyStore) -> None:
        if other._read_at is not None and other.good_until > self.good_until:
            self.keys, self._read_at, self._read_ns = other.keys, other._read_at, other._read_ns
            self.good_until = min(other.good_until, other._read_at + self._max_age_s)

    @property
    def usable(self) -> bool:
        """Whether there are keys that are not too old."""
        return self._clock.monotonic() < self.good_until

    def info(self) -> dict[str, Any]:
        """For status: the `error` of the last reading, the names of the usable keys, and when they were read. There is
        no number in it, because workers' numbers would be added up."""
        names = sorted({one_line(key.kid, _LONGEST_NAME) for key in self.keys} if self.usable else ())
        read = datetime.fromtimestamp(self._read_ns / 1e9, UTC) if self._read_ns is not None else None
        return {
            "error": self.error,
            "keys": names[:_MOST_NAMES],
            "keys_read": read.isoformat(timespec="seconds").replace("+00:00", "Z") if read is not None else None,
        }

    def overloaded(self) -> Overloaded:
        """The refusal for a token that can't be checked now."""
        return Overloaded("the issuer's keys are not available", EXTRA_READ_S)

    async def look_for(self, kid: str | None, known: Callable[[], bool]) -> None:
        """Reads the keys again, because `known` is false: no usable key fits a token. Returns when it is true, or when
        the issuer surely has no such key. Raises `Overloaded` if that can't be found out now."""
        name = kid or ""
        if self.usable and self._clock.monotonic() < self._absent.get(name, 0.0):
            return
        if self._waiting >= _MOST_WAITING:
            raise self.overloaded()
        self._waiting += 1
        wanted = self._begun + 1
        try:
            with anyio.move_on_after(self._timeout_s):
                # the reading under way may have begun too early, but mostly brings the key
                await self._ends(self._begun, known)
                if not known() and self._succeeded < wanted and (self._wake.is_set() or self._may_read()):
                    self._wake.set()
                    await self._ends(wanted, known)
        finally:
            self._waiting -= 1
        if known():
            return
        if self._succeeded < wanted:
            raise self.overloaded()
        if len(self._absent) >= _MOST_ABSENT:
            self._absent.clear()
        self._absent[name] = self._clock.monotonic() + EXTRA_READ_S

    async def _ends(self, number: int, known: Callable[[], bool]) -> None:
        """Waits until this reading has ended, or `known` is true."""
        while self._ended < number and not known():
            await self._round.wait()

    def _may_read(self) -> bool:
        now = self._clock.monotonic()
        self._extra = min(float(EXTRA_READS), self._extra + (now - self._extra_at) / EXTRA_READ_S)
        self._extra_at = now
        if self._extra < 1:
            return False
        self._extra -= 1
        return True

    async def _keep(self) -> None:
        try:
            with anyio.CancelScope() as self._reading:
                while not self._stopping:
                    await self._turn()
        finally:
            self._stopped.set()

    async def _turn(self) -> None:
        """Reads the keys, and waits until they are to be read again."""
        self._wake = anyio.Event()
        self._begun += 1
        await self._read()
        self._ended = self._begun
        done, self._round = self._round, anyio.Event()
        done.set()
        timer = self._clock.call_later(self._pause_s(), self._wake.set)
        self._look_again()
        try:
            await self._wake.wait()
        finally:
            timer.cancel()
            if self._looking is not None:
                self._looking.cancel()

    def _look_again(self) -> None:
        if self._source.followed:
            self._looking = self._clock.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        if self._source.changed():
            self._wake.set()
        else:
            self._look_again()

    def _pause_s(self) -> float:
        if self._failures == 0:
            return self._refresh_s * random.uniform(0.9, 1.0)
        return min(self._refresh_s, _LONGEST_PAUSE_S, 2.0 ** (self._failures - 1)) * random.uniform(0.8, 1.0)

    async def _read(self) -> None:
        try:
            text = await self._source.read()
            keys = await anyio.to_thread.run_sync(read_key_set, text, self._algorithms)
        except (IssuerFault, KeySetFault) as e:
            self._failed(f"{self._source.place}: {e}" if isinstance(e, KeySetFault) else str(e))
        except Exception as e:  # a bug must not end the readings
            log.exception("%s: reading the keys failed", self._owner)
            self._failed(type(e).__name__)
        else:
            self._take(keys)

    def _take(self, keys: KeySet) -> None:
        now = self._clock.monotonic()
        if self.error is not None:
            log.info("%s: the issuer's keys are available again", self._owner)
        elif not len(keys):
            log.warning("%s: %s has no key that may be used, so no token is valid", self._owner, self._source.place)
        gone = self.keys.ids - keys.ids
        self.keys, self.error, self._failures = keys, None, 0
        self._read_ns = self._clock.now_ns()
        self._read_at, self.good_until = now, now + self._max_age_s
        self._succeeded = self._begun
        if gone:
            self._dropped(keys.ids)

    def _failed(self, why: str) -> None:
        self._failures += 1
        if self.error is None:
            left = "the last ones are used" if self.usable else "requests with tokens are answered 503 until they are"
            log.warning("%s: the issuer's keys can't be read: %s; %s", self._owner, why, left)
        self.error = why
