"""Traces through a gateway, read from the SDK's memory."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateway_log.reader import LogReader, to_event
from gateway_log.verify import faults
from gateway_otel.tracer import OtelTracer
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from gateway_core.errors import Overloaded
from gateway_core.event import Event
from gateway_core.testing import GatewayProcess, Subscriber
from gateway_core.tracing import Origin, traced_intake
from tests.traced import OBSERVED, Spans, context_of, header_of, of_span, parent_of, traced, wait_until

INGRESS = OBSERVED + "brokers: {default: {ingress: [http: {listen: '127.0.0.1:0'}], dead_letter: DEAD}}\n"
CLIENT = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
OTHER = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7


def config(*triggers: str, dead: str = "deadletter", more: str = "") -> str:
    return INGRESS.replace("DEAD", dead) + "triggers:\n" + "\n".join(f"  {t}" for t in triggers) + "\n" + more


def binary(id: str = "1", **more: str) -> dict[str, str]:
    headers = {"ce-specversion": "1.0", "ce-id": id, "ce-source": "/s", "ce-type": "t"}
    return {**headers, **{f"ce-{k}": v for k, v in more.items()}}


def post(url: str, headers: Mapping[str, str], body: bytes = b"") -> int:
    return httpx.post(url, headers=headers, content=body).status_code


def says(span: ReadableSpan, wanted: Mapping[str, Any]) -> None:
    """The span has these attributes; None stands for "not there"."""
    attributes = span.attributes or {}
    assert {name: attributes.get(name) for name in wanted} == dict(wanted)


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


@pytest.mark.spec("CARD-02", "CARD-08", "DP-20")
def test_a_request_and_its_delivery_are_spans_of_the_senders_trace(tmp_path: Path) -> None:
    spans = Spans()
    with Subscriber() as s, traced(config(f"all: {{subscriber: '{s.url}'}}"), tmp_path, spans) as g:
        headers = {**binary(subject="me"), "traceparent": header_of(CLIENT), "tracestate": "a=1,b=2"}
        assert post(g.ingress(), headers, b"data") == 202
        (got,) = s.wait_for(1)
        receive, deliver = spans.one("receive default"), spans.one("deliver all")
        url, to = httpx.URL(g.ingress()), httpx.URL(s.url)
    assert parent_of(receive) == CLIENT
    assert parent_of(deliver) == of_span(receive)
    assert context_of(got.headers) == of_span(deliver)
    assert got.headers["tracestate"] == "a=1,b=2"
    assert "ce-traceparent" not in got.headers
    assert (receive.kind, deliver.kind) == (SpanKind.SERVER, SpanKind.CLIENT)
    event = {
        "messaging.system": "tidegate",
        "messaging.destination.name": "default",
        "messaging.message.id": "1",
        "messaging.message.body.size": 4,
        "cloudevents.event_id": "1",
        "cloudevents.event_source": "/s",
        "cloudevents.event_type": "t",
        "cloudevents.event_spec_version": "1.0",
        "cloudevents.event_subject": "me",
        "http.request.method": "POST",
        "error.type": None,
    }
    came = {
        "messaging.operation.name": "receive",
        "messaging.operation.type": "receive",
        "tidegate.source": "http",
        "http.response.status_code": 202,
        "url.scheme": "http",
        "url.path": url.path,
        "server.address": url.host,
        "server.port": url.port,
    }
    went = {
        "messaging.operation.name": "deliver",
        "messaging.operation.type": "send",
        "messaging.destination.subscription.name": "all",
        "tidegate.attempt": 1,
        "tidegate.outcome": "delivered",
        "http.response.status_code": 202,
        "http.request.resend_count": None,
        "url.full": s.url,
        "server.address": to.host,
        "server.port": to.port,
    }
    says(receive, event | came)
    says(deliver, event | went)
    assert receive.status.status_code is deliver.status.status_code is StatusCode.UNSET


@pytest.mark.spec("BR-25", "DP-19", "CARD-02")
@pytest.mark.parametrize("client", ["native", "httpx"])
@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_the_senders_attributes_stay_and_the_hop_goes_in_headers(tmp_path: Path, mode: str, client: str) -> None:
    spans = Spans()
    with Subscriber([503]) as s:
        sink = f"{{http: {{url: '{s.url}', client: {client}, codec: {{cloudevents: {{mode: {mode}}}}}}}}}"
        policy = "delivery: {backoff_delay_s: 0.001}"
        with traced(config(f"all: {{subscriber: {sink}, {policy}}}"), tmp_path, spans) as g:
            attributes = {"traceparent": header_of(CLIENT), "tracestate": "a=1"}
            assert post(g.ingress(), binary(**attributes)) == 202
            got = s.wait_for(2)
            deliveries = spans.wait_for("deliver all", 2)
    receive = spans.one("receive default")
    assert parent_of(receive) == CLIENT
    assert [parent_of(d) for d in deliveries] == [of_span(receive)] * 2
    assert [context_of(r.headers) for r in got] == [of_span(d) for d in deliveries]  # each attempt has its own
    for request in got:
        event = json.loads(request.body) if mode == "structured" else request.headers
        prefix = "" if mode == "structured" else "ce-"
        assert {n: event[prefix + n] for n in attributes} == attributes


@pytest.mark.spec("CARD-02")
def test_a_header_wins_over_the_attribute_which_becomes_a_link(tmp_path: Path) -> None:
    spans = Spans()
    with Subscriber() as s, traced(config(f"all: {{subscriber: '{s.url}'}}"), tmp_path, spans) as g:
        headers = {**binary(traceparent=header_of(OTHER)), "traceparent": header_of(CLIENT)}
        assert post(g.ingress(), headers) == 202
        (got,) = s.wait_for(1)
    receive = spans.one("receive default")
    assert parent_of(receive) == CLIENT
    assert linked(receive) == [OTHER]
    assert got.headers["ce-traceparent"] == header_of(OTHER)
    assert context_of(got.headers)[0] == CLIENT[0]


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"traceparent": "00-" + "0" * 32 + "-b7ad6b7169203331-01"},
        {"traceparent": header_of(CLIENT).upper()},
        {"traceparent": header_of(CLIENT) + "-more"},
        {"traceparent": "ff" + header_of(CLIENT)[2:]},
        {"traceparent": "nonsense", "tracestate": "a=1"},
        {"tracestate": "a=1"},
    ],
    ids=["none", "zero", "upper", "more", "ff", "nonsense", "state"],
)
def test_without_a_context_that_is_one_a_trace_begins(tmp_path: Path, header: dict[str, str]) -> None:
    spans = Spans()
    with Subscriber() as s, traced(config(f"all: {{subscriber: '{s.url}'}}"), tmp_path, spans) as g:
        assert post(g.ingress(), {**binary(), **header}) == 202
        (got,) = s.wait_for(1)
        deliver = spans.one("deliver all")
    assert parent_of(spans.one("receive default")) is None
    assert context_of(got.headers) == of_span(deliver)
    assert "tracestate" not in got.headers


@pytest.mark.spec("DP-20", "CARD-02")
def test_each_attempt_is_a_span_and_so_is_the_dead_letter(tmp_path: Path) -> None:
    spans = Spans()
    policy = "delivery: {retry: 2, backoff_delay_s: 0.001}"
    # the client tries once more by itself where a kept connection turns out to be closed
    with Subscriber([503, None, None, 500]) as s, Subscriber() as dead:
        trigger = f"all: {{subscriber: '{s.url}', {policy}}}"
        with traced(config(trigger, dead=dead.url), tmp_path, spans) as g:
            assert post(g.ingress(), {**binary(), "traceparent": header_of(CLIENT)}) == 202
            (letter,) = dead.wait_for(1)
            burial = spans.one("dead_letter all")
    receive = spans.one("receive default")
    attempts = spans.named("deliver all")
    assert [parent_of(a) for a in attempts] == [of_span(receive)] * 3
    for n, (code, error) in enumerate([(503, "503"), (None, "_OTHER"), (500, "500")], 1):
        says(
            attempts[n - 1],
            {
                "tidegate.attempt": n,
                "http.request.resend_count": n - 1 or None,
                "http.response.status_code": code,
                "error.type": error,
                "tidegate.outcome": "retry",
            },
        )
        assert attempts[n - 1].status.status_code is StatusCode.ERROR
    assert parent_of(burial) == of_span(receive)
    assert context_of(letter.headers) == of_span(burial)
    says(burial, {"tidegate.reason": "500 Internal Server Error", "tidegate.outcome": "delivered"})


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


@pytest.mark.spec("CARD-02")
def test_a_batch_is_one_span_with_a_link_to_each_events_own_trace(tmp_path: Path) -> None:
    spans = Spans()
    events = [
        {"specversion": "1.0", "id": str(n), "source": "/s", "type": "t", **({"traceparent": p} if p else {})}
        for n, p in enumerate((header_of(CLIENT), header_of(OTHER), None))
    ]
    batch = {"content-type": "application/cloudevents-batch+json"}
    with Subscriber() as s, traced(config(f"all: {{subscriber: '{s.url}'}}"), tmp_path, spans) as g:
        assert post(g.ingress(), batch, json.dumps(events).encode()) == 202
        first = {r.headers["ce-id"]: context_of(r.headers)[0] for r in s.wait_for(3)}
        assert post(g.ingress(), {**batch, "traceparent": header_of(OTHER)}, json.dumps(events).encode()) == 202
        second = [context_of(r.headers)[0] for r in s.wait_for(6)[3:]]
        alone, within = spans.wait_for("receive default", 2)
    says(alone, {"messaging.batch.message_count": 3, "cloudevents.event_id": None})
    assert linked(alone) == linked(within) == [CLIENT, OTHER]
    assert parent_of(alone) is None
    assert first == {"0": CLIENT[0], "1": OTHER[0], "2": of_span(alone)[0]}
    assert parent_of(within) == OTHER
    assert second == [OTHER[0]] * 3


def test_what_is_refused_has_a_span_that_says_why(tmp_path: Path) -> None:
    spans = Spans()
    with traced(config("all: {subscriber: 'http://127.0.0.1:9/'}"), tmp_path, spans) as g:
        assert post(g.ingress(), {"ce-specversion": "1.0", "ce-id": "1", "traceparent": header_of(CLIENT)}) == 400
        receive = spans.one("receive default")
    assert parent_of(receive) == CLIENT
    says(receive, {"error.type": "400", "http.response.status_code": 400})
    assert receive.status.description


def test_what_is_not_sampled_is_passed_on_and_not_recorded(tmp_path: Path) -> None:
    spans = Spans(ALWAYS_OFF)
    with Subscriber() as s, traced(config(f"all: {{subscriber: '{s.url}'}}"), tmp_path, spans) as g:
        assert post(g.ingress(), {**binary(), "traceparent": header_of(CLIENT)}) == 202
        (got,) = s.wait_for(1)
    assert got.headers["traceparent"].startswith(f"00-{CLIENT[0]:032x}-")
    assert got.headers["traceparent"].endswith("-00")
    assert spans.all() == []


def test_a_bridge_is_two_spans_the_first_of_which_ends_with_the_second(tmp_path: Path) -> None:
    spans = Spans()
    with Subscriber() as s:
        text = f"{OBSERVED}bridges: {{b: {{source: {{http: {{listen: '127.0.0.1:0'}}}}, sink: '{s.url}'}}}}\n"
        with traced(text, tmp_path, spans) as g:
            assert post(g.ingress("b"), {**binary(), "traceparent": header_of(CLIENT)}) == 202
        receive, deliver = spans.one("receive b"), spans.one("deliver b")
    assert (parent_of(receive), parent_of(deliver)) == (CLIENT, of_span(receive))
    assert (receive.end_time or 0) >= (deliver.end_time or 0)


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


# -- sources that fetch their events ------------------------------------------------------------------------------

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
    assert [e.trace for e in events] == [header_of(of_span(s)) for s in found]
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


# -- in storage ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("CARD-02")
def test_the_trace_goes_on_after_the_gateway_ended_and_came_back(tmp_path: Path) -> None:
    spans = Spans()
    with Subscriber(default=503) as s:
        trigger = f"all: {{subscriber: '{s.url}', delivery: {{backoff_delay_s: 30, backoff_max_s: 30}}}}"
        with traced(config(trigger), tmp_path, spans) as g:
            headers = {**binary(), "traceparent": header_of(CLIENT), "tracestate": "a=1"}
            assert post(g.ingress(), headers, b"x") == 202
            s.wait_for(1)
    with Subscriber() as s, traced(config(f"all: {{subscriber: '{s.url}'}}"), tmp_path, spans):
        (got,) = s.wait_for(1)
        wait_until(lambda: len(spans.named("deliver all")) == 2, lambda: "the second attempt")
    receive, attempts = spans.one("receive default"), spans.named("deliver all")
    assert [parent_of(a) for a in attempts] == [of_span(receive)] * 2
    assert context_of(got.headers) == of_span(attempts[1])
    assert got.headers["tracestate"] == "a=1"
    assert {n for n in got.headers if "trace" in n} == {"traceparent", "tracestate"}
    folder = tmp_path / "data/log/default"
    assert list(faults(folder)) == []
    with LogReader(folder) as log:
        (row,) = log.read(0, 1)
    event = to_event(0, row)
    assert event.trace == f"{header_of(of_span(receive))} a=1"
    assert event.attributes == {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


@pytest.mark.spec("BR-25")
def test_without_tracing_nothing_is_added_anywhere(tmp_path: Path) -> None:
    """The request, the stored row and the status are those of a gateway that knows of no traces."""
    with (
        Subscriber() as s,
        GatewayProcess(config(f"all: {{subscriber: '{s.url}'}}").removeprefix(OBSERVED), tmp_path) as g,
    ):
        own = {"traceparent": header_of(OTHER), "tracestate": "a=1"}
        headers = {**binary(**own), "traceparent": header_of(CLIENT), "tracestate": "b=2"}
        assert post(g.ingress(), headers, b"x") == 202
        (got,) = s.wait_for(1)
        g.wait_until(g.drained)
        (file,) = (tmp_path / "data/log/default").glob("*.db")
        with closing(sqlite3.connect(file)) as log:
            rows = log.execute("SELECT sequence, flags, key, attributes, data FROM events").fetchall()
    assert set(got.headers) == {
        *(f"ce-{n}" for n in ("specversion", "id", "source", "type", "traceparent", "tracestate")),
        *("host", "user-agent", "prefer", "content-length"),
    }
    assert {n: got.headers[f"ce-{n}"] for n in own} == own
    attributes = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", **own}
    assert rows == [(1, 0, None, json.dumps(attributes, separators=(",", ":")), b"x")]


def test_a_dead_letter_file_keeps_the_trace_and_a_replay_continues_it(tmp_path: Path) -> None:
    spans = Spans()
    with Subscriber([400]) as s, traced(text := config(f"all: {{subscriber: '{s.url}'}}"), tmp_path, spans) as g:
        (tmp_path / "plain.yaml").write_text(text.removeprefix(OBSERVED))
        assert post(g.ingress(), {**binary(traceparent=header_of(OTHER)), "traceparent": header_of(CLIENT)}) == 202
        burial = spans.one("dead_letter all")
        command = ["dlq", "replay", "--config", str(tmp_path / "plain.yaml"), "--data-dir", str(tmp_path / "data")]
        command += ["--to", g.ingress(), "--all"]
        done = subprocess.run([sys.executable, "-m", "gateway_core.cli", *command], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        _, again = s.wait_for(2)
    assert parent_of(burial) == of_span(spans.named("receive default")[0])
    assert parent_of(spans.named("receive default")[1]) == of_span(burial)
    assert context_of(again.headers)[0] == CLIENT[0]
    assert again.headers["ce-traceparent"] == header_of(OTHER)
