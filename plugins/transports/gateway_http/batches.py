"""The sink that sends several events in one request: the JSON batch format (CloudEvents JSON event format 1.0.2,
section 4).

Each event is an attempt of its own for the gateway, with the outcome of the request that it was part of, unless the
response has statuses of single events (`batch_responses`).

If a subscriber rejects a batch for good, one of its events may be the reason: all get an outcome that is `shared`, and
come back at once. The sink then sends each half of them as a batch, until the event that is rejected stands alone. A
5xx may have such a reason, too: the first time each event waits for its retry, the second time the batch is split.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping
from functools import partial

from gateway_cloudevents.bindings import HTTP
from gateway_cloudevents.config import CloudEventsConfig
from gateway_transport import trace_headers

from gateway_core.contract.capabilities import BeginBatch
from gateway_core.contract.component import BuildContext, CodecRef
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message, id_of
from gateway_core.contract.interfaces import Codec, Outcome
from gateway_core.contract.outcome import unwritable

from .batch_responses import BatchResponses
from .client import NativeSink, preview, shared_parts
from .config import HttpSinkConfig
from .credentials.signing import Signer, Unsigned, signer_of
from .outcome import unanswered
from .pool import Exchange

_HEADER = (b"content-type", b"application/cloudevents-batch+json; charset=utf-8")
_ABOUT_THE_REQUEST = frozenset({401, 405, 415})
"""Rejections that any request would get, whatever its events are: smaller ones would, too."""
_BUSY = 503
"""The subscriber has too much to do, whatever the events are."""
_MOST_AGAIN = 20_000
"""How many events are remembered to be sent in a smaller batch. A few never come back, such as those of a partition
that moved to another gateway."""


class _Batch:
    """Events that go out together. `most` events fill it. Once it `left`, it takes no more, and those that come late go
    out in the `rest`."""

    __slots__ = ("bodies", "done", "ended", "events", "left", "most", "rest", "size", "timeout_s", "timer")

    def __init__(self, most: int) -> None:
        self.most = most
        self.events: list[Event] = []
        self.bodies: list[bytes] = []
        self.done: list[Callable[[Outcome], None]] = []
        self.size = 2
        self.timeout_s = 0.0
        self.timer: asyncio.TimerHandle | None = None
        self.ended: Callable[[Outcome], None] | None = None  # of its span
        self.left = False
        self.rest: _Batch | None = None

    def open(self) -> _Batch:
        """The batch for its next event: this one, or what follows it, which is smaller."""
        found = self
        while found.left:
            if found.rest is None:
                found.rest = _Batch(max(1, found.most - len(found.events)))
            found = found.rest
        return found

    def body(self) -> bytes:
        return b"[%s]" % b",".join(self.bodies)


class BatchSink(NativeSink):
    """A `Sink` whose requests have up to `batch.max_events` events."""

    __slots__ = (
        "_again", "_begin", "_codec", "_failed", "_metrics", "_open", "_options", "_responses", "_sign", "_waiting",
        "in_flight",
    )  # fmt: skip

    def __init__(self, options: HttpSinkConfig, context: BuildContext, codec: Codec) -> None:
        assert options.batch is not None
        self._codec: Codec = context.build(
            CodecRef("cloudevents", None, CloudEventsConfig(mode="structured")), "codec", binding=HTTP
        )
        shared = shared_parts(options, context, codec)
        super().__init__(options, context, shared, self._codec.encode)
        self._responses = BatchResponses(shared.value.classifier, shared.value.target.secrets)
        self._pool.classifier = self._responses
        self.classify = self._responses.classify_one
        self._options = options.batch
        self._sign: Signer | None = signer_of(options.credentials, context) if options.credentials else None
        self._begin: BeginBatch | None = None
        self._open: _Batch | None = None
        self._waiting: set[_Batch] = set()
        self._again: dict[Hashable, list[_Batch]] = {}  # the halves that events belong to
        self._failed: set[Hashable] = set()  # events whose batch got a 5xx
        self._metrics = {"tidegate_http_batches_total": 0, "tidegate_http_batches_split_total": 0}
        most = self._options.max_events
        self.most_in_flight = options.max_connections * most
        self.in_flight: int | None = min(max(64, 4 * most), 10_000)

    def metrics(self) -> Mapping[str, float | Mapping[str, float]]:
        """See `gateway_core.contract.capabilities.Measured`."""
        return dict(self._metrics)

    def trace_batches(self, begin: BeginBatch) -> None:
        """See `gateway_core.contract.capabilities.BatchTracing`."""
        self._begin = begin

    async def stop(self) -> None:
        for batch in tuple(self._waiting):
            self._leave(batch)
            self._end(batch, unanswered("the gateway is stopping"))
        await super().stop()

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        try:
            body = self._codec.encode(event).body or b""
        except Refused as e:
            self._loop.call_soon(done, unwritable(e))
            return
        half = self._half(event) if self._again else None
        if half is not None:
            batch = half
        else:
            found = self._open
            if found is not None and found.size + len(body) >= self._options.max_bytes:
                self._flush(found)
                found = None
            batch = self._open = found or _Batch(self._options.max_events)
        if not batch.events:
            batch.timeout_s = timeout_s
            batch.timer = self._loop.call_later(self._options.wait, self._flush, batch)
            self._waiting.add(batch)
        batch.events.append(event)
        batch.bodies.append(body)
        batch.done.append(done)
        batch.size += len(body) + 1
        if len(batch.events) >= batch.most:
            self._flush(batch)

    def preview(self, event: Event) -> Message:
        parts = self._shared.value
        return preview(parts.options, parts.target, self._message([event], b"[%s]" % (self._codec.encode(event).body)))

    def _message(self, events: list[Event], body: bytes) -> Message:
        return Message([_HEADER, *(self._sign(events[0], body) if self._sign is not None else ())], body)

    def _leave(self, batch: _Batch) -> None:
        """It takes no more events."""
        batch.left = True
        self._waiting.discard(batch)
        if batch.timer is not None:
            batch.timer.cancel()
        if batch is self._open:
            self._open = None

    def _flush(self, batch: _Batch) -> None:
        self._leave(batch)
        trace: str | None = None
        if self._begin is not None:
            trace, batch.ended = self._begin(batch.events)
        try:
            message = self._message(batch.events, batch.body())
            if trace is not None:
                message.headers = [*message.headers, *trace_headers.headers(trace)]
            data = self._write(message)
        except Refused as e:
            outcome = e.outcome if isinstance(e, Unsigned) else unwritable(e)
            if batch.ended is not None:
                batch.ended(outcome)
            self._loop.call_soon(self._end, batch, outcome)
            return
        self._metrics["tidegate_http_batches_total"] += 1
        timeout_s = batch.timeout_s
        self._post(Exchange(data, self._now() + timeout_s, timeout_s, partial(self._answered, batch)))

    def _answered(self, batch: _Batch, outcome: Outcome) -> None:
        if batch.ended is not None:
            batch.ended(outcome)
        code, count = outcome.code, len(batch.events)
        final = not outcome.delivered and not outcome.retry and code is not None and 400 <= code < 500
        if count > 1 and final and code not in _ABOUT_THE_REQUEST:
            outcome = self._split(batch, outcome)
        elif outcome.delivered:
            if self._failed:
                self._failed.difference_update(map(_key, batch.events))
            if outcome.data is not None:
                for done, one in zip(batch.done, self._responses.outcomes(outcome, batch.events), strict=True):
                    done(one)
                return
        elif code is not None and code >= 500 and code != _BUSY:
            outcome = self._failed_again(batch, outcome)
        self._end(batch, outcome)

    def _failed_again(self, batch: _Batch, outcome: Outcome) -> Outcome:
        """The batch got a 5xx. It is split if that is not the first one of an event in it. An event that has failed
        alone has a batch to fail in again before the next split."""
        events = batch.events
        if len(events) == 1:
            self._failed.discard(_key(events[0]))
            return outcome
        keys = set(map(_key, events))
        again = not self._failed.isdisjoint(keys)
        if not again and len(self._failed) + len(keys) > _MOST_AGAIN:
            self._failed.clear()
        self._failed |= keys  # also of a batch that is split, so that its halves are, too
        return self._split(batch, outcome) if again else outcome

    def _split(self, batch: _Batch, outcome: Outcome) -> Outcome:
        """Its events are sent again, in two halves."""
        self._metrics["tidegate_http_batches_split_total"] += 1
        count = len(batch.events)
        if len(self._again) + count > _MOST_AGAIN:
            self._again.clear()
        middle = (count + 1) // 2
        for events in (batch.events[:middle], batch.events[middle:]):
            half = _Batch(len(events))
            for event in events:
                self._again.setdefault(_key(event), []).append(half)
        reason = f"{outcome.reason} for a batch of {count} events"
        return Outcome(False, retry=True, code=outcome.code, data=outcome.data, reason=reason, shared=True)

    def _half(self, event: Event) -> _Batch | None:
        """The half of a batch that this event is sent again in, if it belongs to one."""
        key = _key(event)
        halves = self._again.get(key)
        if halves is None:
            return None
        half = halves.pop()
        if not halves:
            del self._again[key]
        return half.open()

    @staticmethod
    def _end(batch: _Batch, outcome: Outcome) -> None:
        for done in batch.done:
            done(outcome)


def _key(event: Event) -> Hashable:
    """What an event has in common with that of its next attempt, which may be a copy: with another trace context, or as
    transforms leave it. It has a position, unless it comes from a bridge's source that has none."""
    return event.position or (event.attributes.get("source"), id_of(event))
