"""A gateway that runs on Knative manifests: the broker's address, the default broker, filters and dead letters."""

from __future__ import annotations

from pathlib import Path

import pytest
from gateway_testing import GatewayProcess, Subscriber

from tests import web

pytestmark = pytest.mark.usefixtures("processes")

SAMPLE = Path(__file__).parents[1] / "config" / "manifests" / "broker-trigger.yaml"


def post(url: str, id: str, type: str, **more: str) -> int:
    headers = {"ce-specversion": "1.0", "ce-id": id, "ce-source": "/s", "ce-type": type}
    return web.post(url, headers=headers | {f"ce-{k}": v for k, v in more.items()}, verify=False).status_code


@pytest.mark.spec("BR-06", "BR-07", "BR-08")
def test_manifests_run_with_their_triggers_first(tmp_path: Path) -> None:
    """The sample's documents in reverse: all triggers, one of them without a broker, and the broker last."""
    text = "\n---\n".join(reversed(SAMPLE.read_text().split("\n---\n")))
    refusing = Subscriber(decide=lambda r: 400 if r.path == "/audit" else 202)
    with Subscriber() as dead, Subscriber() as orders, refusing as audit, Subscriber() as everything:
        for port, subscriber in ((9001, dead), (9002, orders), (9003, audit), (9004, everything)):
            text = text.replace(f"127.0.0.1:{port}/", f"127.0.0.1:{subscriber.port}/")
        with GatewayProcess(text, tmp_path, {"TIDEGATE_LISTEN": "127.0.0.1:0"}) as g:
            url = g.ingress("shop.default")
            assert url.endswith("/shop/default")
            (status,) = g.status()["brokers"]
            assert (status["name"], status["ready"], status["ingress"]) == ("shop.default", True, [url])
            assert all(t["ready"] for t in g.status()["triggers"])
            assert post(url, "1", "com.example.order.created", tenant="emea", subject="a") == 202
            assert post(url, "2", "com.example.order.created", subject="invoice-2") == 202
            assert post(url, "3", "com.example.heartbeat", tenant="emea", subject="a") == 202
            assert post(url.replace("/shop/", "/lab/"), "4", "com.example.order.created") == 404
            g.wait_until(g.drained, what="all triggers to deliver")
    assert [r.headers["ce-id"] for r in orders.requests] == ["1"]
    assert {r.headers["ce-id"] for r in everything.requests} == {"1", "2", "3"}
    # `audit` wants all but heartbeats; what it refuses goes to its own dead letter sink and not the broker's
    refused = [(r.path, r.headers["ce-id"]) for r in audit.requests if r.path == "/audit"]
    assert sorted(refused) == [("/audit", "1"), ("/audit", "2")]
    letters = [r for r in audit.requests if r.path == "/audit-dead"]
    assert {r.headers["ce-id"] for r in letters} == {"1", "2"}
    assert {r.headers["ce-knativeerrorcode"] for r in letters} == {"400"}
    assert not dead.requests


@pytest.mark.spec("BR-07")
def test_a_trigger_waits_for_its_broker_and_turns_ready_with_it(tmp_path: Path) -> None:
    early, late = (SAMPLE.parent / "trigger-before-broker.yaml").read_text().split("\n---\n")
    with Subscriber() as s:
        early = early.replace("127.0.0.1:9005", f"127.0.0.1:{s.port}")
        with GatewayProcess(early + "\n---\nbrokers: {other: {}}\n", tmp_path, {"TIDEGATE_LISTEN": "127.0.0.1:0"}) as g:
            assert (g.trigger("lab.early")["ready"], g.trigger("lab.early")["broker"]) == (False, "lab.late")
            assert g.stop() == 0
            g.config.write_text(early + "\n---\n" + late)
            g.start()
            assert g.trigger("lab.early")["ready"]
            assert post(g.ingress("lab.late"), "1", "t") == 202
            s.wait_for(1)
