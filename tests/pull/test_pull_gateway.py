"""Subscribers that pull from a whole gateway: order, patience, dead letters, kill -9."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_testing import GatewayProcess

from tests import web
from tests.websocket.rig import free_port

pytestmark = pytest.mark.usefixtures("processes")

CONFIG = """
brokers: {default: {ingress: [http: {listen: "127.0.0.1:0"}], dead_letter: {file: {path: dead.jsonl}}}}
triggers:
  orders:
    subscriber: {pull: {listen: "127.0.0.1:%d", path: /orders, lease_s: %g}}
    delivery: {order: key, order_key: {attribute: subject}, retry: 1, backoff_delay_s: 0, timeout_s: 0.1}
"""


class Puller:
    def __init__(self, port: int) -> None:
        self.client = web.client(base_url=f"http://127.0.0.1:{port}/orders/", timeout=60, verify=False)

    def fetch(self, most: int = 100, wait_s: float = 20) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.client.post("receive", json={"max": most, "wait_s": wait_s}).json()["events"]
        return found

    def ack(self, *leases: str) -> list[str]:
        gone: list[str] = self.client.post("ack", json={"leases": leases}).json()["gone"]
        return gone


@pytest.fixture
def puller() -> Iterator[tuple[int, Puller]]:
    port = free_port()
    found = Puller(port)
    yield port, found
    found.client.close()


def send(gateway: GatewayProcess, *names: str) -> None:
    """Events whose subject is the first letter of their id."""
    batch = [{"specversion": "1.0", "source": "/s", "type": "t", "id": n, "subject": n[0]} for n in names]
    headers = {"content-type": "application/cloudevents-batch+json"}
    assert web.post(gateway.ingress(), content=json.dumps(batch), headers=headers, verify=False).status_code == 202


@pytest.mark.spec("PL-02", "PL-03", "PL-04")
def test_order_holds_leases_are_attempts_and_waiting_costs_nothing(tmp_path: Path, puller: tuple[int, Puller]) -> None:
    port, orders = puller
    dead = tmp_path / "dead.jsonl"
    with GatewayProcess(CONFIG % (port, 0.5), tmp_path) as gateway:
        send(gateway, "a1", "a2", "b1", "a3")
        gateway.wait_until(lambda: gateway.trigger("orders")["in_flight"] == 2, what="the first of each key")
        time.sleep(1)  # longer than any lease or timeout: nobody fetches, and nothing happens
        state = gateway.trigger("orders")
        assert (state["retried"], state["dead_lettered"], state["in_flight"]) == (0, 0, 2)
        first = orders.fetch()
        assert [e["event"]["id"] for e in first] == ["a1", "b1"]
        assert orders.ack(first[0]["lease"]) == []
        second = orders.fetch()
        assert [(e["event"]["id"], e["delivery"]) for e in second][:1] == [("a2", 1)]
        again: list[dict[str, Any]] = []
        while len(again) < 2:  # both leases end, and are given again
            again += orders.fetch()
        assert sorted((e["event"]["id"], e["delivery"]) for e in again) == [("a2", 2), ("b1", 2)]
        (third,) = orders.fetch()  # they end again: the dead letter has both, and the last of the key follows
        assert third["event"]["id"] == "a3"
        gateway.wait_until(lambda: gateway.trigger("orders")["dead_lettered"] == 2, what="the dead letters")
        letters = [json.loads(line) for line in dead.read_text().splitlines()]
        assert sorted(letter["id"] for letter in letters) == ["a2", "b1"]
        orders.ack(third["lease"])
        send(gateway, "c1", "d1")
        gateway.wait_until(lambda: gateway.trigger("orders")["in_flight"] == 2, what="events that nobody fetches")
        failed = gateway.stderr.read_text().count("attempts failed")
        began = time.monotonic()
        assert gateway.stop() == 0
        assert time.monotonic() - began < 8, "it waited for events that nobody had fetched"
        log = gateway.stderr.read_text()
        assert (log.count("attempts failed"), log.count("makes no attempts")) == (failed, 0)
        gateway.start()
        assert sorted(e["event"]["id"] for e in orders.fetch()) == ["c1", "d1"]


@pytest.mark.spec("PL-08")
def test_nothing_is_lost_when_the_gateway_is_killed(tmp_path: Path, puller: tuple[int, Puller]) -> None:
    port, orders = puller
    with GatewayProcess(CONFIG % (port, 30), tmp_path) as gateway:
        names = [f"{chr(97 + n % 26)}{n}" for n in range(400)]
        send(gateway, *names)
        seen: list[str] = []
        acknowledged: set[str] = set()
        for kill in (True, True, False):
            while len(acknowledged) < 400:
                found = orders.fetch(40)
                seen += [e["event"]["id"] for e in found]
                if kill and len(found) > 5 and len(acknowledged) > 100:
                    gateway.kill()  # with leases that nobody will acknowledge
                    gateway.start()
                    kill = False
                    continue
                if orders.ack(*(e["lease"] for e in found)) == []:
                    acknowledged |= {e["event"]["id"] for e in found}
        gateway.wait_until(gateway.drained, what="the end")
        assert acknowledged == {*names}
        for key in {name[0] for name in names}:
            firsts = list(dict.fromkeys(n for n in seen if n[0] == key))
            assert firsts == sorted(firsts, key=lambda n: int(n[1:])), "in order, but for repetitions"
