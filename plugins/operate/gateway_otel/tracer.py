"""The tracer: spans for received events and for each delivery attempt (`gateway_core.contract.tracing.Tracer`).

A span's parent is the context that came with the event's transport, else that of its attributes, else none; if both
exist and differ, the span links to the second. Events of one request that comes in share a span with a link to each
event's own context; one that goes out has a span with a link to each event's attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from opentelemetry.trace import Link, Span, SpanContext, Status, StatusCode, TracerProvider

from gateway_core import __version__
from gateway_core.contract.errors import Overloaded, Refused
from gateway_core.contract.event import Event, id_of
from gateway_core.contract.interfaces import Outcome
from gateway_core.contract.tracing import Origin, SendContext

from . import context, spans
from .spans import Attributes, Kind

MOST_LINKS = 128
"""OpenTelemetry's own default limit for a span."""

Ended = Callable[[BaseException | None], None]


class OtelTracer:
    """Records spans with this provider."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("tidegate", __version__)
        self._origins: dict[tuple[Origin, str], Kind] = {}
        self._send_contexts: dict[tuple[SendContext, str], Kind] = {}

    # -- receiving --------------------------------------------------------------------------------------------------

    def received(self, origin: Origin, events: Sequence[Event]) -> Ended:
        """See `gateway_core.contract.tracing.Tracer`."""
        kind = self._of_origin(origin)
        if len(events) == 1:
            begun = [self._one(kind, events[0])]
        elif origin.pulls:  # fetched together, sent individually
            begun = [self._one(kind, event) for event in events]
        else:
            begun = [self._batch(kind, events)]

        def ended(error: BaseException | None) -> None:
            if origin.pulls and isinstance(error, Overloaded):
                return  # they will be fetched again: a span that does not end is not recorded
            for span in begun:
                _answer(span, kind, error)

        return ended

    def _one(self, kind: Kind, event: Event) -> Span:
        came, own = context.read(event.trace), context.of_attributes(event.attributes)
        parent = came or own
        links = [Link(own)] if own is not None and parent is not None and not context.same(own, parent) else []
        span = self._start(kind, parent, {**kind.attributes, **spans.of_event(event)}, links, event.received_ns)
        event.trace = context.write(span.get_span_context())
        return span

    def _batch(self, kind: Kind, events: Sequence[Event]) -> Span:
        """One request with many events: each continues the request's trace, or its own if the request has none."""
        came = context.read(events[0].trace)
        own = [context.of_attributes(event.attributes) for event in events]
        links = [
            Link(found, {"messaging.message.id": str(event.attributes.get("id", ""))})
            for event, found in zip(events, own, strict=True)
            if found is not None
        ]
        attributes = {
            **kind.attributes,
            **spans.of_sender(events[0]),
            "messaging.batch.message_count": len(events),
        }
        span = self._start(kind, came, attributes, links[:MOST_LINKS], events[0].received_ns)
        shared = context.write(span.get_span_context())
        for event, found in zip(events, own, strict=True):
            event.trace = shared if came is not None or found is None else context.write(found)
        return span

    def refused(self, origin: Origin, error: Refused) -> None:
        """See `gateway_core.contract.tracing.Tracer`."""
        kind = self._of_origin(origin)
        _answer(self._start(kind, context.read(error.trace), dict(kind.attributes)), kind, error)

    # -- sending --------------------------------------------------------------------------------------------------

    def sending(
        self, send_context: SendContext, event: Event, attempt: int
    ) -> tuple[str | None, Callable[[Outcome], None]]:
        """See `gateway_core.contract.tracing.Tracer`."""
        kind = self._of_send_context(send_context)
        parent = context.read(event.trace) or context.of_attributes(event.attributes)
        attributes = {**kind.attributes, **spans.of_event(event), "tidegate.attempt": attempt}
        if kind.http and attempt > 1:
            attributes["http.request.resend_count"] = attempt - 1
        if send_context.operation == "dead_letter":
            attributes["tidegate.reason"] = str(event.attributes.get("tidegatereason", ""))
        span = self._start(kind, parent, attributes)
        hop = span.get_span_context()

        def ended(outcome: Outcome) -> None:
            if outcome.reply is not None:
                outcome.reply.trace = _reply_context(outcome.reply, hop)
            _outcome(span, kind, outcome)

        return context.write(hop), ended

    def sending_batch(
        self, send_context: SendContext, events: Sequence[Event]
    ) -> tuple[str | None, Callable[[Outcome], None]]:
        """See `gateway_core.contract.tracing.Tracer`. The span begins a trace: its events belong to many."""
        kind = self._of_send_context(replace(send_context, operation="deliver_batch"))
        links = [
            Link(found, {"messaging.message.id": id_of(event) or ""})
            for event in events[:MOST_LINKS]
            if (found := context.read(event.trace)) is not None
        ]
        attributes = {**kind.attributes, "messaging.batch.message_count": len(events)}
        span = self._start(kind, None, attributes, links)

        def ended(outcome: Outcome) -> None:
            _outcome(span, kind, outcome)

        return context.write(span.get_span_context()), ended

    # -- spans ------------------------------------------------------------------------------------------------------

    def _start(
        self,
        kind: Kind,
        parent: SpanContext | None,
        attributes: Attributes,
        links: Sequence[Link] = (),
        start_ns: int = 0,
    ) -> Span:
        return self._tracer.start_span(kind.name, context.under(parent), kind.kind, attributes, links, start_ns or None)

    def _of_origin(self, origin: Origin) -> Kind:
        key = origin, origin.address()  # known once the source has started
        kind = self._origins.get(key)
        if kind is None:
            kind = self._origins[key] = spans.of_origin(origin)
        return kind

    def _of_send_context(self, send_context: SendContext) -> Kind:
        key = send_context, send_context.address()
        kind = self._send_contexts.get(key)
        if kind is None:
            kind = self._send_contexts[key] = spans.of_send_context(send_context)
        return kind


def _reply_context(reply: Event, hop: SpanContext) -> str | None:
    """The parent of a reply: the subscriber's span if it belongs to this trace, else the attempt."""
    own = context.of_attributes(reply.attributes)
    return context.write(own if own is not None and own.trace_id == hop.trace_id else hop)


def _answer(span: Span, kind: Kind, error: BaseException | None) -> None:
    if span.is_recording():
        code = 202 if error is None else error.status if isinstance(error, Refused) else 503
        if kind.http:
            span.set_attribute("http.response.status_code", code)
        if error is not None:
            span.set_attribute("error.type", str(code) if isinstance(error, Refused) else type(error).__name__)
            span.set_status(Status(StatusCode.ERROR, str(error)))
    span.end()


def _outcome(span: Span, kind: Kind, outcome: Outcome) -> None:
    if span.is_recording():
        if outcome.code is not None:
            span.set_attribute("http.response.status_code" if kind.http else "tidegate.code", outcome.code)
        word = "delivered" if outcome.delivered else "retry" if outcome.retry else "failed"
        span.set_attribute("tidegate.outcome", word)
        if not outcome.delivered:
            span.set_attribute("error.type", str(outcome.code) if outcome.code is not None else "_OTHER")
            span.set_status(Status(StatusCode.ERROR, outcome.reason))
    span.end()
