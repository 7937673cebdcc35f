"""Whole gateways on NATS: the channel shared by two of them, and a bridge with two workers."""

from __future__ import annotations

import threading
from pathlib import Path
from uuid import uuid4

import pytest
from gateway_dev import servers
from gateway_testing import GatewayProcess, Subscriber
from nats.js import JetStreamContext

from tests.ledger import Ledger, body_of, dead_letters, headers, start_senders
from tests.nats.conftest import ask

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.timeout(240)]

CHANNEL = """
brokers:
  default:
    ingress: [http: {{listen: "127.0.0.1:0"}}]
    channel: {{jetstream: {{servers: "{nats}", stream: {name}, subject: {name}, ack_wait_s: 2}}}}
    delivery: {{retry: 5, backoff_delay_s: 0.05, backoff_max_s: 0.2}}
triggers:
  all: {{subscriber: "{url}"}}
"""
BRIDGE = """
bridges:
  out:
    source: {{nats: {{servers: "{nats}", subject: "{name}.in", stream: {name}, start: earliest, ack_wait_s: 2}}}}
    sink: {url}
    dead_letter: deadletter
"""


def name() -> str:
    return f"g-{uuid4().hex[:8]}"


@pytest.mark.spec("NT-13", "NT-05")
def test_one_gateway_takes_over_what_a_killed_one_had(tmp_path: Path, own_nats: servers.Server) -> None:
    """And the server is killed, too."""
    ledger, finished = Ledger(refusing=0.02), threading.Event()
    with Subscriber(decide=ledger.answer) as subscriber:
        config = CHANNEL.format(nats=own_nats.url, name=name(), url=subscriber.url)
        (tmp_path / "one").mkdir()
        (tmp_path / "two").mkdir()
        with GatewayProcess(config, tmp_path / "one") as one, GatewayProcess(config, tmp_path / "two") as two:
            senders = start_senders(ledger, one.ingress(), 800, finished)
            try:
                one.wait_until(lambda: len(ledger.accepted) > 200, 60, "some events")
                two.kill()
                one.wait_until(lambda: len(ledger.accepted) > 400, 60, "more events")
                own_nats.kill()
                own_nats.start()
                for sender in senders:
                    sender.join(120)
            finally:
                finished.set()

            def open() -> set[int]:
                letters = dead_letters(one.data_dir / "dead-letter"), dead_letters(two.data_dir / "dead-letter")
                return ledger.accepted - set(ledger.delivered) - {n for found in letters for n in found}

            one.wait_until(lambda: not open(), 120, "the deliveries")
            one.wait_until(one.drained, 60, "the acknowledgements")
            assert (len(ledger.accepted), ledger.wrong) == (800, [])
            channel = one.status()["brokers"][0]["channel"]
            assert (channel["name"], channel["writable"], channel["error"]) == ("jetstream", True, None)
            assert one.stop() == 0


@pytest.mark.spec("NT-01")
def test_two_workers_share_a_stream(tmp_path: Path, nats_server: servers.Server) -> None:
    stream, url = name(), nats_server.url

    async def publish(js: JetStreamContext) -> None:
        await js.add_stream(name=stream, subjects=[f"{stream}.>"], storage="memory")
        for number in range(1, 101):
            await js.publish(f"{stream}.in", body_of(number), headers=headers(number))

    ask(url, publish)
    with Subscriber() as subscriber:
        config = BRIDGE.format(nats=url, name=stream, url=subscriber.url)
        with GatewayProcess(config, tmp_path, None, "--workers", "2") as gateway:
            gateway.wait_until(lambda: len(subscriber.requests) >= 100, 60, "all events")
            assert sorted(int(request.headers["ce-id"]) for request in subscriber.requests) == list(range(1, 101))
            assert all(request.body == body_of(int(request.headers["ce-id"])) for request in subscriber.requests)
            gateway.wait_until(lambda: _lag(gateway) == 0, 60, "the acknowledgements")
            assert gateway.status()["bridges"][0]["sources"][0]["error"] is None
            assert gateway.stop() == 0


def _lag(gateway: GatewayProcess) -> int:
    return int(gateway.status()["bridges"][0]["sources"][0]["lag"])
