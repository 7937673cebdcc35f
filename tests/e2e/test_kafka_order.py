"""`order: key` and `order: partition` on one partition of a real topic, with a subscriber that takes its time."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from uuid import uuid4

import anyio
import pytest
from gateway_java.kafka import KafkaBroker
from gateway_kafka.admin import Admin
from gateway_kafka.client_config import KafkaConfig
from gateway_testing import GatewayProcess, Received, Subscriber

from tests import web
from tests.kafka_broker import CLIENTS

KEYS, EACH = 100, 4
CONFIG = """
bridges:
  in:
    source: {http: {listen: "127.0.0.1:0"}}
    sink: {kafka: {bootstrap: "BOOTSTRAP", topic: TOPIC, key: partitionkey}}
  out:
    source: {kafka: {bootstrap: "BOOTSTRAP", topic: TOPIC, group: TOPIC, start: earliest, client: CLIENT}}
    sink: URL
    delivery: {order: ORDER, backoff_delay_s: 0.02, backoff_max_s: 0.05}
"""


class Slow:
    """Takes 5 ms for each event and refuses those of every fifth key once; notes how many were there at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refused: set[str] = set()
        self.arrived: dict[str, list[int]] = {}
        self.here = self.most = 0
        self.first = self.last = 0.0

    def answer(self, received: Received) -> int:
        key, _, number = received.headers["ce-id"].partition("-")
        with self._lock:
            self.here += 1
            self.most = max(self.most, self.here)
            self.first = self.first or received.time
        time.sleep(0.005)
        with self._lock:
            self.here -= 1
            self.last = time.monotonic()
            if int(key) % 5 == 0 and received.headers["ce-id"] not in self._refused:
                self._refused.add(received.headers["ce-id"])
                return 503
            self.arrived.setdefault(key, []).append(int(number))
        return 202

    @property
    def count(self) -> int:
        return sum(map(len, list(self.arrived.values())))


def batch() -> list[dict[str, str]]:
    return [
        {"specversion": "1.0", "id": f"{key}-{n}", "source": "/order", "type": "t", "partitionkey": f"k{key}"}
        for n in range(EACH)
        for key in range(KEYS)
    ]


async def one_partition(bootstrap: str, topic: str) -> None:
    async with Admin(KafkaConfig(bootstrap=[bootstrap])) as admin:
        await admin.ensure_topic(topic, 1, None)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("order", "at_once"), [("key", range(20, 1000)), ("partition", range(1, 2))])
def test_each_key_keeps_its_order(order: str, at_once: range, client: str, tmp_path: Path, kafka: KafkaBroker) -> None:
    topic, slow = f"order-{uuid4().hex[:8]}", Slow()
    anyio.run(one_partition, kafka.bootstrap, topic)
    with Subscriber(decide=slow.answer) as s:
        config = CONFIG.replace("BOOTSTRAP", kafka.bootstrap).replace("TOPIC", topic).replace("CLIENT", client)
        with GatewayProcess(config.replace("ORDER", order).replace("URL", s.url), tmp_path) as gateway:
            answer = web.post(
                gateway.ingress("in"),
                json=batch(),
                headers={"content-type": "application/cloudevents-batch+json"},
                timeout=30,
                verify=False,
            )
            assert answer.status_code == 202, answer.text
            gateway.wait_until(lambda: slow.count == KEYS * EACH, 100, "all events")
            assert gateway.stop() == 0
    assert all(numbers == list(range(EACH)) for numbers in slow.arrived.values()), slow.arrived
    assert slow.most in at_once
    print(f"{client}, order {order}: {KEYS * EACH / (slow.last - slow.first):,.0f} events/s, {slow.most} at once")
