"""Traces of what subscribers and functions answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gateway_testing import Subscriber
from opentelemetry.trace import SpanKind

from tests.traced import (
    CLIENT,
    OTHER,
    Spans,
    binary,
    config,
    context_of,
    header_of,
    linked,
    of_span,
    parent_of,
    post,
    says,
    traced,
)


@pytest.mark.slow
@pytest.mark.spec("BR-25", "CARD-02")
def test_a_reply_continues_the_trace_of_its_attempt(tmp_path: Path) -> None:
    spans = Spans()
    answers = [(200, binary("r1"), b""), (200, binary("r2", traceparent=header_of(OTHER)), b"")]
    with Subscriber(answers) as s, Subscriber() as t:
        asks = f"asks: {{filter: {{kind: ask}}, subscriber: '{s.url}'}}"
        gets = f"gets: {{filters: [not: {{exact: {{kind: ask}}}}], subscriber: '{t.url}'}}"
        with traced(config(asks, gets), tmp_path, spans) as g:
            for n in "12":
                assert post(g.ingress(), binary(n, kind="ask", traceparent=header_of(CLIENT))) == 202
                t.wait_for(int(n))
            replies = spans.wait_for("reply default", 2)
            delivered = spans.wait_for("deliver gets", 2)
    asked = spans.named("deliver asks")
    got = {r.headers["ce-id"]: r.headers for r in t.requests}
    # the attribute: the event's, unless the reply has its own; the header: this hop's
    assert got["r1"]["ce-traceparent"] == header_of(CLIENT)
    assert got["r2"]["ce-traceparent"] == header_of(OTHER)
    assert [parent_of(r) for r in replies] == [of_span(a) for a in asked]
    assert [parent_of(d) for d in delivered] == [of_span(r) for r in replies]
    assert [context_of(got[i]) for i in ("r1", "r2")] == [of_span(d) for d in delivered]
    assert linked(replies[1]) == [OTHER]
    assert replies[0].kind is SpanKind.PRODUCER


def test_a_reply_from_within_the_trace_goes_under_the_subscribers_span(tmp_path: Path) -> None:
    spans = Spans()
    span = 0xABC

    def decide(request: Any) -> Any:
        return 200, binary("r", traceparent=header_of((context_of(request.headers)[0], span))), b""

    with Subscriber(decide=decide) as s, Subscriber() as t:
        asks = f"asks: {{filter: {{kind: ask}}, subscriber: '{s.url}'}}"
        gets = f"gets: {{filters: [not: {{exact: {{kind: ask}}}}], subscriber: '{t.url}'}}"
        with traced(config(asks, gets), tmp_path, spans) as g:
            assert post(g.ingress(), {**binary(kind="ask"), "traceparent": header_of(CLIENT)}) == 202
            t.wait_for(1)
    assert parent_of(spans.one("reply default")) == (CLIENT[0], span)


def test_a_function_and_what_it_returns_are_in_the_callers_trace(tmp_path: Path) -> None:
    spans = Spans()
    returned = {"cloudEventsVersion": "0.1", "eventType": "t", "source": "/f", "eventID": "r", "data": "x"}
    answer = 200, {"content-type": "application/cloudevents+json"}, json.dumps(returned).encode()
    with Subscriber(default=answer) as function, Subscriber() as s:
        ingress = f"fn: {{listen: '127.0.0.1:0', path: /, function: '{function.url}'}}"
        text = config(f"all: {{subscriber: '{s.url}'}}").replace("http: {listen: '127.0.0.1:0'}", ingress)
        with traced(text, tmp_path, spans) as g:
            assert post(g.ingress(), {"traceparent": header_of(CLIENT)}) == 200
            (called,) = function.wait_for(1)
            s.wait_for(1)
            receive = spans.one("receive default")
    assert context_of(called.headers) == CLIENT
    assert parent_of(receive) == CLIENT
    says(receive, {"tidegate.source": "fn", "cloudevents.event_type": "t", "cloudevents.event_spec_version": "0.1"})
