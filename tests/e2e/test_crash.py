"""kill -9 of the gateway, again and again, under load: what got a 2xx is nowhere lost."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest
from gateway_testing import GatewayProcess, Subscriber

from tests.ledger import NEVER, Ledger, body_of, dead_letters, free_port, start_senders
from tests.spark.table_files import rows

CONFIG = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:PORT"}
triggers:
  subscriber:
    subscriber: URL
    delivery: {retry: 4, backoff_delay_s: 0.05, backoff_max_s: 0.2}
"""

SPARK = """
  table:
    subscriber: {spark: {path: TABLE, trigger_interval_s: 0.2}}
    start: earliest
"""


def storm(tmp_path: Path, config: str, events: int, kills: int, ledger: Ledger) -> GatewayProcess:
    """Loads a gateway and kills it `kills` times meanwhile; returns it running, with every event accepted."""
    gateway = GatewayProcess(config, tmp_path)
    gateway.start()
    finished = threading.Event()
    senders = start_senders(ledger, gateway.ingress(), events, finished)
    chance = random.Random(7)
    try:
        for number in range(1, kills + 1):
            # spread over the load: each kill waits for its share of the events
            goal = events * number // (kills + 1)
            gateway.wait_until(lambda goal=goal: len(ledger.accepted) >= goal, 120, f"{goal} accepted events")
            time.sleep(chance.random() * 0.2)
            gateway.kill()
            gateway.start()
        for sender in senders:
            sender.join(120)
    finally:
        finished.set()
    assert len(ledger.accepted) == events
    return gateway


def check(ledger: Ledger, gateway: GatewayProcess, events: int) -> None:
    """Every accepted event is delivered or dead-lettered, bytes equal."""
    letters = dead_letters(gateway.data_dir / "dead-letter")
    lost = ledger.accepted - set(ledger.delivered) - set(letters)
    assert not lost
    assert not ledger.wrong
    assert all(letters[n] == body_of(n) for n in letters)
    never = {n for n in range(1, events + 1) if n % NEVER == 0}
    assert never <= set(letters)
    assert not never & set(ledger.delivered)
    duplicates = sum(ledger.delivered.values()) - len(ledger.delivered)
    print(f"{events} accepted, {len(ledger.delivered)} delivered, {len(letters)} dead letters, {duplicates} duplicates")


def table_equals(path: Path, ledger: Ledger, accepted: int) -> None:
    """The table has each log position once, and every accepted event with its bytes."""
    found = rows(path, "parquet", ["shard", "position", "id", "data"])
    assert len({(r["shard"], r["position"]) for r in found}) == len(found), "a log position is in the table twice"
    assert all(r["data"] == body_of(int(r["id"])) for r in found)
    assert {int(r["id"]) for r in found} >= ledger.accepted
    assert len(found) >= accepted


@pytest.mark.timeout(300)
@pytest.mark.spec("DP-07", "BR-17", "BR-18", "DP-18", "BR-16")
@pytest.mark.usefixtures("processes")
def test_nothing_that_got_a_2xx_is_lost_when_the_gateway_is_killed(tmp_path: Path) -> None:
    ledger = Ledger()
    with Subscriber(decide=ledger.answer) as s:
        config = CONFIG.replace("PORT", str(free_port())).replace("URL", s.url)
        with storm(tmp_path, config, 2500, 5, ledger) as gateway:
            gateway.wait_until(gateway.drained, 120, "the deliveries")
            check(ledger, gateway, 2500)


def with_spark(tmp_path: Path, events: int, kills: int, more: int) -> None:
    ledger = Ledger()
    table = tmp_path / "table"
    with Subscriber(decide=ledger.answer) as s:
        config = (CONFIG + SPARK).replace("PORT", str(free_port())).replace("URL", s.url).replace("TABLE", str(table))
        with storm(tmp_path, config, events, kills, ledger) as gateway:
            # and more while Spark is certainly at work
            for _ in range(more):
                gateway.wait_until(lambda: gateway.trigger("table")["ready"], 120, "Spark to run")
                gateway.kill()
                gateway.start()
            gateway.wait_until(lambda: gateway.trigger("table")["ready"], 120, "Spark to run")
            gateway.wait_until(gateway.drained, 240, "the deliveries")
            end = sum(b["channel"]["events"] for b in gateway.status()["brokers"])
            check(ledger, gateway, events)
            assert gateway.stop() == 0
        table_equals(table, ledger, events)
        print(f"{end} events in the log (an event whose 2xx was lost to a kill was sent again)")


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.spec("CARD-03", "DP-07")
@pytest.mark.usefixtures("own_spark")
def test_twenty_kills_in_twenty_thousand_events(tmp_path: Path) -> None:
    with_spark(tmp_path, 20_000, 16, more=4)
