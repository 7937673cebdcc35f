"""Traces: how an event's trace context goes through the gateway.

A trace context is kept in two places, which never mix. The attributes `traceparent` and `tracestate` (CloudEvents
distributed tracing extension) are the sender's: they go on unchanged. The hop's own context goes beside the event: in
the headers `traceparent` and `tracestate` of its transport (W3C Trace Context), and inside the gateway in
`Event.trace`, as the text of `traceparent` and, after one space, that of `tracestate` if there is one. It is None where
the gateway does not trace, and then nothing here is called: these steps are put in only where an observer has a
`tracer`.

The way of `Event.trace`: a source sets what came in the headers (`of_headers`); `traced_intake` lets the tracer put the
gateway's own context in its place; the channel stores it with the event; `traced_send` gives each attempt a copy of the
event with a context of its own, which the sink writes into headers (`headers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from .component import TRACE_HEADERS
from .errors import Refused
from .event import Event
from .interfaces import Accepted, Outcome, Send, Sink

MOST_BYTES = 1024
"""A longer `tracestate` is dropped; the specification asks for 512 at least."""

Accept = Callable[[Sequence[Event], Accepted], None]
"""`Intake.accept`."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where events come from: a component of this name ("http"; "reply" for replies), for the broker or bridge `owner`.
    `address` is known once it has started. `pulls` says that it fetches them."""

    owner: str
    component: str
    address: Callable[[], str]
    pulls: bool = False


@dataclass(frozen=True, slots=True)
class Errand:
    """What an attempt is for: a delivery to the subscriber of a trigger or the sink of a bridge, or the writing of a
    dead letter. `owner` is the trigger's or the bridge's name, `broker` that of the broker or bridge."""

    operation: Literal["deliver", "dead_letter"]
    owner: str
    broker: str
    address: Callable[[], str]


class Tracer(Protocol):
    """Records an event's way as spans, and continues its trace. Calls must be quick and not raise."""

    def received(self, origin: Origin, events: Sequence[Event]) -> Callable[[BaseException | None], None]:
        """Events came in together. `event.trace` has the context that came with each by its transport, or None; sets it
        to the context that what follows belongs to. The result is called once with the answer."""

    def refused(self, origin: Origin, error: Refused) -> None:
        """An input came that is no event; `error.trace` is the context that came with it, or None."""

    def sending(self, errand: Errand, event: Event, attempt: int) -> tuple[str | None, Callable[[Outcome], None]]:
        """An attempt begins. Returns the context that goes with it, and what is called once with its outcome; that sets
        the `trace` of the outcome's reply, if any."""


def of_headers(headers: Iterable[tuple[bytes, bytes]], names: tuple[bytes, bytes] | None = TRACE_HEADERS) -> str | None:
    """The context that a message's headers carry (in lower case, under the names of a `Binding.trace`), None where they
    carry none. The tracer judges whether it is well formed."""
    if names is None:
        return None
    of_parent, of_state = names
    parent: bytes | None = None
    states: list[bytes] = []
    for name, value in headers:
        if name == of_parent:
            if parent is not None:
                return None  # W3C Trace Context section 3.2: more than one is none
            parent = value
        elif name == of_state:
            states.append(value)
    if parent is None or not parent.isascii() or b" " in parent:
        return None
    state = b",".join(states)
    if not state or len(state) > MOST_BYTES or not state.isascii():
        return parent.decode()
    return f"{parent.decode()} {state.decode()}"


def headers(trace: str, names: tuple[bytes, bytes] | None = TRACE_HEADERS) -> list[tuple[bytes, bytes]]:
    """The headers that carry a context, under the names of a `Binding.trace`; none where the binding has no place."""
    if names is None:
        return []
    parent, _, state = trace.partition(" ")
    found = [(names[0], parent.encode())]
    if state:
        found.append((names[1], state.encode()))
    return found


def traced_intake(tracer: Tracer, origin: Origin, accept: Accept) -> Accept:
    """`accept` with a span around it."""

    def traced(events: Sequence[Event], done: Accepted) -> None:
        came = [event.trace for event in events]
        ended = tracer.received(origin, events)

        def answered(error: BaseException | None) -> None:
            ended(error)
            if error is not None:  # the source may hand them over again
                for event, trace in zip(events, came, strict=True):
                    event.trace = trace
            done(error)

        accept(events, answered)

    return traced


def traced_refusal(tracer: Tracer, origin: Origin, refuse: Callable[[Refused], None]) -> Callable[[Refused], None]:
    """`refuse` with a span."""

    def traced(error: Refused) -> None:
        tracer.refused(origin, error)
        refuse(error)

    return traced


def traced_send(tracer: Tracer, errand: Errand, send: Send) -> Send:
    """A sink's `send` with a span around it."""

    def traced(event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        # a delivery is its own callback, and knows how many attempts there were
        trace, ended = tracer.sending(errand, event, getattr(done, "attempts", 1))

        def settled(outcome: Outcome) -> None:
            ended(outcome)
            done(outcome)

        try:
            send(event.with_trace(trace), timeout_s, settled)
        except Exception as e:
            ended(Outcome(False, reason=f"encode: {e}"))
            raise

    return traced


_ASKED = ("preview", "judge", "entries", "remove")
"""What some sinks can do beside (`Previewing`, `Judging`, `DeadLetterStore`)."""


class TracedSink:
    """A sink, with a span around each attempt. It can do what that sink can."""

    def __init__(self, sink: Sink, tracer: Tracer, errand: Errand) -> None:
        self.address = sink.address
        self.start, self.stop = sink.start, sink.stop
        self.send = traced_send(tracer, errand, sink.send)
        for name in _ASKED:  # in the instance: that is where Python looks for a protocol's methods
            if hasattr(sink, name):
                setattr(self, name, getattr(sink, name))
