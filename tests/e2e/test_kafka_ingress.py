"""A broker that takes events from Kafka besides HTTP, with the durable log behind both."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from gateway_java.kafka import KafkaBroker
from gateway_testing import GatewayProcess, Subscriber

from tests import web
from tests.kafka_broker import CLIENTS
from tests.kafka_console import produce
from tests.ledger import body_of, headers

CONFIG = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:0"}
      - kafka: {bootstrap: "BOOTSTRAP", topic: TOPIC, client: CLIENT, start: earliest}
triggers:
  all:
    subscriber: URL
"""
EVENT = [("ce_specversion", "1.0"), ("ce_id", "from-kafka"), ("ce_source", "/shop"), ("ce_type", "t")]


@pytest.mark.spec("BR-26", "BR-09", "KB-05")
@pytest.mark.parametrize("client", CLIENTS)
def test_a_broker_takes_events_from_http_and_kafka(client: str, tmp_path: Path, kafka: KafkaBroker) -> None:
    topic = f"ingress-{uuid4().hex[:8]}"
    kafka.create_topic(topic, 1)
    produce(kafka.bootstrap, topic, [("k", "a", EVENT), (None, "no event", []), ("k", "b", EVENT)])
    with Subscriber() as s:
        config = CONFIG.replace("BOOTSTRAP", kafka.bootstrap).replace("TOPIC", topic).replace("CLIENT", client)
        with GatewayProcess(config.replace("URL", s.url), tmp_path) as gateway:
            answer = web.post(gateway.ingress(), content=body_of(1), headers=headers(1), verify=False)
            assert answer.status_code == 202
            gateway.wait_until(lambda: len(s.requests) == 3, 40, "three events")
            assert sorted(r.body for r in s.requests if r.headers["ce-id"] == "from-kafka") == [b"a", b"b"]
            assert [r.body for r in s.requests if r.headers["ce-id"] == "1"] == [body_of(1)]
            letters = gateway.data_dir / "dead-letter"
            gateway.wait_until(lambda: any(letters.glob("*.jsonl")), 60, "the record that is no event")
            (line,) = [line for file in letters.glob("*.jsonl") for line in file.read_text().splitlines()]
            assert '"tidegatestage":"decode"' in line.replace(" ", "")
            assert "bm8gZXZlbnQ=" in line  # its bytes
            (source,) = gateway.status()["brokers"][0]["sources"]
            assert source["error"] is None
            gateway.wait_until(lambda: gateway.status()["brokers"][0]["sources"][0]["lag"] == 0, 60, "the commits")
            assert gateway.stop() == 0
