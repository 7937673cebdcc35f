"""A replay knows who gave an event up, whatever the config calls triggers and brokers now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gateway_deadletter import line as line_format
from gateway_testing import Subscriber
from gateway_testing.process import GatewayProcess

from gateway_core.contract.event import Event
from tests.command_line import tidegate
from tests.explain.test_why import send, why

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
        moved = MOVED.format(url=subscriber.url).replace("broker: one", "broker: two")
        gateway.config.write_text(moved.replace("/wrong", "/right"))
        subscriber.requests.clear()
        gateway.start()
        try:
            assert [row["broker"] for row in rows(gateway)] == ["one"]
            ran = tidegate("dlq", "replay", "--all", "--data-dir", gateway.data_dir)
            assert (ran.returncode, ran.stdout) == (1, "0 replayed, 1 left\n")
            assert "it was given up by a trigger of broker 'one', and 'late' is one of broker 'two'" in ran.stderr
            assert "--to" in ran.stderr
            assert subscriber.requests == []
            send(gateway.ingress("two"), "1")  # an event of the same name, which the new one takes
            gateway.wait_until(lambda: len(subscriber.requests) == 1, what="the delivery")
            found = why(gateway, "1")["events"]
            assert {e["broker"]: {d["name"]: d["state"] for d in e["deliveries"]} for e in found} == {
                "one": {"late": "dead_lettered"},
                "two": {"late": "delivered"},
            }
        finally:
            gateway.stop()


def bury(gateway: GatewayProcess, broker: str, *letters: dict[str, Any]) -> None:
    """Dead letters as an earlier version wrote them: without their broker."""
    file = gateway.data_dir / "dead-letter" / f"{broker}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    facts: dict[str, Any] = {"specversion": "1.0", "source": "/s", "type": "t"}
    facts["knativeerrordest"] = "http://127.0.0.1:1/"
    facts |= {"tidegateattempts": 1, "tidegatestage": "delivery", "tidegatereason": "no"}
    lines = [line_format.write(Event({**facts, **letter}), n + 1) for n, letter in enumerate(letters)]
    file.write_bytes(b"".join(line + b"\n" for line in lines))


@pytest.mark.spec("SAFE-120")
def test_letters_of_earlier_versions_are_told_apart_by_their_facts(tmp_path: Path) -> None:
    """A status, a second attempt, and a failure in the trigger: none is of an input that the broker did not take."""
    with (
        Subscriber() as subscriber,
        GatewayProcess(NAMED_ALIKE.format(url=subscriber.url), tmp_path) as gateway,
    ):
        seen: list[dict[str, Any]] = [{"knativeerrorcode": "400"}, {"tidegateattempts": 2}, {"tidegatestage": "filter"}]
        letters = [{"id": str(n), "tidegatetrigger": "orders", **facts} for n, facts in enumerate([*seen, {}])]
        bury(gateway, "orders", *letters)
        assert tidegate("dlq", "replay", "--all", "--data-dir", gateway.data_dir).stdout == "4 replayed, 0 left\n"
        gateway.wait_until(lambda: len(subscriber.requests) >= 5, what="the input of the broker at both")
        got = sorted((r.path, r.headers["ce-id"]) for r in subscriber.requests)
        assert got == [("/audit", "3"), *(("/wrong", str(n)) for n in range(4))]


@pytest.mark.spec("SAFE-120")
def test_a_letter_of_an_earlier_version_is_of_the_brokers_that_write_into_its_file(tmp_path: Path) -> None:
    with Subscriber() as subscriber:
        config = MOVED.format(url=subscriber.url).replace("broker: one", "broker: two")
        with GatewayProcess(config, tmp_path) as gateway:
            bury(gateway, "one", {"id": "1", "tidegatetrigger": "late", "knativeerrorcode": "400"})
            ran = tidegate("dlq", "replay", "--all", "--data-dir", gateway.data_dir)
            assert (ran.returncode, ran.stdout) == (1, "0 replayed, 1 left\n")
            assert "no trigger of broker 'two'" in ran.stderr
            bury(gateway, "two", {"id": "2", "tidegatetrigger": "late", "knativeerrorcode": "400"})
            ran = tidegate("dlq", "replay", "--all", "--broker", "two", "--data-dir", gateway.data_dir)
            assert [r.headers["ce-id"] for r in subscriber.requests] == ["2"]
