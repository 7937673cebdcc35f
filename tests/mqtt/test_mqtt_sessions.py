"""The names of MQTT sessions: an ingress keeps its own, wherever it stands in the config."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_dev.servers import Server
from gateway_mqtt.client import MqttClient
from gateway_mqtt.config import MqttSourceConfig
from gateway_mqtt.subscriptions import Subscriptions
from gateway_testing import GatewayProcess

from tests.mqtt.publisher import Publisher
from tests.mqtt.sources import message, unique

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture
def publisher(mqtt_server: Server) -> Iterator[Publisher]:
    with Publisher(mqtt_server.port) as publisher:
        yield publisher


class Place:
    """A gateway's config and what it wrote, with topics that no other test has. No source has a `client_id`."""

    def __init__(self, folder: Path, server: Server) -> None:
        self._folder = folder
        self._port = server.port
        self.word = unique(folder)

    def ingress(self, topic: str, **more: Any) -> dict[str, Any]:
        return {"mqtt": {"server": f"127.0.0.1:{self._port}", "topic": f"{self.word}/{topic}", **more}}

    def config(self, *topics: str | dict[str, Any], broker: str = "") -> str:
        """All events of the broker go to the file."""
        broker = broker or f"b{self.word}"  # other tests use the server, too
        ingress = [self.ingress(topic) if isinstance(topic, str) else topic for topic in topics]
        trigger = {"broker": broker, "subscriber": {"file": {"path": "out.jsonl"}}}
        return json.dumps({"brokers": {broker: {"ingress": ingress}}, "triggers": {"all": trigger}})

    def ids(self) -> list[str]:
        file = self._folder / "out.jsonl"
        return [json.loads(line)["id"] for line in file.read_text().splitlines()] if file.exists() else []

    def missing(self, wanted: int) -> set[str]:
        return {str(n) for n in range(wanted)} - set(self.ids())


def reload(gateway: GatewayProcess, config: str) -> None:
    """Changes the config, and returns once the gateway runs it."""
    before = int(gateway.status()["config"]["generation"])
    gateway.config.write_text(config)
    os.kill(gateway.pid, signal.SIGHUP)
    gateway.wait_until(lambda: int(gateway.status()["config"]["generation"]) > before, 60, "the reload")
    assert gateway.status()["config"]["error"] is None


SIGNAL = {"TIDEGATE_RELOAD": "signal"}


@pytest.mark.spec("SAFE-70")
def test_an_ingress_that_is_put_before_another_takes_nothing_from_it(
    tmp_path: Path, mqtt_server: Server, publisher: Publisher
) -> None:
    place = Place(tmp_path, mqtt_server)
    with GatewayProcess(place.config("orders/#"), tmp_path, SIGNAL) as gateway:
        changed = threading.Event()

        def publish() -> None:
            for n in range(600):
                publisher.publish(f"{place.word}/orders/{n % 5}", message(str(n)), wait=n % 20 == 0)
                if n == 200:
                    changed.wait(60)

        load = threading.Thread(target=publish)
        load.start()
        gateway.wait_until(lambda: len(place.ids()) > 50, what="the first events")
        reload(gateway, place.config("billing/#", "orders/#"))
        changed.set()
        load.join(60)
        gateway.wait_until(lambda: not place.missing(600), 60, "every order")
        publisher.publish(f"{place.word}/billing/1", message("bill"))
        gateway.wait_until(lambda: "bill" in place.ids(), 60, "the bill")
        assert gateway.stop() == 0


@pytest.mark.spec("SAFE-70")
@pytest.mark.parametrize("broker", ["", "renamed"])
def test_what_waits_in_a_session_is_found_after_a_stop_in_which_the_config_changed(
    tmp_path: Path, mqtt_server: Server, publisher: Publisher, broker: str
) -> None:
    place = Place(tmp_path, mqtt_server)
    with GatewayProcess(place.config("orders/#", "returns/#"), tmp_path) as gateway:
        assert gateway.stop() == 0
        for n in range(100):
            publisher.publish(f"{place.word}/orders/1", message(str(n)))
        gateway.config.write_text(place.config("billing/#", "returns/#", "orders/#", broker=broker))
        gateway.start()
        gateway.wait_until(lambda: not place.missing(100), 60, "every order")
        assert gateway.stop() == 0
        for n in range(100, 200):
            publisher.publish(f"{place.word}/orders/1", message(str(n)))
        gateway.config.write_text(place.config("orders/+", broker=broker))  # another filter for the same messages
        gateway.start()
        gateway.wait_until(lambda: not place.missing(200), 60, "every order, by the session's new filter")
        assert gateway.stop() == 0


@pytest.mark.spec("SAFE-70")
def test_a_session_of_an_earlier_version_is_found_by_the_topics_that_it_has(
    tmp_path: Path, mqtt_server: Server, publisher: Publisher
) -> None:
    place = Place(tmp_path, mqtt_server)
    broker = f"b{place.word}"
    options = MqttSourceConfig.model_validate(place.ingress("orders/#")["mqtt"])
    name = f"tidegate-brokers.{broker}.ingress[1]"

    async def before() -> None:
        client = MqttClient(options, name, clean=False, session_expiry_s=600)
        await client.open(None)
        await client.subscribed(options.topics, 1, 0)
        await client.close()

    anyio.run(before)
    Subscriptions(tmp_path / "data", options, name).remember(options.topics)
    for n in range(50):
        publisher.publish(f"{place.word}/orders/1", message(str(n)))
    with GatewayProcess(place.config("orders/#", "billing/#"), tmp_path) as gateway:
        gateway.wait_until(lambda: not place.missing(50), 60, "what waited in the old session")
        assert gateway.stop() == 0
    for n in range(50, 60):
        publisher.publish(f"{place.word}/orders/1", message(str(n)))
    with GatewayProcess(place.config("orders/#", "billing/#"), tmp_path) as gateway:  # it keeps the name
        gateway.wait_until(lambda: not place.missing(60), 60, "what waited since")
        assert gateway.stop() == 0


@pytest.mark.spec("SAFE-70", "MQ-09")
def test_workers_that_share_a_subscription_keep_their_sessions(
    tmp_path: Path, mqtt_server: Server, publisher: Publisher
) -> None:
    """All workers decide alike which sessions they continue, while the first one notes it."""
    place, workers = Place(tmp_path, mqtt_server), {**SIGNAL, "TIDEGATE_WORKERS": "2"}
    orders, billing = place.ingress("orders/#", group=place.word), place.ingress("billing/#", group=place.word)
    with GatewayProcess(place.config(orders), tmp_path, workers) as gateway:
        assert gateway.stop() == 0
    for n in range(100):
        publisher.publish(f"{place.word}/orders/{n % 5}", message(str(n)))
    changed = place.ingress("orders/+", group=place.word)
    with GatewayProcess(place.config(billing, changed), tmp_path, workers) as gateway:
        gateway.wait_until(lambda: not place.missing(100), 60, "what waited in both sessions")
        for n in range(100, 140):
            publisher.publish(f"{place.word}/{('orders', 'billing')[n % 2]}/1", message(str(n)))
        gateway.wait_until(lambda: not place.missing(140), 60, "the rest")
        assert gateway.stop() == 0
