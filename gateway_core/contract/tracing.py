"""Traces: how an event's trace context goes through the gateway.

A trace context is kept in two places that never mix. The attributes `traceparent` and `tracestate` (CloudEvents
distributed tracing extension) belong to the sender and are forwarded unchanged. The hop's own context travels beside
the event: in the headers `traceparent` and `tracestate` of its transport (W3C Trace Context), and inside the gateway in
`Event.trace`, as the text of `traceparent` and, after one space, that of `tracestate` if there is one. It is None if
the gateway does not trace, and then nothing here is called: these steps are put in only where an observer has a
`tracer`.

The way of `Event.trace`: a source sets what came in the headers; `traced_intake` lets the tracer put the
gateway's own context in its place; the channel stores it with the event; `traced_send` gives each attempt a copy of the
event with a context of its own, which the sink writes into headers. A sink that puts several events into one message
(`gateway_core.contract.capabilities.BatchTracing`) writes a context for all of them.
`gateway_transport.trace_headers` reads and writes those headers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from .errors import Refused
from .event import Event
from .outcome import Outcome


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of events: a component of this name ("http"; "reply" for replies), for the broker or bridge `owner`.
    `address` is known once it has started. `pulls` says that it fetches them."""

    owner: str
    component: str
    address: Callable[[], str]
    pulls: bool = False


@dataclass(frozen=True, slots=True)
class SendContext:
    """What an attempt is for: a delivery to the subscriber of a trigger or the sink of a bridge, a message with the
    events of several deliveries, or the writing of a dead letter. `owner` is the trigger's or the bridge's name,
    `broker` that of the broker or bridge."""

    operation: Literal["deliver", "deliver_batch", "dead_letter"]
    owner: str
    broker: str
    address: Callable[[], str]


class Tracer(Protocol):
    """Records an event's path as spans, and continues its trace. Calls must be fast and must not raise."""

    def received(self, origin: Origin, events: Sequence[Event]) -> Callable[[BaseException | None], None]:
        """Events arrived together. `event.trace` has the context that came with each by its transport, or None; sets it
        to the context that what follows belongs to. The result is called once with the answer."""

    def refused(self, origin: Origin, error: Refused) -> None:
        """An input arrived that is not an event; `error.trace` is the context that came with it, or None."""

    def sending(self, context: SendContext, event: Event, attempt: int) -> tuple[str | None, Callable[[Outcome], None]]:
        """An attempt begins. Returns the context that goes with it, and what is called once with its outcome; that sets
        the `trace` of the outcome's reply, if any."""

    def sending_batch(
        self, context: SendContext, events: Sequence[Event]
    ) -> tuple[str | None, Callable[[Outcome], None]]:
        """One message with the events of several attempts is sent; `event.trace` is the context of each attempt.
        Returns the context that goes with the message, and what is called once with the outcome of the message."""
