"""A replay knows who gave an event up, whatever the config calls triggers and brokers now."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gateway_testing import Subscriber
from gateway_testing.process import GatewayProcess

from tests.command_line import tidegate
from tests.explain.test_why import send

pytestmark = pytest.mark.usefixtures("processes")

NAMED_ALIKE = """
brokers: {{orders: {{ingress: [http: {{listen: "127.0.0.1:0"}}], delivery: {{retry: 0}}}}}}
triggers:
  orders: {{broker: orders, subscriber: "{url}wrong"}}
  audit: {{broker: orders, subscriber: "{url}audit"}}
"""
MOVED = """
brokers:
  one: {{ingress: [http: {{listen: "127.0.0.1:0"}}], delivery: {{retry: 0}}}}
  two: {{ingress: [http: {{listen: "127.0.0.1:0", path: /two}}]}}
triggers:
  late: {{broker: one, subscriber: "{url}wrong"}}
"""


def rows(gateway: GatewayProcess) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(tidegate("dlq", "list", "--json", "--data-dir", gateway.data_dir).stdout)
    return found


def ready_path(gateway: GatewayProcess) -> str:
    found = [t["subscriber"] for t in gateway.status()["triggers"] if t["name"] == "orders" and t["ready"]]
    return found[0][found[0].rindex("/") :] if found else ""


@pytest.mark.spec("SAFE-120")
def test_a_trigger_with_the_name_of_its_broker_gets_its_events_alone(tmp_path: Path) -> None:
    with (
        Subscriber(decide=lambda r: 400 if r.path == "/wrong" else 202) as subscriber,
        GatewayProcess(NAMED_ALIKE.format(url=subscriber.url), tmp_path) as gateway,
    ):
        for id_ in ("1", "2", "3"):
            send(gateway.ingress("orders"), id_)
        gateway.wait_until(lambda: len(rows(gateway)) == 3, what="three dead letters")
        gateway.config.write_text(gateway.config.read_text().replace("/wrong", "/right"))
        gateway.wait_until(lambda: ready_path(gateway) == "/right", what="the reload")
        subscriber.requests.clear()
        ran = tidegate("dlq", "replay", "--all", "--data-dir", gateway.data_dir)
        assert (ran.returncode, ran.stdout) == (0, "3 replayed, 0 left\n")
        assert sorted((r.path, r.headers["ce-id"]) for r in subscriber.requests) == [
            ("/right", "1"),
            ("/right", "2"),
            ("/right", "3"),
        ]


@pytest.mark.spec("SAFE-120")
def test_a_trigger_of_another_broker_gets_nothing(tmp_path: Path) -> None:
    with Subscriber(decide=lambda r: 400 if r.path == "/wrong" else 202) as subscriber:
        with GatewayProcess(MOVED.format(url=subscriber.url), tmp_path) as gateway:
            send(gateway.ingress("one"), "1")
            gateway.wait_until(lambda: len(rows(gateway)) == 1, what="a dead letter")
        gateway.config.write_text(MOVED.format(url=subscriber.url).replace("broker: one", "broker: two"))
        subscriber.requests.clear()
        gateway.start()
        try:
            assert [row["broker"] for row in rows(gateway)] == ["one"]
            ran = tidegate("dlq", "replay", "--all", "--data-dir", gateway.data_dir)
            assert (ran.returncode, ran.stdout) == (1, "0 replayed, 1 left\n")
            assert "it was given up by a trigger of broker 'one', and 'late' is one of broker 'two'" in ran.stderr
            assert "--to" in ran.stderr
            assert subscriber.requests == []
        finally:
            gateway.stop()
