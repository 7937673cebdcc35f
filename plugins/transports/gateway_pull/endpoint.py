"""What subscribers of one sink can do: fetch events, and say what became of them."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import anyio
import msgspec
from gateway_serving.access import has_token

from gateway_core.contract.clock import Clock
from gateway_core.contract.interfaces import Outcome
from gateway_core.contract.one_line import one_line

from .config import PullSinkConfig
from .leases import Holder, Item, Leases

MOST_WAIT_S = 60.0
MOST_EVENTS = 1000
MOST_LEASES = 10_000
MOST_LEASE_S = 3600.0
MOST_RETRY_AFTER_S = 86_400.0


class Receive(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `receive`. `max` events at most; if none is ready, one is waited for, `wait_s` seconds at most."""

    max: int = 10
    wait_s: float = 0.0

    def check(self) -> None:
        """Raises `Wrong`."""
        if not 1 <= self.max <= MOST_EVENTS:
            raise Wrong(f"`max` is from 1 to {MOST_EVENTS}")
        if not 0 <= self.wait_s <= MOST_WAIT_S:
            raise Wrong(f"`wait_s` is from 0 to {MOST_WAIT_S:g}")


class Settle(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `ack`. With `up_to`, each lease stands also for those that its call or stream got before."""

    leases: list[str]
    up_to: bool = False

    def check(self) -> None:
        """Raises `Wrong`."""
        _check_count(self.leases)


class Release(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `release`. Without `retry` the event goes to the dead letter."""

    leases: list[str]
    retry: bool = True
    reason: str = ""
    retry_after_s: float | None = None

    def check(self) -> None:
        """Raises `Wrong`."""
        _check_count(self.leases)
        if self.retry_after_s is not None and not 0 <= self.retry_after_s <= MOST_RETRY_AFTER_S:
            raise Wrong(f"`retry_after_s` is from 0 to {MOST_RETRY_AFTER_S:g}")


class Extend(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `extend`: the leases end so many seconds from now."""

    leases: list[str]
    lease_s: float

    def check(self) -> None:
        """Raises `Wrong`."""
        _check_count(self.leases)
        if not 0 < self.lease_s <= MOST_LEASE_S:
            raise Wrong(f"`lease_s` is more than 0 and at most {MOST_LEASE_S:g}")


class Wrong(Exception):
    """A value in a body is out of range; the text says which."""


def _check_count(leases: list[str]) -> None:
    if len(leases) > MOST_LEASES:
        raise Wrong(f"at most {MOST_LEASES} leases at once")


class Endpoint:
    """One sink's subscribers. `owner` is the sink's place in the config."""

    def __init__(self, owner: str, options: PullSinkConfig, clock: Clock) -> None:
        self.owner = owner
        self.options = options
        self.leases = Leases(clock, options.lease_s, self._wake)
        self.stopping = False
        self._token = f"Bearer {options.token}".encode() if options.token else b""
        self._waiters: deque[asyncio.Future[None]] = deque()

    # -- who may -------------------------------------------------------------------------------------------------------

    def trusts(self, authorization: list[bytes]) -> bool:
        """Whether these header fields have the token."""
        return not self._token or has_token(authorization, self._token)

    def allows(self, origin: bytes | None) -> bool:
        """Whether a page of this origin may fetch events."""
        origins = self.options.origins
        return origin is None or "*" in origins or origin.decode("latin-1") in origins

    # -- events --------------------------------------------------------------------------------------------------------

    async def fetch(self, most: int, wait_s: float, holder: Holder) -> list[Item]:
        """Leases up to this many events, and waits for the first one."""
        try:
            with anyio.move_on_after(wait_s):
                while not self.leases.available and not self.stopping:
                    waiter = asyncio.get_running_loop().create_future()
                    self._waiters.append(waiter)
                    try:
                        await waiter
                    finally:
                        if waiter in self._waiters:
                            self._waiters.remove(waiter)
                    await asyncio.sleep(0)  # more may come at once
            return [] if self.stopping else self.leases.take(most, holder)
        finally:
            if self.leases.available:  # for the next one, even if this one was woken and has left
                self._wake()

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def stop(self) -> None:
        """Nobody waits any more."""
        self.stopping = True
        for waiter in list(self._waiters):
            if not waiter.done():
                waiter.set_result(None)

    async def receive(self, body: Receive) -> dict[str, Any]:
        """The response's body."""
        items = await self.fetch(body.max, body.wait_s, Holder())
        return {"lease_s": self.options.lease_s, "events": [_entry(item) for item in items]}

    # -- what became of them -------------------------------------------------------------------------------------------

    def ack(self, body: Settle, found: list[Item]) -> None:
        self.leases.settle(found)

    def give_back(self, body: Release, found: list[Item]) -> None:
        reason = one_line(body.reason) or "released by the subscriber"
        wait = body.retry_after_s if body.retry else None
        code = 503 if body.retry else 422
        self.leases.settle(found, Outcome(False, retry=body.retry, code=code, reason=reason, retry_after_s=wait))

    def extend(self, body: Extend, found: list[Item]) -> None:
        for item in found:
            self.leases.extend(item, body.lease_s)


def _entry(item: Item) -> dict[str, Any]:
    return {"lease": item.token, "delivery": item.delivery, "event": msgspec.Raw(item.text)}
