"""Steps that record spans, around a source's intake and a sink's `send`. `compose` puts them in only if an observer has
a `tracer` (`gateway_core.contract.tracing`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..contract.capabilities import ClassifiesResponses, DeadLetterStore, Previewing, lend
from ..contract.departure import keeping
from ..contract.errors import Refused
from ..contract.event import Event
from ..contract.interfaces import Accepted, Outcome, Send, Sink
from ..contract.outcome import unwritable
from ..contract.tracing import Origin, SendContext, Tracer
from ..delivery.deliveries import Delivery
from .steps import Accept


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

        accept(events, keeping(done, answered))

    return traced


def traced_refusal(tracer: Tracer, origin: Origin, refuse: Callable[[Refused], None]) -> Callable[[Refused], None]:
    """`refuse` with a span."""

    def traced(error: Refused) -> None:
        tracer.refused(origin, error)
        refuse(error)

    return traced


def traced_send(tracer: Tracer, context: SendContext, send: Send) -> Send:
    """A sink's `send` with a span around it."""

    def traced(event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        # a delivery is its own callback, and knows how many attempts there were
        trace, ended = tracer.sending(context, event, done.attempts if isinstance(done, Delivery) else 1)

        def settled(outcome: Outcome) -> None:
            ended(outcome)
            done(outcome)

        try:
            send(event.with_trace(trace), timeout_s, settled)
        except Exception as e:
            ended(unwritable(e))
            raise

    return traced


class TracedSink:
    """A sink, with a span around each attempt. It can do what that sink can."""

    def __init__(self, sink: Sink, tracer: Tracer, context: SendContext) -> None:
        self.address = sink.address
        self.start, self.stop = sink.start, sink.stop
        self.send = traced_send(tracer, context, sink.send)
        lend(self, sink, (Previewing, ClassifiesResponses, DeadLetterStore))
