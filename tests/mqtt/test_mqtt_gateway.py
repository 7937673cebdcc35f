"""A whole gateway between MQTT topics: kills, workers, a bridge."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_dev.servers import Server
from gateway_testing import GatewayProcess

from tests.mqtt.publisher import Publisher, Subscriber
from tests.mqtt.sources import message, unique

INTO_LOG = """
brokers: {{default: {{ingress: [mqtt: {options}]}}}}
triggers: {{all: {{subscriber: {{file: {{path: out.jsonl}}}}}}}}
"""


@pytest.fixture
def publisher(mqtt_server: Server) -> Iterator[Publisher]:
    with Publisher(mqtt_server.port) as publisher:
        yield publisher


def options(server: Server, folder: Path, **more: Any) -> str:
    word = unique(folder)
    found = {"server": f"127.0.0.1:{server.port}", "topic": f"gateway/{word}/#", "client_id": word}
    return json.dumps({**found, **more})


def ids(folder: Path) -> list[str]:
    """The ids of the events in the file, in their order."""
    file = folder / "out.jsonl"
    return [json.loads(line)["id"] for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.spec("MQ-05", "MQ-11")
@pytest.mark.parametrize("qos", [1, pytest.param(2, marks=pytest.mark.full)])
def test_a_gateway_that_is_killed_loses_nothing(
    processes: None, tmp_path: Path, mqtt_server: Server, publisher: Publisher, qos: int
) -> None:
    config = INTO_LOG.format(options=options(mqtt_server, tmp_path, qos=qos, receive_maximum=20))
    sent: list[str] = []
    killed = threading.Event()
    with GatewayProcess(config, tmp_path) as gateway:

        def publish() -> None:
            while len(sent) < 300 or (not killed.is_set() and len(sent) < 30_000):
                sent.append(str(len(sent)))
                publisher.publish(f"gateway/{unique(tmp_path)}/{len(sent) % 7}", message(sent[-1]), qos)

        load = threading.Thread(target=publish)
        load.start()
        for _ in range(2):
            count = len(ids(tmp_path))
            gateway.wait_until(lambda: len(ids(tmp_path)) > count, what="more events")  # noqa: B023
            gateway.kill()
            gateway.start()
        killed.set()
        load.join(60)
        gateway.wait_until(lambda: set(sent) <= set(ids(tmp_path)), 60, "every event")
        assert gateway.stop() == 0


@pytest.mark.spec("MQ-09")
def test_two_workers_share_a_subscription(
    processes: None, tmp_path: Path, mqtt_server: Server, publisher: Publisher
) -> None:
    config = INTO_LOG.format(options=options(mqtt_server, tmp_path, group="g"))
    with GatewayProcess(config, tmp_path, {"TIDEGATE_WORKERS": "2"}) as gateway:
        for n in range(40):
            publisher.publish(f"gateway/{unique(tmp_path)}/a", message(str(n)))
        gateway.wait_until(lambda: len(ids(tmp_path)) == 40, what="every event")
        assert sorted(ids(tmp_path), key=int) == [str(n) for n in range(40)]


@pytest.mark.spec("MQ-12", "MQ-19")
def test_a_bridge_from_topic_to_topic_keeps_the_order(
    processes: None, tmp_path: Path, mqtt_server: Server, publisher: Publisher
) -> None:
    word = unique(tmp_path)
    bridge = {
        "source": {"mqtt": json.loads(options(mqtt_server, tmp_path, topic_attribute="mqtttopic", key="topic"))},
        "sink": {"mqtt": {"server": f"127.0.0.1:{mqtt_server.port}", "topic": f"out/{word}/{{mqtttopic}}"}},
        "delivery": {"order": "key"},
        "dead_letter": {"file": {"path": "dead.jsonl"}},
    }
    with Subscriber(mqtt_server.port, f"out/{word}/#") as heard:
        with GatewayProcess(json.dumps({"bridges": {"b": bridge}}), tmp_path) as gateway:
            for n in range(60):
                publisher.publish(f"gateway/{word}/{n % 2}", message(str(n)), wait=False)
            gateway.wait_until(lambda: len(heard.messages) >= 60, what="every event")
        for remainder in (0, 1):
            topic = f"out/{word}/gateway_{word}_{remainder}"
            found = [
                int(e.attributes["id"]) for m, e in zip(heard.messages, heard.events(), strict=True) if m.topic == topic
            ]
            assert found == list(range(remainder, 60, 2))
