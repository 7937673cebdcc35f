"""The options of the MQTT transport, and what `check` says about them."""

from __future__ import annotations

from typing import Any

import pytest
from gateway_mqtt.binding import Malformed, Properties, Publish, properties, variable
from gateway_mqtt.config import MqttSinkConfig, MqttSourceConfig
from gateway_testing.suites import Kit
from pydantic import ValidationError

from gateway_core.contract.event import Message


def source(**options: Any) -> MqttSourceConfig:
    return MqttSourceConfig.model_validate({"topic": "t", **options})


def test_a_url_names_server_and_topic() -> None:
    found = MqttSourceConfig.model_validate({"url": "mqtts://[::1]/house/+/temp/#"})
    assert (found.host_and_port, found.topics, found.url) == (("::1", 8883), ["house/+/temp/#"], "mqtts://[::1]:8883")
    sink = MqttSinkConfig.model_validate({"url": "mqtt://broker:1884/events/{type}"})
    assert (sink.host_and_port, sink.topic) == (("broker", 1884), "events/{type}")
    for url in ("mqtt://broker", "mqtt://user:word@broker/t", "http://broker/t"):
        with pytest.raises(ValidationError):
            MqttSinkConfig.model_validate({"url": url})


@pytest.mark.parametrize("topic", ["", "a#", "#/a", "a/+b", "$share/g/t", "a\nb", []])
def test_filters_that_are_none(topic: Any) -> None:
    with pytest.raises(ValidationError):
        source(topic=topic)


@pytest.mark.parametrize("topic", ["", "a/#", "+", "$SYS/a", "{Type}", "a\x00"])
def test_topics_that_nothing_can_be_published_to(topic: str) -> None:
    with pytest.raises(ValidationError):
        MqttSinkConfig.model_validate({"topic": topic})


@pytest.mark.parametrize(
    "options",
    [
        {"group": "g"},
        {"retained": "new"},
        {"codec": {"cloudevents": {"mode": "binary"}}},
        {"will": {"topic": "w", "delay_s": 5}},
        {"password": "word"},
    ],
)
@pytest.mark.spec("MQ-03")
def test_what_3_1_1_does_not_have(options: dict[str, Any]) -> None:
    source(version="3.1.1")
    source(version=5)
    with pytest.raises(ValidationError):
        source(version="3.1.1", **options)


@pytest.mark.spec("MQ-07")
def test_at_most_once_is_a_warning() -> None:
    (warning,) = source(qos=0).warnings()
    assert "at most once" in warning[1]
    assert list(source().warnings()) == []
    assert len(list(source(session_expiry_s=0).warnings())) == 1
    assert len(list(MqttSinkConfig.model_validate({"topic": "t", "qos": 0}).warnings())) == 1
    assert list(MqttSinkConfig.model_validate({"topic": "t"}).warnings()) == []


def test_an_offline_source_reads_a_message(tmp_path: Any) -> None:
    found = Kit(tmp_path).source("mqtt", {"topic": "t"})
    document = b'{"specversion":"1.0","id":"1","source":"/s","type":"t"}'
    (event,) = found.read(Message([], document))  # type: ignore[attr-defined]
    assert event.attributes["id"] == "1"


# -- packets ----------------------------------------------------------------------------------------------------------


def body(topic: bytes, packed: Properties, payload: bytes, mid: int = 7) -> bytes:
    return len(topic).to_bytes(2, "big") + topic + mid.to_bytes(2, "big") + packed.pack() + payload


@pytest.mark.spec("MQ-01")
def test_a_packet_is_read_as_it_was_written() -> None:
    headers = [(b"id", b"1"), (b"content-type", b"text/plain"), (b"x-y", b"no attribute"), (b"note", "ü".encode())]
    found = Publish(0x33, body(b"a/b", properties(Message(headers, b""), 60), b"data"), True)
    assert (found.topic, found.qos, found.retain, found.mid, found.payload) == ("a/b", 1, True, 7, b"data")
    assert sorted(found.headers) == sorted(header for header in headers if header[0] != b"x-y")
    assert found.other == [(b"x-y", b"no attribute")]


@pytest.mark.spec("MQ-04")
def test_a_broken_packet_is_malformed_and_nothing_else() -> None:
    whole = body(b"topic", properties(Message([(b"id", b"1"), (b"content-type", b"text/plain")], b"")), b"")
    for end in range(len(whole)):
        with pytest.raises(Malformed):
            Publish(0x32, whole[:end], True)
    for at in range(len(whole)):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            try:
                Publish(0x32, whole[:at] + bytes([value]) + whole[at + 1 :], True)
            except Malformed:
                continue


def test_variable_byte_integers() -> None:
    for value, encoded in [(0, "00"), (127, "7f"), (128, "8001"), (16_383, "ff7f"), (268_435_455, "ffffff7f")]:
        assert variable(value).hex() == encoded
