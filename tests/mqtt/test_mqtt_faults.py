"""Servers that break the rules of MQTT, and texts that servers break the connection for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_dev.servers import Server
from gateway_mqtt.binding import Publish
from gateway_mqtt.client import MqttClient
from gateway_mqtt.config import MqttSinkConfig
from gateway_mqtt.server_config import MqttConfig
from gateway_testing.suites import Kit
from gateway_testing.suites.kit import until
from gateway_testing.suites.sink import attempt, numbered, running
from pydantic import ValidationError

from tests.mqtt.frames import CONNACK, DISCONNECT, PUBACK, PUBLISH, SUBACK, packet
from tests.mqtt.scripted import ScriptedServer
from tests.mqtt.sources import build
from tests.mqtt.sources import running as receiving

pytestmark = pytest.mark.anyio

TAKEN = packet(CONNACK, b"\0\0\0")
EVENT = b"\0\1t\0\1\0{}"


@pytest.mark.parametrize("version", ["5", "3.1.1"])
@pytest.mark.parametrize("subject", ["\ufffe", "a\uffff", "\U0001fffe", "\ufdd0"])
@pytest.mark.spec("MQ-04")
async def test_a_code_point_that_is_no_character_does_not_break_the_connection(
    tmp_path: Path, mqtt_server: Server, subject: str, version: str
) -> None:
    options = {"server": f"127.0.0.1:{mqtt_server.port}", "topic": "odd/{subject}", "version": version}
    async with running(Kit(tmp_path).sink("mqtt", options)) as sink:
        (event,) = numbered(1)
        event.attributes["subject"] = subject
        found = await attempt(sink, event)
        assert found.delivered == (version == "3.1.1")  # there the subject is in the payload
        assert not found.retry
        assert sum(sink.metrics().values()) == 0  # type: ignore[attr-defined]


class Rude(ScriptedServer):
    """Answers CONNECT and SUBSCRIBE with these bytes."""

    def __init__(
        self, taken: bytes = TAKEN, subscribed: bytes = packet(SUBACK, b"\0\1\0\1"), then: bytes = b""
    ) -> None:
        super().__init__()
        self.answers = {1: taken, 8: subscribed + then}


@pytest.mark.parametrize(
    "rude",
    [
        {"taken": packet(PUBLISH, EVENT, 2) + TAKEN},
        {"then": packet(PUBLISH, EVENT, 6)},  # QoS 3
        {"then": packet(PUBLISH, b"\0\0\0\1\3\x23\0\1{}", 2)},  # a topic alias that nobody allowed
        {"subscribed": packet(SUBACK, b"\0\1\0")},
    ],
    ids=["PUBLISH before CONNACK", "QoS 3", "topic alias", "SUBACK without codes"],
)
@pytest.mark.spec("MQ-12")
async def test_a_server_that_breaks_the_rules_is_left(tmp_path: Path, rude: dict[str, bytes]) -> None:
    with Rude(**rude) as server:
        source = build(tmp_path, {"server": f"127.0.0.1:{server.port}", "topic": "t", "not_an_event": "wrap"})
        async with receiving(source) as intake:
            await until(lambda: "not connected" not in str(source.info()["error"] or "not connected"), "the error")
        assert intake.events == []


@pytest.mark.spec("MQ-12")
async def test_a_disconnect_right_after_connack_is_told(tmp_path: Path) -> None:
    with Rude(taken=TAKEN + packet(DISCONNECT, b"\x8e\0")) as server:
        source = build(tmp_path, {"server": f"127.0.0.1:{server.port}", "topic": "t"})
        async with receiving(source):
            await until(lambda: "another client" in str(source.info()["error"]), "the reason")


@pytest.mark.spec("MQ-04", "MQ-18")
async def test_the_name_of_a_user_property_that_is_not_utf_8_holds_up_nothing(tmp_path: Path) -> None:
    odd = b"\0\1t\0\1\x09\x26\0\2\xff\xfe\0\2ab{}"
    with Rude(then=packet(PUBLISH, odd, 2) + packet(PUBLISH, EVENT, 2)) as server:
        source = build(tmp_path, {"server": f"127.0.0.1:{server.port}", "topic": "t", "not_an_event": "wrap"})
        async with receiving(source) as intake:
            await until(lambda: len(intake.events) == 2, "both messages")


@pytest.mark.parametrize("options", [{"password": "x" * 65_536}, {"username": "\u00e9" * 40_000}])
def test_credentials_that_are_too_long(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        MqttSinkConfig.model_validate({"topic": "t", "username": "u", **options})


@pytest.mark.parametrize("host", ["a..b", "x" * 70])
@pytest.mark.spec("MQ-17")
def test_check_connect_names_a_host_that_can_be_none(host: str) -> None:
    with pytest.raises(OSError, match="is no host name"):
        MqttSinkConfig.model_validate({"topic": "t", "server": host}).connect(10)


@pytest.mark.spec("MQ-09")
async def test_a_session_is_not_empty_while_the_server_has_more_for_it() -> None:
    messages: list[Publish] = []
    emptied: list[int] = []
    with Rude(taken=TAKEN + packet(PUBLISH, EVENT, 2)) as server:
        server.answers[PUBACK] = packet(PUBLISH, b"\0\1t\0\2\0{}", 2)
        config = MqttConfig(server=f"127.0.0.1:{server.port}")
        client = MqttClient(config, "former", clean=False, received=messages.append)
        try:
            await client.open(None)

            async def empty() -> None:
                await client.emptied(0)
                emptied.append(len(messages))

            async with anyio.create_task_group() as tasks:
                await until(lambda: len(messages) == 1, "the first message")
                tasks.start_soon(empty)
                client.settled(messages[0])
                await until(lambda: len(messages) == 2, "what the server sends then")
                assert emptied == []
                server.answers.clear()
                client.settled(messages[1])
        finally:
            await client.close()
    assert emptied == [2]
