"""A gateway with bridges of every kind between HTTP and Kafka, for the tests of the Kafka binding."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
from gateway_testing import GatewayProcess, Subscriber
from gateway_testing.subscriber import Received

from tests import web
from tests.kafka_broker import producer
from tests.kafka_console import Follower, RawRecord

OUT = f"out-{uuid.uuid4().hex[:8]}"
ONE = "application/cloudevents+json"
MANY = "application/cloudevents-batch+json"
REQUIRED = {"specversion": "1.0", "source": "/s", "type": "t"}
ALL_BYTES = bytes(range(256))

# HTTP to Kafka by path, Kafka to Kafka and to HTTP by the attribute `route`; records without an event by their topic
TO_KAFKA = {
    "binary": "codec: {cloudevents: {mode: binary}}",
    "structured": "codec: {cloudevents: {mode: structured}}",
    "both": "codec: {cloudevents: {mode: structured, attribute_headers: true}}",
    "partitionkey": "key: partitionkey",
    "jsonpath": "key: {jsonpath: {path: $.customer.id, required: true}}",
}
COPIES = {
    "copy": "codec: cloudevents",
    "restructure": "codec: {cloudevents: {mode: structured}}",
    "rekey": "key: partitionkey",
    "unkey": "key: none",
}


def bridges(client: str, bootstrap: str, url: str) -> str:
    at = f"bootstrap: '{bootstrap}', client: {client}"

    def sink(options: str) -> str:
        return f"{{kafka: {{{at}, topic: {OUT}, {options}}}}}"

    def source(name: str, topic: str, more: str = "") -> str:
        return f"{{kafka: {{{at}, topic: {topic}-{OUT}-{client}, group: {name}-{client}, start: earliest{more}}}}}"

    def http(path: str) -> str:
        return f"{{http: {{url: '{url}{path}', codec: {{cloudevents: {{mode: structured}}}}}}}}"

    lines = ["bridges:"]
    for name, options in TO_KAFKA.items():
        lines.append(f"  {name}: {{source: {{http: {{listen: '127.0.0.1:0', path: /}}}}, sink: {sink(options)}}}")
    for name, to in {**{n: sink(o) for n, o in COPIES.items()}, "tohttp": http("events")}.items():
        wanted = f"filters: [exact: {{route: {name}}}]"
        lines.append(f"  {name}: {{source: {source(name, 'in')}, sink: {to}, {wanted}}}")
    for what in ("wrap", "drop", "dead_letter"):
        odd = source(what, "odd", f", not_an_event: {what}, wrap_type: com.example.raw")
        lines.append(f"  {what}: {{source: {odd}, sink: {http(what)}, dead_letter: {http('letters')}}}")
    return "\n".join(lines)


class Lab:
    """A gateway, what its subscriber got, what it wrote, and a producer that knows nothing of events."""

    def __init__(
        self, client: str, gateway: GatewayProcess, subscriber: Subscriber, written: Follower, at: str
    ) -> None:
        self.client = client
        self.gateway = gateway
        self._subscriber = subscriber
        self._written = written
        self._producer = producer(at)
        self._ids = 0

    def id(self) -> str:
        self._ids += 1
        return f"{self.client}-{self._ids}"

    def post(self, bridge: str, headers: Mapping[str, str], body: bytes = b"") -> httpx.Response:
        return web.post(self.gateway.ingress(bridge), headers=headers, content=body, timeout=60, verify=False)

    def post_binary(self, bridge: str, body: bytes = b"", **attributes: str) -> str:
        """Posts an event in binary mode; its id. `content_type` is a header of its own."""
        id = self.id()
        headers = {f"ce-{n}": v for n, v in {**REQUIRED, "id": id, **attributes}.items() if n != "content_type"}
        if "content_type" in attributes:
            headers["content-type"] = attributes["content_type"]
        assert self.post(bridge, headers, body).status_code == 202
        return id

    def put(
        self,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes]] = (),
        key: bytes | None = None,
        topic: str = "in",
        **attributes: str,
    ) -> str:
        """Writes a record, with the headers of an event where attributes are given; the event's id."""
        id = self.id()
        if attributes:
            own = {**REQUIRED, "id": id, **attributes}
            headers = [*headers, *((f"ce_{n}", v.encode()) for n, v in own.items())]
        faults: list[object] = []
        self._producer.produce(
            f"{topic}-{OUT}-{self.client}", value, key, headers=list(headers), on_delivery=lambda e, _: faults.append(e)
        )
        assert self._producer.flush(30) == 0
        assert faults == [None]
        return id

    def structured(self, value: Mapping[str, Any], content_type: str = ONE, key: bytes | None = None) -> str:
        """Writes a record in structured mode; the event's id."""
        id = self.id()
        event = json.dumps({**REQUIRED, "id": id, **value}).encode()
        self.put(event, [("content-type", content_type.encode())], key)
        return id

    def record(self, id: str) -> RawRecord:
        """The record that the gateway wrote for this event."""
        (found,) = self._written.wait_for(lambda record: id_of(record) == id)
        return found

    def records(self, ids: Sequence[str]) -> list[RawRecord]:
        """The records of these events, in the order of `ids`."""
        found = self._written.wait_for(lambda record: id_of(record) in ids, len(ids))
        return sorted(found, key=lambda record: ids.index(id_of(record)))

    def requests(self, path: str, count: int = 1, **attributes: str) -> list[dict[str, Any]]:
        """The events that came to this path of the subscriber and have these attributes, once there are so many."""
        found: list[dict[str, Any]] = []

        def come() -> bool:
            got: list[Received] = [r for r in list(self._subscriber.requests) if r.path == f"/{path}"]
            found[:] = [e for e in (json.loads(r.body) for r in got) if attributes.items() <= e.items()]
            return len(found) >= count

        self.gateway.wait_until(come, 60, f"{count} events at {path} with {attributes}")
        return found

    def event(self, id: str) -> dict[str, Any]:
        """The event that went from Kafka to HTTP, in structured mode."""
        (found,) = self.requests("events", id=id)
        return found

    def bridge(self, name: str) -> dict[str, Any]:
        (found,) = [b for b in self.gateway.status()["bridges"] if b["name"] == name]
        return dict(found)


def id_of(record: RawRecord) -> str:
    headers = dict(record.headers)
    if b"ce_id" in headers:
        return (headers[b"ce_id"] or b"").decode()
    return str(json.loads(record.value or b"{}").get("id", ""))


def headers_of(record: RawRecord) -> dict[str, str | None]:
    """All headers as text; fails where a name is there twice."""
    assert len({name for name, _ in record.headers}) == len(record.headers)
    return {name.decode(): None if value is None else value.decode() for name, value in record.headers}
