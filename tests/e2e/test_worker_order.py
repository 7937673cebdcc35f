"""Order by key with several workers: each has a shard of the log, and a connection belongs to one of them."""

from __future__ import annotations

import http.client
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from gateway_testing import GatewayProcess, Received, Subscriber

from tests.ledger import free_port

CONFIG = """
brokers: {{default: {{ingress: [http: {{listen: "127.0.0.1:{port}"}}]}}}}
triggers:
  all: {{subscriber: "{url}", delivery: {{order: key, retry: 50, backoff_delay_s: 0.01, backoff_max_s: 0.02}}}}
"""
KEYS, EACH = 12, 40


@pytest.mark.usefixtures("processes")
def test_each_key_that_has_a_connection_keeps_its_order(tmp_path: Path) -> None:
    """Twelve connections, so both workers have some. Half of all attempts fail, so later events would overtake."""
    draw, lock = random.Random(7), threading.Lock()
    taken: dict[str, list[int]] = {}

    def answer(received: Received) -> int:
        with lock:
            if draw.random() < 0.5:
                return 503
            key, _, number = received.headers["ce-id"].partition("-")
            taken.setdefault(key, []).append(int(number))
        return 202

    def send(url: str, key: int) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
        for number in range(EACH):
            headers = {"ce-specversion": "1.0", "ce-id": f"{key}-{number}", "ce-source": "/s", "ce-type": "t"}
            connection.request("POST", parts.path, b"", {**headers, "ce-partitionkey": f"k{key}"})
            response = connection.getresponse()
            response.read()
            assert response.status == 202
        connection.close()

    with Subscriber(decide=answer) as subscriber:
        config = CONFIG.format(port=free_port(), url=subscriber.url)
        with GatewayProcess(config, tmp_path, None, "--workers", "2") as gateway, ThreadPoolExecutor(KEYS) as senders:
            gateway.wait_until(lambda: len(gateway.status()["processes"]) == 2)
            for sent in [senders.submit(send, gateway.ingress(), key) for key in range(KEYS)]:
                sent.result()
            gateway.wait_until(lambda: sum(map(len, taken.values())) >= KEYS * EACH)
    assert taken == {str(key): list(range(EACH)) for key in range(KEYS)}
    assert len(list(tmp_path.rglob("shard-*.db"))) == 2
