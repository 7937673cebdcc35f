"""Traces through a gateway, read from the SDK's memory: requests, attempts, dead letters."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from gateway_auth.keys import add_key
from gateway_testing import Received, Subscriber
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from tests.traced import (
    CLIENT,
    OBSERVED,
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
    wait_until,
)
from tests.twins import twins


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
@pytest.mark.parametrize("client", twins("native", "httpx"))
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
    with Subscriber([503, None, 500]) as s, Subscriber() as dead:
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


@pytest.mark.spec("AC-07")
def test_the_sender_is_named_in_the_span_of_what_it_sent(tmp_path: Path) -> None:
    spans, keys = Spans(), tmp_path / "keys.json"
    _, key = add_key(keys, "billing")
    http = f"{{listen: '127.0.0.1:0', authenticate: [{{api_key: {{file: '{keys}'}}}}]}}"
    text = f"{OBSERVED}brokers: {{default: {{ingress: [http: {http}]}}}}\n"
    batch = {"content-type": "application/cloudevents-batch+json", "x-api-key": key}
    events = [{"specversion": "1.0", "id": str(n), "source": "/s", "type": "t"} for n in range(2)]
    with traced(text, tmp_path, spans) as g:
        assert post(g.ingress(), {**binary(), "x-api-key": key}) == 202
        assert post(g.ingress(), batch, json.dumps(events).encode()) == 202
        assert post(g.ingress(), binary()) == 401
        one, many, refused = spans.wait_for("receive default", 3)
    for span in (one, many):
        says(span, {"user.id": "key billing", "error.type": None})
        assert key not in str(span.to_json())
    says(refused, {"user.id": None, "http.response.status_code": 401})


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
    assert int(got.headers["traceparent"].rpartition("-")[2], 16) & 1 == 0
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


@pytest.mark.spec("BATCH-02", "BATCH-07")
@pytest.mark.parametrize("code", [422, 500])
def test_a_batch_is_split_also_while_its_attempts_are_traced(code: int, tmp_path: Path) -> None:
    """Each attempt has a copy of the event, with a context of its own."""
    spans = Spans()

    def decide(request: Received) -> int:
        return code if any(one["id"] == "3" for one in json.loads(request.body)) else 204

    with Subscriber(decide=decide) as s:
        batch = f"{{http: {{url: '{s.url}', batch: {{max_events: 8, wait: 0.1}}}}}}"
        trigger = f"all: {{subscriber: {batch}, delivery: {{retry: 2, backoff: linear, backoff_delay_s: 0.01}}}}"
        with traced(config(trigger), tmp_path, spans) as g:
            events = [{"specversion": "1.0", "id": str(n), "source": "/s", "type": "t"} for n in range(8)]
            headers = {"content-type": "application/cloudevents-batch+json"}
            assert post(g.ingress(), headers, json.dumps(events).encode()) == 202
            wait_until(lambda: g.status().triggers[0].dead_lettered, lambda: str(len(s.requests)), 20)
            wait_until(lambda: g.status().triggers[0].delivered == 7, lambda: str(len(s.requests)), 20)
            attempts = g.status().triggers[0].attempts
    assert len(s.requests) <= 30
    assert len(spans.named("deliver all")) == attempts == sum(len(json.loads(r.body)) for r in s.requests)


def batch_of(*attributes: dict[str, str]) -> tuple[dict[str, str], bytes]:
    """A request to an ingress with these events."""
    common = {"specversion": "1.0", "source": "/s", "type": "t"}
    events = [{**common, "id": str(n), **one} for n, one in enumerate(attributes)]
    return {"content-type": "application/cloudevents-batch+json"}, json.dumps(events).encode()


def to_batches(url: str, options: str) -> str:
    return config(f"all: {{subscriber: {{http: {{url: '{url}', batch: {options}}}}}, delivery: {{retry: 0}}}}")


@pytest.mark.spec("BATCH-10")
def test_the_request_of_a_batch_has_a_span_that_links_to_each_events_attempt(tmp_path: Path) -> None:
    spans = Spans()
    with Subscriber() as s, traced(to_batches(s.url, "{max_events: 3, wait: 5}"), tmp_path, spans) as g:
        own = {"traceparent": header_of(CLIENT), "tracestate": "a=1"}
        assert post(g.ingress(), *batch_of(own, {"traceparent": header_of(OTHER)}, {})) == 202
        (got,) = s.wait_for(1)
        request, attempts = spans.one("deliver_batch all"), spans.wait_for("deliver all", 3)
        receive = spans.one("receive default")
    assert context_of(got.headers) == of_span(request)
    assert linked(request) == [of_span(attempt) for attempt in attempts]
    assert [link.attributes for link in request.links] == [{"messaging.message.id": str(n)} for n in range(3)]
    assert parent_of(request) is None
    assert request.kind is SpanKind.CLIENT
    says(
        request,
        {
            "messaging.system": "tidegate",
            "messaging.operation.name": "deliver_batch",
            "messaging.operation.type": "send",
            "messaging.destination.name": "default",
            "messaging.destination.subscription.name": "all",
            "messaging.batch.message_count": 3,
            "messaging.message.id": None,
            "http.request.method": "POST",
            "http.response.status_code": 202,
            "url.full": s.url,
            "tidegate.outcome": "delivered",
        },
    )
    assert [parent_of(attempt) for attempt in attempts] == [CLIENT, OTHER, of_span(receive)]
    sent = json.loads(got.body)
    assert [one.get("traceparent") for one in sent] == [header_of(CLIENT), header_of(OTHER), None]
    assert [one.get("tracestate") for one in sent] == ["a=1", None, None]


@pytest.mark.spec("BATCH-10")
def test_the_span_of_a_batch_has_its_response_and_each_attempt_its_own(tmp_path: Path) -> None:
    spans = Spans()
    items = [{"id": "0", "status": 200}, {"id": "1", "status": 422}]
    partly = (207, {"content-type": "application/json"}, json.dumps({"items": items}).encode())
    with (
        Subscriber([401, partly]) as s,
        traced(to_batches(s.url, "{max_events: 2, wait: 5}"), tmp_path, spans) as g,
    ):
        for _ in range(2):
            assert post(g.ingress(), *batch_of({}, {})) == 202
        requests, attempts = spans.wait_for("deliver_batch all", 2), spans.wait_for("deliver all", 4)
    for request, code in zip(requests, (401, 207), strict=True):
        says(request, {"http.response.status_code": code, "error.type": "401" if code == 401 else None})
        assert (request.status.status_code is StatusCode.ERROR) == (code == 401)
    codes = [(attempt.attributes or {})["http.response.status_code"] for attempt in attempts]
    assert codes == [401, 401, 200, 422]
    assert [link for request in requests for link in linked(request)] == [of_span(attempt) for attempt in attempts]


@pytest.mark.spec("BATCH-10")
def test_a_batch_has_no_more_links_than_a_span_may_have(tmp_path: Path) -> None:
    spans = Spans()
    with Subscriber() as s, traced(to_batches(s.url, "{max_events: 200, wait: 5}"), tmp_path, spans) as g:
        assert post(g.ingress(), *batch_of(*[{}] * 200)) == 202
        request = spans.one("deliver_batch all")
    assert len(request.links) == 128
    says(request, {"messaging.batch.message_count": 200})


@pytest.mark.spec("BATCH-10")
def test_a_batch_that_is_not_sampled_says_so_to_the_subscriber(tmp_path: Path) -> None:
    spans = Spans(ALWAYS_OFF)
    with Subscriber() as s, traced(to_batches(s.url, "{max_events: 2, wait: 5}"), tmp_path, spans) as g:
        assert post(g.ingress(), *batch_of({}, {})) == 202
        (got,) = s.wait_for(1)
    assert int(got.headers["traceparent"].rpartition("-")[2], 16) & 1 == 0
    assert spans.all() == []
