"""The channel `kafka`: several gateways with one config share a broker's events."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gateway_java.kafka import KafkaBroker
from gateway_testing import GatewayProcess, Subscriber

from tests import web
from tests.kafka_broker import CLIENTS, channel_config
from tests.ledger import Ledger, body_of, dead_letters, headers, start_senders


@contextmanager
def gateways(folder: Path, config: str, count: int) -> Iterator[list[GatewayProcess]]:
    crew = []
    for number in range(count):
        (folder / f"g{number}").mkdir()
        crew.append(GatewayProcess(config, folder / f"g{number}"))
    try:
        for gateway in crew:
            gateway.start()
        yield crew
    finally:
        for gateway in crew:
            gateway.__exit__(None, None, None)


def config_of(kafka: KafkaBroker, client: str, url: str) -> str:
    return channel_config(kafka, client) + f"  all: {{subscriber: '{url}'}}\n"


def send(url: str, *numbers: int) -> None:
    with web.client(verify=False) as client:
        for number in numbers:
            answer = client.post(url, content=body_of(number), headers=headers(number))
            assert answer.status_code == 202, answer.text


@pytest.mark.timeout(240)
@pytest.mark.parametrize("client", CLIENTS)
def test_the_others_take_over_when_one_is_killed(client: str, tmp_path: Path, kafka: KafkaBroker) -> None:
    ledger, finished = Ledger(refusing=0.02), threading.Event()
    with (
        Subscriber(decide=ledger.answer) as s,
        gateways(tmp_path, config_of(kafka, client, s.url), 3) as (first, second, third),
    ):
        senders = start_senders(ledger, first.ingress(), 3000, finished)
        try:
            first.wait_until(lambda: len(ledger.accepted) > 700, 60, "some events")
            second.kill()
            first.wait_until(lambda: len(ledger.accepted) > 1500, 60, "more events")
            third.kill()
            second.start()
            for sender in senders:
                sender.join(60)
        finally:
            finished.set()

        def letters() -> dict[int, bytes]:
            return {
                n: data for g in (first, second, third) for n, data in dead_letters(g.data_dir / "dead-letter").items()
            }

        first.wait_until(lambda: not ledger.accepted - set(ledger.delivered) - set(letters()), 90, "the deliveries")
        assert len(ledger.accepted) == 3000
        assert not ledger.wrong
        assert all(data == body_of(n) for n, data in letters().items())
        duplicates = sum(ledger.delivered.values()) - len(ledger.delivered)
        print(f"{client}: {len(ledger.delivered)} delivered, {len(letters())} dead letters, {duplicates} duplicates")
        assert first.stop() == 0
        assert second.stop() == 0


@pytest.mark.parametrize("client", CLIENTS)
def test_a_trigger_keeps_its_place_and_a_new_one_begins_where_it_says(
    client: str, tmp_path: Path, kafka: KafkaBroker
) -> None:
    with Subscriber() as old, Subscriber() as early, Subscriber() as late:
        config = config_of(kafka, client, old.url)
        with gateways(tmp_path, config, 1) as (gateway,):
            send(gateway.ingress(), 1, 2, 3)
            gateway.wait_until(lambda: len(old.requests) == 3, 60, "three events")
            assert gateway.stop() == 0
            gateway.config.write_text(
                config
                + f"  early: {{subscriber: '{early.url}', start: earliest}}\n  late: {{subscriber: '{late.url}'}}\n"
            )
            gateway.start()
            gateway.wait_until(lambda: len(early.requests) == 3, 60, "the old events")
            send(gateway.ingress(), 4)
            for s in (old, early, late):
                gateway.wait_until(
                    lambda s=s: s.requests[-1:] and s.requests[-1].headers["ce-id"] == "4", 30, "the new one"
                )
            gateway.wait_until(gateway.drained, 60, "the places")
            assert sorted(r.headers["ce-id"] for r in old.requests) == ["1", "2", "3", "4"]
            assert sorted(r.headers["ce-id"] for r in early.requests) == ["1", "2", "3", "4"]
            assert [r.headers["ce-id"] for r in late.requests] == ["4"]
            assert all(r.body == body_of(int(r.headers["ce-id"])) for r in (*old.requests, *early.requests))
            assert gateway.status()["brokers"][0]["channel"]["name"] == "kafka"
            assert gateway.stop() == 0
