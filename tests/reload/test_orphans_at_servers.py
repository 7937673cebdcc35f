"""`tidegate orphans` removes names where they are: at the server."""

from __future__ import annotations

import json
import time
from pathlib import Path

import anyio
import pytest
from gateway_dev.servers import Server
from gateway_java.kafka import KafkaBroker
from gateway_mqtt.client import MqttClient
from gateway_mqtt.config import MqttSourceConfig
from gateway_testing import GatewayProcess

from tests.command_line import tidegate
from tests.reload import matrix
from tests.reload.matrix import Shape

pytestmark = pytest.mark.spec("SAFE-73", "SAFE-232")
LATE = 3


def removed(transport: matrix.Transport, folder: Path, word: str) -> set[str]:
    """The broker is renamed, and stream `a` is read no more: what the command removes then."""
    run = matrix.Run(transport, folder, word)
    transport.prepare(matrix.STREAMS)
    with GatewayProcess(Shape(("b", "a")).text(transport, word), folder, {"TIDEGATE_RELOAD": "signal"}) as gateway:
        matrix.ready(run, gateway, "a", "b")
        run.change(gateway, Shape(("b",), broker="two"))
        words = ("orphans", gateway.config, "--data-dir", gateway.data_dir)
        there = transport.names()
        run.unnamed()
        listed = {name for name in run.names if name in tidegate(*words).stdout}
        assert gateway.stop() == 0
    end = time.monotonic() + 60
    while '"used_by": "consumer' in tidegate(*words, "--json").stdout and time.monotonic() < end:
        time.sleep(0.2)  # Redis tells only when a consumer read last
    transport.send("a", [f"late-{n}" for n in range(LATE)])
    if not isinstance(transport, matrix.Mqtt):  # its servers don't tell
        told = tidegate(*words, "--json")
        waiting = [entry["waiting"] for entry in json.loads(told.stdout)["orphans"] if entry["name"] in listed]
        assert max(count or 0 for count in waiting) == LATE, told.stdout
        for drop in ((), ("--drop", LATE - 1)):
            refused = tidegate(*words, "--remove-all", "--yes", *drop)
            assert (refused.returncode, f"{LATE} events wait there" in refused.stdout) == (1, True), refused.stdout
        assert f"--drop {LATE}" in refused.stdout
    done = tidegate(*words, "--remove-all", "--yes", "--drop", LATE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert tidegate(*words).stdout == "no orphans\n"
    assert transport.names() <= there
    assert not transport.names() & listed
    return listed


def test_nats(processes: None, tmp_path: Path, nats_server: Server) -> None:
    word = matrix.word_of(tmp_path)
    transport = matrix.Nats(word, nats_server.port)
    gone = removed(transport, tmp_path, word)
    assert {f"{word}_{stream}/tidegate_{word}-one" for stream in "ab"} <= gone


def test_redis(processes: None, tmp_path: Path, redis_server: Server) -> None:
    word = matrix.word_of(tmp_path)
    transport = matrix.Redis(word, redis_server.port)
    transport.send("c", ["0"])  # the stream exists
    gone = removed(transport, tmp_path, word)
    assert {f"{word}-{stream}/tidegate.{word}-one" for stream in "ab"} <= gone


def test_mqtt(processes: None, tmp_path: Path, mqtt_server: Server) -> None:
    word = matrix.word_of(tmp_path)
    transport = matrix.Mqtt(word, mqtt_server.port)
    (gone,) = [name for name in removed(transport, tmp_path, word) if name.startswith("tidegate-")]
    options = MqttSourceConfig.model_validate(transport.source("a")["mqtt"])

    async def session() -> bool:
        client = MqttClient(options, gone, clean=False)
        await client.open(None)
        try:
            return client.limits.session_present
        finally:
            await client.close()

    assert anyio.run(session) is False


@pytest.mark.full
def test_rabbitmq(processes: None, tmp_path: Path, rabbitmq_server: Server) -> None:
    word = matrix.word_of(tmp_path)
    assert f"{word}-a" in removed(matrix.Rabbit(word, rabbitmq_server), tmp_path, word)


@pytest.mark.full
def test_kafka(processes: None, tmp_path: Path, kafka: KafkaBroker) -> None:
    word = matrix.word_of(tmp_path)
    assert f"tidegate.{word}-one" in removed(matrix.Kafka(word, kafka), tmp_path, word)
