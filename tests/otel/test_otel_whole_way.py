"""One trace from a client's span to the last event: ingress, log, triggers, a reply, Kafka, a bridge, a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import requests
from gateway_java import java
from gateway_java.kafka import KafkaBroker
from gateway_testing import Subscriber
from gateway_testing.subscriber import Received
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind

from tests import web
from tests.kafka_broker import CLIENTS
from tests.kafka_console import consume
from tests.traced import OBSERVED, Spans, context_of, header_of, of_span, parent_of, traced, wait_until

CONFIG = (
    OBSERVED
    + """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:0"}
triggers:
  asks: {filter: {type: order}, subscriber: "ASKS"}
  hears: {filter: {type: order}, subscriber: "HEARS"}
  forward: {filter: {type: receipt}, subscriber: "kafka://BOOTSTRAP/TOPIC"}
  MORE
bridges:
  back:
    source: {kafka: {bootstrap: "BOOTSTRAP", topic: TOPIC, group: TOPIC, start: earliest}}
    sink: "ENDS"
"""
)
# a JVM that is there for seconds should not spend them on compiling
QUICK = {"spark.driver.extraJavaOptions": " ".join(java.QUICK)}
RECEIPT = {"ce-specversion": "1.0", "ce-id": "receipt-1", "ce-source": "/shop", "ce-type": "receipt"}
ORDER = {"ce-specversion": "1.0", "ce-id": "order-1", "ce-source": "/client", "ce-type": "order"}


@dataclass
class Way:
    """What became of one order."""

    spans: Spans
    topic: str
    client: tuple[int, int] = (0, 0)
    arrived: dict[str, Received] = field(default_factory=dict)


@contextmanager
def sent(kafka: KafkaBroker, folder: Path, way: Way, more: str = "") -> Iterator[Any]:
    """Sends one order with the client's span in its header and in its attribute, and waits until the receipt for it
    came back through Kafka."""
    with Subscriber(default=(200, RECEIPT, b"")) as asks, Subscriber() as hears, Subscriber() as ends:
        text = CONFIG.replace("BOOTSTRAP", kafka.bootstrap).replace("TOPIC", way.topic).replace("MORE", more)
        text = text.replace("ASKS", asks.url).replace("HEARS", hears.url).replace("ENDS", ends.url)
        with traced(text, folder, way.spans) as gateway:
            with way.spans.tracer.start_as_current_span("order", kind=SpanKind.CLIENT) as span:
                context = span.get_span_context()
                way.client = context.trace_id, context.span_id
                headers = {**ORDER, "traceparent": header_of(way.client), "ce-traceparent": header_of(way.client)}
                assert web.post(gateway.ingress(), headers=headers, verify=False).status_code == 202
            for name, subscriber in (("asks", asks), ("hears", hears), ("ends", ends)):
                (way.arrived[name],) = subscriber.wait_for(1, 60)
            way.spans.wait_for(f"receive {way.topic}")  # ends when the bridge is done
            yield gateway


def check(way: Way) -> None:
    """Every span of the way is where it belongs."""
    one = way.spans.one
    expected = {
        "receive default": "order",
        "deliver asks": "receive default",
        "deliver hears": "receive default",
        "reply default": "deliver asks",
        f"send {way.topic}": "reply default",
        f"receive {way.topic}": f"send {way.topic}",
        "deliver back": f"receive {way.topic}",
    }
    assert sorted(s.name for s in way.spans.all()) == sorted([*expected, "order"])
    assert {name: parent_of(one(name)) for name in expected} == {n: of_span(one(p)) for n, p in expected.items()}
    assert {of_span(s)[0] for s in way.spans.all()} == {way.client[0]}
    kinds = {"receive default": SpanKind.SERVER, "deliver hears": SpanKind.CLIENT, "reply default": SpanKind.PRODUCER}
    kinds |= {f"send {way.topic}": SpanKind.PRODUCER, f"receive {way.topic}": SpanKind.CONSUMER}
    assert {name: one(name).kind for name in kinds} == kinds
    for name in (f"send {way.topic}", f"receive {way.topic}"):
        attributes = one(name).attributes or {}
        assert attributes["messaging.system"] == "kafka"
        assert attributes["messaging.destination.name"] == way.topic
        assert attributes["cloudevents.event_id"] == "receipt-1"
    # in the headers each hop's own context, in the attribute the client's all along
    hops = {"asks": "deliver asks", "hears": "deliver hears", "ends": "deliver back"}
    assert {n: context_of(way.arrived[n].headers) for n in hops} == {n: of_span(one(s)) for n, s in hops.items()}
    assert {r.headers["ce-traceparent"] for r in way.arrived.values()} == {header_of(way.client)}


@pytest.mark.spec("BR-25", "DP-19", "DP-20", "CARD-02", "CARD-08")
def test_one_trace_to_kafka_and_back_in_memory_and_by_otlp(kafka: KafkaBroker, tmp_path: Path) -> None:
    with Subscriber(default=(200, {}, b"")) as collector:
        session = requests.Session()
        session.trust_env = False  # no proxy stands before a loopback address
        spans = Spans()
        exporter = OTLPSpanExporter(f"{collector.url}v1/traces", session=session)
        spans.provider.add_span_processor(BatchSpanProcessor(exporter))
        way = Way(spans, f"trace-{uuid4().hex[:8]}")
        with sent(kafka, tmp_path, way):
            pass
        check(way)
        spans.provider.shutdown()
        session.close()
        exported = list(wire_spans(collector.requests))
    assert {r.path for r in collector.requests} == {"/v1/traces"}
    assert {r.headers["content-type"] for r in collector.requests} == {"application/x-protobuf"}
    recorded = {(s.name, *of_span(s), parent_of(s) or (0, 0)) for s in spans.all()}
    assert {wire(s) for s in exported} == recorded
    (deliver,) = [s for s in exported if s.name == "deliver hears"]
    values = {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in deliver.attributes}
    wanted = {"messaging.operation.type": "send", "http.response.status_code": 202, "cloudevents.event_id": "order-1"}
    assert {name: values[name] for name in wanted} == wanted


@pytest.mark.full
@pytest.mark.spec("CARD-02", "CARD-03", "CARD-08")
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("own_spark")
def test_the_table_has_the_trace_of_each_of_its_events(kafka: KafkaBroker, tmp_path: Path) -> None:
    from pyarrow.dataset import dataset

    way = Way(Spans(), f"trace-{uuid4().hex[:8]}")
    table = tmp_path / "table"
    sink = {"spark": {"path": str(table), "trigger_interval_s": 0.1, "conf": QUICK}}
    more = f"table: {{start: earliest, subscriber: {sink}}}".replace("'", '"')
    with sent(kafka, tmp_path, way, more) as gateway:
        check(way)
        web.post(gateway.ingress(), headers={**ORDER, "ce-id": "order-2", "ce-type": "other"}, verify=False)

        def rows() -> int:
            (reader,) = [t.reader for t in gateway.status().triggers if t.name == "table"]
            return reader.rows if reader is not None else 0

        wait_until(lambda: rows() == 3, lambda: f"3 rows: {gateway.status().triggers}", 200)
    found = {row["id"]: row["trace_id"] for row in dataset(table, format="parquet").to_table().to_pylist()}
    ids = {s.name: f"{of_span(s)[0]:032x}" for s in way.spans.all()}
    assert {i: found[i] for i in ("order-1", "receipt-1")} == dict.fromkeys(("order-1", "receipt-1"), ids["order"])
    other = way.spans.named("receive default")[1]
    assert found["order-2"] == f"{of_span(other)[0]:032x}" != ids["order"]


CHANNEL = (
    OBSERVED
    + """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:0"}
    channel:
      kafka: {bootstrap: "BOOTSTRAP", topic: TOPIC, group_prefix: TOPIC, client: CLIENT}
triggers:
  all: {subscriber: "URL"}
"""
)


@pytest.mark.spec("BR-25", "CARD-02")
@pytest.mark.parametrize("client", CLIENTS)
def test_the_channel_kafka_keeps_the_trace_in_the_records_headers(
    kafka: KafkaBroker, tmp_path: Path, client: str
) -> None:
    spans, topic = Spans(), f"trace-{uuid4().hex[:8]}"
    with Subscriber() as s:
        text = CHANNEL.replace("BOOTSTRAP", kafka.bootstrap).replace("TOPIC", topic).replace("URL", s.url)
        with traced(text.replace("CLIENT", client), tmp_path, spans) as g:
            own = header_of((7, 7))
            headers = {"traceparent": header_of((8, 8)), "tracestate": "a=1", "ce-traceparent": own}
            assert web.post(g.ingress(), headers={**ORDER, **headers}, verify=False).status_code == 202
            (got,) = s.wait_for(1, 60)
            receive, deliver = spans.one("receive default"), spans.one("deliver all")
    (record,) = consume(kafka.bootstrap, topic, 1)
    assert dict(record.headers) == {
        **{n.replace("-", "_").encode(): v.encode() for n, v in ORDER.items()},
        b"traceparent": header_of(of_span(receive)).encode(),
        b"tracestate": b"a=1",
        b"ce_traceparent": own.encode(),
    }
    assert (parent_of(receive), parent_of(deliver)) == ((8, 8), of_span(receive))
    assert context_of(got.headers) == of_span(deliver)
    assert got.headers["ce-traceparent"] == own


def wire_spans(bodies: list[Received]) -> Iterator[WireSpan]:
    for request in bodies:
        message = ExportTraceServiceRequest.FromString(request.body)
        for resource in message.resource_spans:
            for scope in resource.scope_spans:
                yield from scope.spans


def wire(span: WireSpan) -> tuple[str, int, int, tuple[int, int]]:
    """Name, trace id, span id and parent."""
    trace, own, parent = (int.from_bytes(i) for i in (span.trace_id, span.span_id, span.parent_span_id))
    return span.name, trace, own, (trace, parent) if parent else (0, 0)
