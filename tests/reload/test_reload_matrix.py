"""The reload matrix: each kind of change under load, for each transport, with the names of the default config."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from gateway_dev.servers import Server
from gateway_java.kafka import KafkaBroker

from tests.reload import matrix

pytestmark = pytest.mark.spec("SAFE-74")


def test_mqtt(processes: None, tmp_path: Path, mqtt_server: Server) -> None:
    word = matrix.word_of(tmp_path)
    matrix.every_kind(matrix.Mqtt(word, mqtt_server.port), tmp_path, word)


def test_nats(processes: None, tmp_path: Path, nats_server: Server) -> None:
    word = matrix.word_of(tmp_path)
    matrix.every_kind(matrix.Nats(word, nats_server.port), tmp_path, word)


@pytest.mark.full
def test_redis(processes: None, tmp_path: Path, redis_server: Server) -> None:
    word = matrix.word_of(tmp_path)
    matrix.every_kind(matrix.Redis(word, redis_server.port), tmp_path, word)


@pytest.mark.full
def test_rabbitmq(processes: None, tmp_path: Path, rabbitmq_server: Server) -> None:
    word = matrix.word_of(tmp_path)
    matrix.every_kind(matrix.Rabbit(word, rabbitmq_server), tmp_path, word)


@pytest.mark.full
def test_kafka(processes: None, tmp_path: Path, kafka: KafkaBroker) -> None:
    word = matrix.word_of(tmp_path)
    matrix.every_kind(matrix.Kafka(word, kafka), tmp_path, word)


RELOADS, KILLS = 100, 20


@pytest.mark.full
@pytest.mark.parametrize("name", ["mqtt", "nats"])
def test_a_hundred_random_reloads_and_twenty_kills(
    processes: None, tmp_path: Path, name: str, mqtt_server: Server, nats_server: Server
) -> None:
    word = matrix.word_of(tmp_path)
    transport = matrix.Mqtt(word, mqtt_server.port) if name == "mqtt" else matrix.Nats(word, nats_server.port)
    seed = int(os.environ.get("MATRIX_SEED", "70"))
    run = matrix.at_random(transport, tmp_path, word, RELOADS, KILLS, seed)
    assert (run.reloads >= RELOADS, run.kills) == (True, KILLS)
    print(f"{name}: {run.reloads} reloads, {run.kills} kills, {len(run.sent)} acknowledged, 0 lost")
