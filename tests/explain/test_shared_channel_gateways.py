"""What `tidegate why` says at two gateways that share a channel."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from gateway_dev.servers import Server
from gateway_java.kafka import KafkaBroker
from gateway_testing import GatewayProcess, Subscriber
from gateway_testing.subscriber import Answer, Received

from tests import web
from tests.command_line import tidegate
from tests.kafka_broker import CLIENTS, channel_config

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.timeout(300)]

JETSTREAM = """
brokers:
  default:
    ingress: [http: {{listen: "127.0.0.1:0", anonymous: true}}]
    channel: {{jetstream: {{servers: "{nats}", stream: {name}, subject: {name}}}}}
triggers:
"""
EVENTS, BAD = 12, ("3", "7")


def answer(request: Received) -> Answer:
    return 422 if request.headers["ce-id"] in BAD else 200


def send(gateway: GatewayProcess, *ids: object) -> None:
    for id in ids:
        headers = {"ce-id": str(id), "ce-source": "/s", "ce-type": "t", "ce-specversion": "1.0"}
        assert web.post(gateway.ingress(), headers=headers, content=b"1", timeout=60).is_success


def told(gateway: GatewayProcess, id: str, trigger: str = "all") -> tuple[str, int]:
    """The state of one delivery, and the exit code."""
    done = tidegate("why", id, "--data-dir", gateway.data_dir, "--json")
    (event,) = json.loads(done.stdout)["events"]
    return next(d["state"] for d in event["deliveries"] if d["name"] == trigger), done.returncode


@contextmanager
def two(config: str, tmp_path: Path) -> Iterator[tuple[GatewayProcess, GatewayProcess, Any]]:
    with Subscriber(decide=answer) as subscriber, ExitStack() as running:
        gateways = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            text = f'{config}  all: {{subscriber: "{subscriber.url}"}}\n'
            gateways.append(running.enter_context(GatewayProcess(text, tmp_path / name)))
        yield gateways[0], gateways[1], subscriber


def settled(gateways: tuple[GatewayProcess, ...], subscriber: Subscriber) -> None:
    gateways[0].wait_until(lambda: len({r.headers["ce-id"] for r in subscriber.requests}) >= EVENTS, 90, "all events")
    for gateway in gateways:
        gateway.wait_until(lambda g=gateway: g.drained("all"), 60, "the acknowledgements")


def none_is_wrong(*gateways: GatewayProcess) -> None:
    """What was given up is called delivered nowhere, and who gave it up says so."""
    for bad in BAD:
        states = [told(gateway, bad) for gateway in gateways]
        assert {state for state, _ in states} <= {"dead_lettered", "settled", "unknown"}, states
        assert [state for state, _ in states].count("dead_lettered") == 1, states
        assert all(code for _, code in states)


def before(first: GatewayProcess, second: GatewayProcess, subscriber: Subscriber, folder: Path) -> None:
    """A trigger that comes later was never meant for them, and says so at both gateways and after a restart."""
    fresh = folder / "fresh.yaml"
    fresh.write_text(f'triggers: {{fresh: {{subscriber: "{subscriber.url}fresh"}}}}\n')
    for gateway in (first, second):
        done = tidegate("apply", "-f", fresh, "--data-dir", gateway.data_dir)
        assert done.returncode == 0, done.stderr
    send(first, "later")
    first.wait_until(lambda: "/fresh" in [r.path for r in subscriber.requests], 60, "a delivery of the new trigger")
    for gateway in (first, second):
        # a gateway looks every few seconds how far the others are
        gateway.wait_until(lambda g=gateway: told(g, "later", "fresh")[0] != "waiting", 30, "word of the delivery")
        for id in range(EVENTS):
            assert told(gateway, str(id), "fresh")[0] in ("before", "unknown")
        assert told(gateway, "later", "fresh")[0] in ("delivered", "settled", "unknown", "in_flight")
    assert second.stop() == 0
    assert first.stop() == 0
    first.start()
    first.wait_until(lambda: told(first, "4", "fresh")[0] != "unknown", 60, "the partitions")
    for id in range(EVENTS):
        assert told(first, str(id), "fresh")[0] == "before"
        assert told(first, str(id))[0] in ("settled", "dead_lettered")
    assert told(first, "later", "fresh")[0] == "settled"
    assert not [r for r in subscriber.requests if r.path == "/fresh" and r.headers["ce-id"] != "later"]


@pytest.mark.spec("SAFE-230", "SAFE-231")
def test_jetstream(tmp_path: Path, nats_server: Server) -> None:
    config = JETSTREAM.format(nats=nats_server.url, name=f"why-{uuid4().hex[:8]}")
    with two(config, tmp_path) as (one, other, subscriber):
        send(one, *range(EVENTS))
        settled((one, other), subscriber)
        none_is_wrong(one, other)
        delivered = [told(gateway, str(n))[0] for gateway in (one, other) for n in range(EVENTS)]
        assert delivered.count("delivered") == EVENTS - len(BAD), "each by the one that delivered it"
        before(one, other, subscriber, tmp_path)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.spec("SAFE-230", "SAFE-231")
def test_kafka(tmp_path: Path, kafka: KafkaBroker, client: str) -> None:
    with two(channel_config(kafka, client), tmp_path) as (one, other, subscriber):
        send(one, *range(EVENTS))
        settled((one, other), subscriber)
        none_is_wrong(one, other)
        before(one, other, subscriber, tmp_path)
        for bad in BAD:
            assert told(one, bad)[1] != 0, "whoever gave it up"
