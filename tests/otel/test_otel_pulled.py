"""Spans of sources that fetch their events."""

from __future__ import annotations

from gateway_otel.tracer import OtelTracer
from opentelemetry.trace import SpanKind

from gateway_core.contract.errors import Overloaded
from gateway_core.contract.event import Event
from gateway_core.contract.tracing import Origin
from gateway_core.pipeline.tracing import traced_intake
from tests.traced import CLIENT, OTHER, Spans, context_of, header_of, of_span, parent_of

PULLED = Origin("b", "pull", lambda: "pull:", pulls=True)


def event(id: str, trace: str | None) -> Event:
    return Event({"specversion": "1.0", "id": id, "source": "/s", "type": "t"}, trace=trace)


def test_events_that_were_fetched_together_have_a_span_each() -> None:
    spans = Spans()
    events = [event("1", header_of(CLIENT)), event("2", header_of(OTHER)), event("3", None)]
    accept = traced_intake(OtelTracer(spans.provider), PULLED, lambda events, done: done(None))
    accept(events, lambda error: None)
    found = spans.named("receive b")
    assert [parent_of(s) for s in found] == [CLIENT, OTHER, None]
    assert [context_of({"traceparent": e.trace or ""}) for e in events] == [of_span(s) for s in found]
    assert {s.kind for s in found} == {SpanKind.CONSUMER}


def test_what_is_not_taken_now_has_no_span_and_comes_again_as_it_came() -> None:
    spans = Spans()
    errors: list[BaseException | None] = [Overloaded("full"), None]
    accept = traced_intake(OtelTracer(spans.provider), PULLED, lambda events, done: done(errors.pop(0)))
    one, answers = event("1", header_of(CLIENT)), list[BaseException | None]()
    accept([one], answers.append)
    assert (spans.all(), one.trace) == ([], header_of(CLIENT))
    accept([one], answers.append)
    receive = spans.one("receive b")
    assert parent_of(receive) == CLIENT
    assert one.trace == header_of(of_span(receive))
    assert [str(a) for a in answers] == ["full", "None"]
