"""The MQTT sink: what the server's answers and limits mean."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_dev.servers import Server
from gateway_testing.suites import Kit
from gateway_testing.suites.kit import until
from gateway_testing.suites.sink import Attempts, attempt, numbered, running
from paho.mqtt.client import MQTTv311

from gateway_core.contract.capabilities import Previewing
from gateway_core.contract.errors import StartError
from gateway_core.contract.event import Event
from gateway_core.contract.outcome import Stage
from tests.mqtt.publisher import Subscriber
from tests.mqtt.scripted import ScriptedServer
from tests.mqtt.sources import unique

pytestmark = pytest.mark.anyio


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        yield server


def options(server: ScriptedServer | Server, **more: Any) -> dict[str, Any]:
    return {"server": f"127.0.0.1:{server.port}", "topic": "events", **more}


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.spec("MQ-15")
async def test_reason_codes(kit: Kit, server: ScriptedServer, qos: int) -> None:
    expected = {
        0x00: (True, False),
        0x10: (True, False),  # no matching subscribers
        0x80: (False, True),
        0x83: (False, True),
        0x87: (False, False),  # not authorized
        0x90: (False, False),
        0x91: (False, True),
        0x95: (False, False),  # packet too large
        0x97: (False, True),  # quota exceeded
        0x99: (False, False),
    }
    async with running(kit.sink("mqtt", options(server, qos=qos))) as sink:
        for code, (delivered, retry) in expected.items():
            server.reason, server.said = code, b"because" if code >= 0x80 else b""
            outcome = await attempt(sink, numbered(1)[0])
            assert (outcome.delivered, outcome.retry) == (delivered, retry), hex(code)
            if not delivered:
                assert outcome.code == code
                assert f"0x{code:02X}: because" in outcome.reason


@pytest.mark.slow
@pytest.mark.spec("MQ-16")
async def test_no_more_in_flight_than_the_server_takes(kit: Kit) -> None:
    with ScriptedServer(struct.pack(">BH", 0x21, 5)) as server:
        server.hang()
        async with running(kit.sink("mqtt", options(server))) as sink:
            attempts = Attempts()
            for event in numbered(20):
                attempts.send(sink, event, 0.5)
            outcomes = await attempts.ended()
            assert server.most_open == 5
            assert not any(o.delivered for o in outcomes)
            assert all(o.retry for o in outcomes)


@pytest.mark.spec("MQ-16")
async def test_a_packet_that_is_too_large_for_the_server_is_not_sent(kit: Kit) -> None:
    with ScriptedServer(struct.pack(">BI", 0x27, 2000)) as server:
        async with running(kit.sink("mqtt", options(server))) as sink:
            base = numbered(1)[0].attributes
            outcome = await attempt(sink, Event(base, b"x" * 2000))
            assert (outcome.delivered, outcome.retry, outcome.code) == (False, False, 0x95)
            assert "2000" in outcome.reason
            assert (await attempt(sink, Event(base, b"x" * 1700))).delivered


@pytest.mark.parametrize(
    ("properties", "more", "said"),
    [
        (bytes([0x24, 1]), {"qos": 2}, "does not support this QoS"),
        (bytes([0x25, 0]), {"retain": True}, "set `retain: false`"),
    ],
)
@pytest.mark.spec("MQ-16")
async def test_what_the_server_can_not_do_stops_the_start(
    kit: Kit, properties: bytes, more: dict[str, Any], said: str
) -> None:
    with ScriptedServer(properties) as server:
        async with anyio.create_task_group() as tasks:
            sink = kit.sink("mqtt", options(server, **more))
            with pytest.raises(StartError, match=said):
                await sink.start(tasks)
            await sink.stop()


@pytest.mark.parametrize(("code", "said"), [(0x86, "bad user name or password"), (0x87, "not authorized")])
@pytest.mark.spec("MQ-17")
async def test_rejected_credentials_stop_the_start(kit: Kit, code: int, said: str) -> None:
    with ScriptedServer(connack=code) as server:
        async with anyio.create_task_group() as tasks:
            sink = kit.sink("mqtt", options(server, username="u", password="hidden-word"))
            with pytest.raises(StartError, match=said) as raised:
                await sink.start(tasks)
            assert "hidden-word" not in str(raised.value)
            await sink.stop()


@pytest.mark.slow
async def test_a_server_that_is_busy_is_tried_again(kit: Kit) -> None:
    with ScriptedServer(connack=0x89) as server:
        async with running(kit.sink("mqtt", options(server))) as sink:
            outcome = await attempt(sink, numbered(1)[0], 0.3)
            assert (outcome.delivered, outcome.retry) == (False, True)
            assert "server busy" in outcome.reason


@pytest.mark.spec("MQ-19")
async def test_topics_from_attributes(kit: Kit, server: ScriptedServer) -> None:
    sink = kit.sink("mqtt", options(server, topic="events/{type}/{subject}"))
    assert isinstance(sink, Previewing)
    async with running(sink):
        event = Event({**numbered(1)[0].attributes, "subject": "a/b+#$\u00fc"})
        assert (await attempt(sink, event)).delivered
        assert server.published[0].topic == "events/t/a_b___\u00fc"
        assert sink.preview(event).url.endswith("/events/t/a_b___\u00fc")
        outcome = await attempt(sink, numbered(1)[0])
        assert (outcome.delivered, outcome.retry, outcome.stage) == (False, False, Stage.ENCODE)


async def test_what_mqtt_can_not_carry_is_refused_and_disturbs_nothing(kit: Kit, server: ScriptedServer) -> None:
    async with running(kit.sink("mqtt", options(server))) as sink:
        for value in ("a\x01b", "x" * 70_000):
            event = Event({**numbered(1)[0].attributes, "note": value})
            outcome = await attempt(sink, event)
            assert (outcome.delivered, outcome.retry, outcome.stage) == (False, False, Stage.ENCODE)
        assert (await attempt(sink, numbered(1)[0])).delivered


@pytest.mark.spec("MQ-01", "MQ-13")
async def test_retain_and_expiry(kit: Kit, mqtt_server: Server) -> None:
    topic = f"sink/{unique(kit.folder)}"
    async with running(kit.sink("mqtt", options(mqtt_server, topic=topic, retain=True, expiry_s=600))) as sink:
        assert (await attempt(sink, numbered(1)[0])).delivered
    with Subscriber(mqtt_server.port, topic) as late:
        await until(lambda: len(late.messages) == 1, "the retained message")
        (found,) = late.messages
        properties: Any = found.properties
        assert found.retain
        assert 0 < properties.MessageExpiryInterval <= 600
        assert properties.ContentType == "text/plain"
        assert ("id", "n0") in properties.UserProperty


@pytest.mark.spec("MQ-03")
async def test_3_1_1_is_structured(kit: Kit, mqtt_server: Server) -> None:
    topic = f"sink/{unique(kit.folder)}"
    with Subscriber(mqtt_server.port, topic, MQTTv311) as heard:
        async with running(kit.sink("mqtt", options(mqtt_server, topic=topic, version="3.1.1"))) as sink:
            assert (await attempt(sink, numbered(1)[0])).delivered
        await until(lambda: len(heard.messages) == 1, "the message")
    assert b'"specversion":"1.0"' in heard.messages[0].payload


@pytest.mark.spec("MQ-21")
async def test_the_trace_of_an_attempt_travels_in_user_properties(tmp_path: Path, server: ScriptedServer) -> None:
    from gateway_core.config.registry import Registry
    from gateway_core.contract.clock import SystemClock
    from gateway_core.contract.component import BuildContext, SinkRef

    context = BuildContext("test.sink", tmp_path, SystemClock(), Registry.installed(), broker="b", traces=True)
    sink = context.registry.build(SinkRef("mqtt", options(server)), context)
    hop = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with running(sink):
        event = numbered(1)[0].with_trace(f"{hop} a=1")
        assert (await attempt(sink, event)).delivered
        assert ("traceparent", hop) in server.published[0].user
        assert ("tracestate", "a=1") in server.published[0].user
        own = event.with_attributes(traceparent="00-1-2-01")
        assert (await attempt(sink, own)).delivered
        assert str(server.published[1].content_type).startswith("application/cloudevents+json")


async def test_qos_0_is_delivered_when_it_is_sent(kit: Kit, server: ScriptedServer) -> None:
    async with running(kit.sink("mqtt", options(server, qos=0))) as sink:
        attempts = Attempts()
        for event in numbered(50):
            attempts.send(sink, event)
        assert all(o.delivered for o in await attempts.ended())
        await until(lambda: len(server.published) == 50, "the messages")
