"""The codec for bindings that no shipped transport has yet: what they say is all that the codec knows of them."""

from __future__ import annotations

from typing import Any

import pytest
from gateway_cloudevents.bindings import HTTP, KAFKA
from gateway_testing.suites import CodecSuite, Kit
from gateway_transport.trace_headers import headers, of_headers

from gateway_core.contract.component import Binding
from gateway_core.contract.errors import Refused, StartError
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Codec

SECTIONS = {"mode": "3", "attributes": "3.1.3", "structured": "3.2"}
MQTT = Binding("mqtt", b"", False, "MQTT binding 1.0.2", SECTIONS)
MQTT_WITHOUT_TRACE = Binding("mqtt", b"", False, "MQTT binding 1.0.2", SECTIONS, trace=None)
NATS = Binding("nats", b"ce-", True, "NATS binding 1.0.2", SECTIONS)
AMQP = Binding("amqp", b"cloudEvents_", False, "AMQP binding 1.0.2", SECTIONS)
GOOD = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
OWN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
HOP = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
STRUCTURED = b"application/cloudevents+json"
MARK = pytest.mark.spec("SAFE-33")


@MARK
class TestMqtt(CodecSuite):
    binding = MQTT_WITHOUT_TRACE
    modes = ("binary", "structured")

    def build(self, kit: Kit) -> Codec:
        return kit.codec("cloudevents", binding=self.binding)


@MARK
class TestNats(TestMqtt):
    binding = NATS


@MARK
class TestAmqp(TestMqtt):
    binding = AMQP


@MARK
@pytest.mark.parametrize(
    ("binding", "rule"),
    [
        (HTTP, "CloudEvents HTTP binding 1.0.2, section 3.1.3"),
        (KAFKA, "CloudEvents Kafka binding 1.0.3, section 3.2.3"),
        (MQTT, "CloudEvents MQTT binding 1.0.2, section 3.1.3"),
        (NATS, "CloudEvents NATS binding 1.0.2, section 3.1.3"),
        (AMQP, "CloudEvents AMQP binding 1.0.2, section 3.1.3"),
        (Binding("carrier-pigeon", b"ce-", False), "CloudEvents carrier-pigeon binding"),
    ],
)
def test_a_refusal_cites_the_transports_own_specification(make_codec: Any, binding: Binding, rule: str) -> None:
    codec = make_codec("binary", binding)
    name = binding.prefix + b"type"
    with pytest.raises(Refused) as caught:
        codec.decode(Message([(name, b"a"), (name, b"b")], b""))
    assert (caught.value.rule, caught.value.attribute) == (rule, "type")
    if not binding.answers:
        with pytest.raises(Refused) as caught:
            codec.decode(Message([(b"content-type", STRUCTURED)], None))
        assert caught.value.rule.startswith(rule.partition(",")[0])


@MARK
def test_the_hops_trace_context_never_mixes_with_the_events_own(make_codec: Any) -> None:
    """Without a prefix both would be the header `traceparent`."""
    event = Event({**GOOD, "traceparent": OWN}, b"x", trace=HOP)
    codec = make_codec("binary", MQTT)
    written = codec.encode(event)
    written.headers = [*written.headers, *headers(HOP, MQTT.trace)]
    assert [n for n, _ in written.headers].count(b"traceparent") == 1
    assert of_headers(written.headers, MQTT.trace) == HOP
    assert codec.decode(written) == [event]
    assert dict(written.headers)[b"content-type"].startswith(STRUCTURED)
    (read,) = codec.decode(Message([*codec.encode(Event(GOOD, b"x")).headers, *headers(HOP, MQTT.trace)], b"x"))
    assert read.attributes == GOOD, "the hop's context is no attribute"


@MARK
def test_a_binding_may_leave_the_hops_context_out(make_codec: Any) -> None:
    event = Event({**GOOD, "traceparent": OWN}, b"x", trace=HOP)
    codec = make_codec("binary", MQTT_WITHOUT_TRACE)
    written = codec.encode(event)
    assert headers(HOP, MQTT_WITHOUT_TRACE.trace) == []
    assert dict(written.headers)[b"traceparent"] == OWN.encode()
    assert of_headers(written.headers, MQTT_WITHOUT_TRACE.trace) is None
    assert codec.decode(written) == [event]


@MARK
def test_with_a_prefix_both_travel_side_by_side(make_codec: Any) -> None:
    event = Event({**GOOD, "traceparent": OWN}, b"x", trace=HOP)
    for binding in (HTTP, KAFKA, NATS, AMQP):
        codec = make_codec("binary", binding)
        written = codec.encode(event)
        written.headers = [*written.headers, *headers(HOP, binding.trace)]
        assert dict(written.headers)[binding.prefix + b"traceparent"] == OWN.encode()
        assert of_headers(written.headers, binding.trace) == HOP
        assert codec.decode(written) == [event]


@MARK
def test_names_that_are_the_transports_own_are_no_attributes(make_codec: Any) -> None:
    binding = Binding("x", b"", False, reserved=frozenset({b"topic"}))
    codec = make_codec("binary", binding)
    base = [(n.encode(), v.encode()) for n, v in GOOD.items()]
    (read,) = codec.decode(Message([*base, (b"topic", b"/a/b")], b""))
    assert read.attributes == GOOD
    event = Event({**GOOD, "topic": "mine"}, b"x")
    written = codec.encode(event)
    assert (b"topic", b"mine") not in written.headers
    assert codec.decode(written) == [event]


@MARK
def test_names_of_attributes_have_their_case_where_headers_have(make_codec: Any) -> None:
    codec = make_codec("binary", AMQP)
    written = codec.encode(Event(GOOD, b""))
    assert (b"cloudEvents_id", b"1") in written.headers
    (read,) = codec.decode(Message([*written.headers, (b"CLOUDEVENTS_ID", b"2")], b""))
    assert read.attributes["id"] == "1", "the exact name wins"


def test_a_transport_that_names_no_binding_can_have_no_codec(make_codec: Any) -> None:
    with pytest.raises(StartError, match="test: its transport does not say how it carries events"):
        make_codec("binary", None)
