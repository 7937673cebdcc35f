"""Two clients with one client id throw each other out: the status says so, and the log does not fill."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from gateway_dev.servers import Server
from gateway_mqtt.rivals import STEADY_S
from gateway_mqtt.source import MqttSource
from gateway_testing.clock import FakeClock
from gateway_testing.suites.kit import until

from gateway_core.contract.clock import Clock
from tests.mqtt.frames import CONNACK, SUBACK, packet
from tests.mqtt.scripted import ScriptedServer
from tests.mqtt.sources import build, running, unique

pytestmark = [pytest.mark.anyio, pytest.mark.spec("MQ-25")]


def source(folder: Path, port: int, client_id: str, clock: Clock | None = None, **options: Any) -> MqttSource:
    folder.mkdir(exist_ok=True)
    options = {"server": f"127.0.0.1:{port}", "topic": client_id, "client_id": client_id, **options}
    return build(folder, options, clock=clock)


def error(source: MqttSource) -> str:
    return str(source.info()["error"] or "")


@pytest.mark.parametrize("version", ["5", "3.1.1"])
async def test_both_gateways_say_that_another_client_has_the_name(
    tmp_path: Path, mqtt_server: Server, caplog: pytest.LogCaptureFixture, version: str
) -> None:
    name, clock = unique(tmp_path), FakeClock()
    mine = source(tmp_path / "mine", mqtt_server.port, name, clock, version=version)
    other = source(tmp_path / "other", mqtt_server.port, name, version=version)
    with caplog.at_level(logging.INFO, "tidegate"):
        async with running(mine):
            async with running(other):
                for one in (mine, other):
                    await until(lambda one=one: f"the client id {name}" in error(one), "the reason")
                told = len(caplog.records)
                losses = mine.info()["losses"]
                await until(lambda: mine.info()["losses"] > losses + 2, "more of the same")
                assert f"the client id {name}" in error(mine), "it is connected now and then"
                assert len([r for r in caplog.records[told:] if r.levelno >= logging.WARNING]) <= 2
            await until(lambda: "session" in mine.info(), "the connection")
            assert f"the client id {name}" in error(mine), "the other may be back at once"
            clock.advance(STEADY_S)
            assert error(mine) == ""


async def test_one_close_without_a_word_blames_nobody(tmp_path: Path) -> None:
    with ScriptedServer() as server:
        server.answers = {1: packet(CONNACK, b"\0\0"), 8: packet(SUBACK, b"\0\1\1")}
        mine = source(tmp_path / "mine", server.port, "mine", version="3.1.1")
        async with running(mine):
            await until(lambda: error(mine) == "", "the connection")
            server.leave()
            await until(lambda: mine.info()["losses"] == 1 and "session" not in mine.info(), "the loss")
            assert "client id" not in error(mine)
            server.take()
            await until(lambda: "session" in mine.info(), "the connection again")
            assert error(mine) == ""
