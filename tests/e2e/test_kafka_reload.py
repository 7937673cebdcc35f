"""Hot reload of triggers whose places are in Kafka."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from gateway_java.kafka import KafkaBroker
from gateway_testing import GatewayProcess, Subscriber

from tests import web
from tests.kafka_broker import CLIENTS, channel_config
from tests.ledger import Ledger, body_of, headers, start_senders


def reload(gateway: GatewayProcess, text: str) -> None:
    before = gateway.status()["config"]["generation"]
    new = gateway.config.with_suffix(".new")
    new.write_text(text)
    new.replace(gateway.config)
    gateway.wait_until(lambda: gateway.status()["config"]["generation"] > before, 60, "the reload")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_trigger_that_changes_under_load_loses_nothing(client: str, tmp_path: Path, kafka: KafkaBroker) -> None:
    ledger, finished, config = Ledger(refusing=0.02, never=10**9), threading.Event(), channel_config(kafka, client)
    with (
        Subscriber(decide=ledger.answer) as s,
        GatewayProcess(config + f"  one: {{subscriber: '{s.url}'}}\n", tmp_path) as gateway,
    ):
        senders = start_senders(ledger, gateway.ingress(), 3000, finished)
        try:
            for number in range(1, 5):
                goal = number * 500
                gateway.wait_until(lambda goal=goal: len(ledger.accepted) > goal, 60, "some events")  # type: ignore[misc]
                reload(gateway, config + f"  one: {{subscriber: '{s.url}{number}'}}\n")
            for sender in senders:
                sender.join(60)
        finally:
            finished.set()
        gateway.wait_until(lambda: not ledger.accepted - set(ledger.delivered), 60, "the deliveries")
        assert len(ledger.accepted) == 3000
        assert not ledger.wrong
        duplicates = sum(ledger.delivered.values()) - len(ledger.delivered)
        print(f"{client}: {duplicates} duplicates in 4 reloads")
        assert duplicates == 0
        assert gateway.stop() == 0


@pytest.mark.parametrize("client", CLIENTS)
def test_a_new_trigger_has_its_place_when_the_reload_is_done(client: str, tmp_path: Path, kafka: KafkaBroker) -> None:
    with Subscriber() as old, Subscriber() as new:
        config = channel_config(kafka, client) + f"  old: {{subscriber: '{old.url}'}}\n"
        with GatewayProcess(config, tmp_path) as gateway:
            for number in range(1, 4):
                reload(gateway, config + f"  new{number}: {{subscriber: '{new.url}{number}'}}\n")
                answer = web.post(gateway.ingress(), content=body_of(number), headers=headers(number), verify=False)
                assert answer.status_code == 202
                gateway.wait_until(lambda n=number: len(new.requests) == n, 60, "the event")  # type: ignore[misc]
            assert [r.path for r in new.requests] == ["/1", "/2", "/3"]
            assert gateway.stop() == 0
