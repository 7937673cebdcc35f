"""kill -9 of the gateway, again and again, under load: what got a 2xx is nowhere lost."""

from __future__ import annotations

import base64
import http.client
import json
import random
import socket
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gateway_core.testing import GatewayProcess, Received, Subscriber

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


NEVER = 97
"""Every event whose number is a multiple of this is never taken by the subscriber."""


def body_of(number: int) -> bytes:
    """A body of its own for each event: raw bytes, of many sizes."""
    return random.Random(number).randbytes(number % 700) + b"%d" % number


class Ledger:
    """What was sent, what got a 2xx, and what arrived where."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.accepted: set[int] = set()
        self.delivered: dict[int, int] = {}
        self.wrong: list[str] = []
        self._random = random.Random(4)

    def answer(self, received: Received) -> int:
        """The subscriber: one in ten is refused for now, some for ever; bytes are compared."""
        number = int(received.headers["ce-id"])
        with self._lock:
            if number % NEVER == 0 or self._random.random() < 0.1:
                return 503
            if received.body != body_of(number):
                self.wrong.append(received.headers["ce-id"])
            self.delivered[number] = self.delivered.get(number, 0) + 1
        return 202

    def send(self, url: str, numbers: range, finished: threading.Event) -> None:
        """Sends each event until it gets a 2xx; a connection that breaks is opened anew."""
        parts = urlsplit(url)
        connection: http.client.HTTPConnection | None = None
        for number in numbers:
            while not finished.is_set():
                try:
                    if connection is None:
                        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
                    connection.request("POST", parts.path, body_of(number), headers(number))
                    answer = connection.getresponse()
                    answer.read()
                except (OSError, http.client.HTTPException):
                    if connection is not None:
                        connection.close()
                    connection = None
                    time.sleep(0.02)
                    continue
                if 200 <= answer.status < 300:
                    with self._lock:
                        self.accepted.add(number)
                    break
        if connection is not None:
            connection.close()


def headers(number: int) -> dict[str, str]:
    return {
        "ce-specversion": "1.0",
        "ce-id": str(number),
        "ce-source": "/crash",
        "ce-type": "crash.test",
        "content-type": "application/octet-stream",
    }


def start_senders(ledger: Ledger, url: str, count: int, finished: threading.Event) -> list[threading.Thread]:
    """Eight senders share the events."""
    share = -(-count // 8)
    threads = [
        threading.Thread(
            target=ledger.send, args=(url, range(1 + i * share, min(count, (i + 1) * share) + 1), finished)
        )
        for i in range(8)
    ]
    for thread in threads:
        thread.start()
    return threads


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


def dead_letters(folder: Path) -> dict[int, bytes]:
    """Number and bytes of every event in the dead letter."""
    found = {}
    for file in folder.glob("*.jsonl"):
        for line in file.read_bytes().splitlines():
            event = json.loads(line)["event"]
            found[int(event["id"])] = base64.b64decode(event["data_base64"]) if "data_base64" in event else b""
    return found


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
    from gateway_spark.query import session

    spark = session(app="crash-test")
    try:
        rows = spark.read.parquet(str(path)).select("shard", "position", "id", "data").collect()
    finally:
        spark.stop()
    assert len({(r.shard, r.position) for r in rows}) == len(rows), "a log position is in the table twice"
    assert all(bytes(r.data) == body_of(int(r.id)) for r in rows)
    assert {int(r.id) for r in rows} >= ledger.accepted
    assert len(rows) >= accepted


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.spec("DP-07", "BR-17", "BR-18", "DP-18", "BR-16")
def test_nothing_that_got_a_2xx_is_lost_when_the_gateway_is_killed(tmp_path: Path) -> None:
    ledger = Ledger()
    with Subscriber(decide=ledger.answer) as s:
        config = CONFIG.replace("PORT", str(free_port())).replace("URL", s.url)
        with storm(tmp_path, config, 4000, 8, ledger) as gateway:
            gateway.wait_until(gateway.drained, 120, "the deliveries")
            check(ledger, gateway, 4000)


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


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.spec("CARD-03", "DP-07")
def test_each_log_position_is_in_the_spark_table_once_whatever_is_killed(tmp_path: Path) -> None:
    with_spark(tmp_path, 3000, 2, more=1)


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_twenty_kills_in_twenty_thousand_events(tmp_path: Path) -> None:
    with_spark(tmp_path, 20_000, 16, more=4)
