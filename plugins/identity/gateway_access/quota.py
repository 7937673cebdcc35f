"""Counts how much each sender sends, and refuses what is too much.

Sources: RFC 6585 section 4 (429), RFC 9110 sections 10.2.3 (Retry-After) and 15.5.14 (413).
"""

from __future__ import annotations

import math
import socket
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from gateway_core.contract.authenticator import TooManyRequests
from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message, text_of
from gateway_core.contract.identity import ANONYMOUS, Identity

from .bucket import Bucket, Table
from .quota_config import LimitConfig, OverrideConfig, QuotaConfig, fitting

Rate = tuple[float, float]
"""Tokens a second, and the capacity of the bucket."""


class Limits:
    """A `LimitConfig` as one worker applies it. `largest_…` is what can pass at all, infinite without a limit."""

    def __init__(self, config: LimitConfig, workers: int = 1) -> None:
        self.config = config
        self._requests = self._rate(config.requests_per_s, workers)
        self._events = self._rate(config.events_per_s, workers)
        self._bytes = self._rate(config.bytes_per_s, workers)
        self.largest_body = self._burst(config.bytes_per_s)
        self.largest_event = config.max_event_bytes or math.inf
        self.largest_batch = min(config.max_batch or math.inf, self._burst(config.events_per_s))

    def _burst(self, per_s: float | None) -> float:
        """What may come at once, whichever worker gets it."""
        return math.inf if per_s is None else max(1.0, per_s * self.config.burst_s)

    def _rate(self, per_s: float | None, workers: int) -> Rate | None:
        return None if per_s is None else (per_s / workers, max(1.0, per_s * self.config.burst_s / workers))

    @property
    def counts(self) -> bool:
        """Whether requests have to be counted."""
        return bool(self._requests or self._bytes)

    @property
    def limited(self) -> bool:
        """Whether there is any limit."""
        sizes = min(self.largest_event, self.largest_batch, self.largest_body)
        return self.counts or self._events is not None or sizes < math.inf

    def meter(self, total: Meter | None = None) -> Meter:
        """A new counter with these limits. What it counts, `total` counts too."""
        requests, size, events = (
            Bucket(*rate) if rate else None for rate in (self._requests, self._bytes, self._events)
        )
        return Meter(self, requests, size, events, total)


class Meter:
    """What one sender, or all of them, used of their limits. What a sender's meter refuses uses nothing of the total,
    and the reverse."""

    __slots__ = ("bytes", "events", "largest_event", "limits", "requests", "total")

    def __init__(
        self, limits: Limits, requests: Bucket | None, size: Bucket | None, events: Bucket | None, total: Meter | None
    ) -> None:
        self.limits = limits
        self.requests = requests
        self.bytes = size
        self.events = events
        self.total = total
        self.largest_event: float = min(limits.largest_event, total.largest_event if total is not None else math.inf)

    def full(self, now: float) -> bool:
        """See `gateway_access.bucket.Counter`. The total stays, whatever is dropped."""
        return all(bucket is None or bucket.full(now) for bucket in (self.requests, self.bytes, self.events))

    def refuses_request(self, now: float, size: int) -> Refused | None:
        """Why a request can't come in now, None if it can. Takes nothing."""
        if (bucket := self.requests) is not None and (wait := bucket.wait_s(now, 1)) > 0.0:
            return _too_many(f"{self.limits.config.requests_per_s:g} requests a second", wait)
        if (refusal := self._refuses_own(now, size)) is not None:
            return refusal
        return None if self.total is None else self.total.refuses_request(now, size)

    def refuses_bytes(self, now: float, size: int) -> Refused | None:
        """Why so many bytes can't come in now, None if they can. Takes nothing."""
        if (refusal := self._refuses_own(now, size)) is not None:
            return refusal
        return None if self.total is None else self.total.refuses_bytes(now, size)

    def _refuses_own(self, now: float, size: int) -> Refused | None:
        if (bucket := self.bytes) is not None:
            if size > self.limits.largest_body:
                return _too_large(
                    f"The body has {size} bytes; {math.floor(self.limits.largest_body)} may come at once."
                )
            if (wait := bucket.wait_s(now, size)) > 0.0:
                return _too_many(f"{self.limits.config.bytes_per_s:g} bytes a second", wait)
        return None

    def take_request(self, now: float, size: int) -> None:
        """Counts a request."""
        if self.requests is not None:
            self.requests.take(now, 1)
        if self.bytes is not None:
            self.bytes.take(now, size)
        if self.total is not None:
            self.total.take_request(now, size)

    def take_bytes(self, now: float, size: int) -> None:
        """Counts bytes that are no request of their own."""
        if self.bytes is not None:
            self.bytes.take(now, size)
        if self.total is not None:
            self.total.take_bytes(now, size)

    def refuses_events(self, now: float, count: int) -> Refused | None:
        """Why so many events can't come in now, None if they can. Takes nothing."""
        if count > self.limits.largest_batch:
            return _too_large(
                f"The request has {count} events; {math.floor(self.limits.largest_batch)} may come at once."
            )
        if (bucket := self.events) is not None and (wait := bucket.wait_s(now, count)) > 0.0:
            return _too_many(f"{self.limits.config.events_per_s:g} events a second", wait)
        return None if self.total is None else self.total.refuses_events(now, count)

    def take_events(self, now: float, count: int) -> None:
        """Counts events."""
        if self.events is not None:
            self.events.take(now, count)
        if self.total is not None:
            self.total.take_events(now, count)


Key = tuple[str, str]
"""A sender: its authenticator, and its subject. Two authenticators may give out the same subject."""


class _Override:
    """The senders of an entry of `overrides`. Those whom it names have their meters whatever others do; those who fit
    by a prefix have room of their own."""

    def __init__(self, config: OverrideConfig, most: int, make: Callable[[], Meter]) -> None:
        self._fits = fitting(config)
        self._named = frozenset(config.subjects)
        self._held: Table[Key, Meter] = Table(math.inf, make)  # the config bounds them
        self._others: Table[Key, Meter] = Table(most, make)

    def table(self, key: Key) -> Table[Key, Meter] | None:
        """Where a sender is counted; None if the entry is not about it."""
        authenticator, subject = key
        if not self._fits(Identity(subject, authenticator)):
            return None
        return self._held if subject in self._named else self._others

    def __len__(self) -> int:
        return len(self._held) + len(self._others)


class Quotas:
    """The quotas of one ingress, in one worker."""

    def __init__(self, options: QuotaConfig, context: BuildContext) -> None:
        self._now = context.clock.monotonic
        total = Limits(options.total, context.workers)
        all_of_them = total.meter() if total.limited else None
        own = Limits(options.per_identity, context.workers)
        overrides = [(override, Limits(override, context.workers)) for override in options.overrides]
        most = options.identities
        self._overrides = [_Override(entry, most, partial(limits.meter, all_of_them)) for entry, limits in overrides]
        self._others: Table[Key, Meter] = Table(most, partial(own.meter, all_of_them))
        self._table_of = lru_cache(most)(self._find_table)
        # of their own, so that strangers can't crowd out senders who proved who they are
        strangers = next((limits for entry, limits in overrides if fitting(entry)(ANONYMOUS)), own)
        self._addresses: Table[str, Meter] = Table(most, partial(strangers.meter, all_of_them))
        per_minute = options.failures_per_minute
        self._failures: Table[str, Bucket] | None = None
        if per_minute is not None:
            rate = per_minute / 60 / context.workers, max(1.0, per_minute / context.workers)
            self._failures = Table(most, partial(Bucket, *rate))
        every = [own, total, *(limits for _, limits in overrides)]
        self._counts_requests = any(one.counts for one in every)
        self._counts_bytes = any(one.config.bytes_per_s for one in every)
        self._largest_event = min(one.largest_event for one in every) < math.inf
        self._counts_events = any(one.config.events_per_s or one.config.max_batch for one in every)

    def _find_table(self, key: Key) -> Table[Key, Meter]:
        return next((found for override in self._overrides if (found := override.table(key)) is not None), self._others)

    def _meter(self, who: Identity, request: Message, now: float) -> Meter:
        key = who.authenticator, who.subject
        if not key[0]:
            return self._addresses.get(network_of(request), now)
        table = self._table_of(key) if self._overrides else self._others
        return table.get(key, now)

    def __len__(self) -> int:
        """Senders, and addresses of others, that are counted one by one now."""
        return len(self._others) + len(self._addresses) + sum(map(len, self._overrides))

    # -- credentials --------------------------------------------------------------------------------------------------

    def attempt(self, request: Message) -> Refused | None:
        """Why a request is not even authenticated, None if it is."""
        if self._failures is None or not self._failures:
            return None
        bucket = self._failures.find(network_of(request))
        if bucket is None or (wait := bucket.wait_s(self._now(), 1)) <= 0.0:
            return None
        return TooManyRequests("Too many attempts with no or wrong credentials from this address.", wait)

    def failed(self, request: Message) -> None:
        """A request had no or wrong credentials."""
        if self._failures is not None:
            now = self._now()
            self._failures.get(network_of(request), now).take(now, 1)

    # -- requests and events ------------------------------------------------------------------------------------------

    def request(self, who: Identity, request: Message) -> Refused | None:
        """Why a request of this sender is refused before it is decoded, None if it is not: it is counted then."""
        if not self._counts_requests:
            return None
        now = self._now()
        size = len(request.body) if request.body else 0
        own = self._meter(who, request, now)
        refusal = own.refuses_request(now, size)
        if refusal is None:
            own.take_request(now, size)
        return refusal

    def message(self, who: Identity, request: Message, size: int) -> Refused | None:
        """Why a message of so many bytes, on a connection that a request of this sender opened, is refused before it is
        decoded; None if it is not: its bytes are counted then."""
        if not self._counts_bytes:
            return None
        now = self._now()
        own = self._meter(who, request, now)
        refusal = own.refuses_bytes(now, size)
        if refusal is None:
            own.take_bytes(now, size)
        return refusal

    def events(self, who: Identity, request: Message, events: Sequence[Event]) -> Refused | None:
        """Why these events of one request may not come in, None if they may: they are counted then."""
        if not self._counts_events and not self._largest_event:
            return None
        now = self._now()
        own = self._meter(who, request, now)
        if self._largest_event:
            for number, event in enumerate(events):
                if (size := size_of(event)) > own.largest_event:
                    which = f"event {number} of the batch: it" if len(events) > 1 else "The event"
                    return _too_large(f"{which} has {size} bytes; {own.largest_event} are allowed")
        count = len(events)
        refusal = own.refuses_events(now, count)
        if refusal is None:
            own.take_events(now, count)
        return refusal


def size_of(event: Event) -> int:
    """The size of an event in bytes: its data, and the names and values of its attributes."""
    size = len(event.data) if event.data is not None else 0
    for name, value in event.attributes.items():
        size += len(name) + len((value if type(value) is str else text_of(value)).encode())
    return size


def network_of(request: Message) -> str:
    """What an anonymous sender counts by: its IPv4 address, or the /64 network of its IPv6 address."""
    host = request.peer.host if request.peer is not None else ""
    if ":" not in host:
        return host
    try:
        packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    except OSError:
        return host
    if packed.startswith(b"\0" * 10 + b"\xff\xff"):  # IPv4 on a socket for both
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    return socket.inet_ntop(socket.AF_INET6, packed[:8] + bytes(8)) + "/64"


def _too_many(limit: str, wait_s: float) -> Refused:
    return TooManyRequests(f"The quota of {limit} is used up.", wait_s)


def _too_large(detail: str) -> Refused:
    """What can never come in. Unlike 429, senders don't send it again."""
    return Refused(detail, status=413)
