"""HTTP -> Kafka -> HTTP while Kafka is killed, while members come and go, while the dead letter is unavailable."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from gateway_java.kafka import KafkaBroker
from gateway_testing import GatewayProcess, Subscriber

from tests.kafka_broker import CLIENTS
from tests.kafka_console import consume
from tests.ledger import Ledger, body_of, dead_letters, key_of, start_senders

IN = """
bridges:
  in:
    source: {http: {listen: "127.0.0.1:0"}}
    sink: {kafka: {bootstrap: "BOOTSTRAP", topic: TOPIC, client: CLIENT, key: partitionkey}}
"""
OUT = """
bridges:
  out:
    source: {kafka: {bootstrap: "BOOTSTRAP", topic: TOPIC, client: CLIENT, group: GROUP, start: earliest, drain_s: 2}}
    sink: URL
    delivery: {backoff_delay_s: 0.05, backoff_max_s: 0.2, order: ORDER}
    dead_letter: LETTER
"""


def filled(text: str, **values: str) -> str:
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def settled(gateway: GatewayProcess, ledger: Ledger) -> bool:
    """Everything that was accepted has arrived or is in the dead letter."""
    return not ledger.accepted - set(ledger.delivered) - set(letters(gateway))


def letters(gateway: GatewayProcess) -> dict[int, bytes]:
    return dead_letters(gateway.data_dir / "dead-letter")


def account(ledger: Ledger, found: dict[int, bytes], what: str) -> None:
    assert not ledger.accepted - set(ledger.delivered) - set(found), "lost"
    assert not ledger.wrong
    assert all(found[n] == body_of(n) for n in found)
    duplicates = sum(ledger.delivered.values()) - len(ledger.delivered)
    print(f"{what}: {len(ledger.accepted)} accepted, {len(ledger.delivered)} delivered, {len(found)} dead letters, "
          f"{duplicates} duplicates at the subscriber")  # fmt: skip


def killed_broker(folder: Path, broker: KafkaBroker, client: str, events: int, kills: int) -> None:
    """Kills the broker `kills` times while `events` go through it; both bridges are in one gateway."""
    ledger, finished, chance = Ledger(refusing=0.02), threading.Event(), random.Random(3)
    with Subscriber(decide=ledger.answer) as s:
        config = IN + OUT.replace("bridges:\n", "")
        config = filled(config, BOOTSTRAP=broker.bootstrap, TOPIC="storm", CLIENT=client, GROUP="storm", URL=s.url)
        config = filled(config, ORDER="key", LETTER="deadletter")
        with GatewayProcess(config, folder) as gateway:
            senders = start_senders(ledger, gateway.ingress("in"), events, finished)
            try:
                for number in range(1, kills + 1):
                    goal = events * number // (kills + 1)
                    gateway.wait_until(lambda goal=goal: len(ledger.accepted) >= goal, 120, f"{goal} accepted events")
                    time.sleep(chance.random() * 0.2)
                    broker.kill()
                    time.sleep(chance.random())
                    broker.start()
                for sender in senders:
                    sender.join(120)
            finally:
                finished.set()
            assert len(ledger.accepted) == events
            gateway.wait_until(lambda: settled(gateway, ledger), 120, "the deliveries")
            account(ledger, letters(gateway), f"{client}, {kills} kills of the broker")
            assert gateway.stop() == 0
    raw: dict[int, int] = {}
    for record in consume(broker.bootstrap, "storm", events):  # there may be more: what was sent twice
        number = int(dict(record.headers)[b"ce_id"] or b"")
        assert record.value == body_of(number)
        assert record.key == key_of(number).encode()
        raw[number] = raw.get(number, 0) + 1
    print(f"{sum(raw.values()) - len(raw)} duplicates among the first {events} records")


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("client", CLIENTS)
def test_nothing_is_lost_when_the_broker_is_killed(
    client: str, tmp_path: Path, own_kafka: Callable[[], KafkaBroker]
) -> None:
    killed_broker(tmp_path, own_kafka(), client, 4000, 2)


@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("client", CLIENTS)
def test_ten_kills_of_the_broker_in_fifty_thousand_events(
    client: str, tmp_path: Path, own_kafka: Callable[[], KafkaBroker]
) -> None:
    killed_broker(tmp_path, own_kafka(), client, 50_000, 10)


def members(folder: Path, config: str, count: int) -> Iterator[GatewayProcess]:
    for number in range(count):
        place = folder / f"member-{number}"
        place.mkdir()
        yield GatewayProcess(config, place)


def rebalances(folder: Path, broker: KafkaBroker, client: str, events: int, changes: int) -> None:
    """One gateway takes events in; members of one group that deliver them come and go, half of them by kill -9."""
    topic = f"rebalance-{uuid4().hex[:8]}"
    ledger, finished, chance = Ledger(refusing=0.02, never=10**9), threading.Event(), random.Random(5)
    with Subscriber(decide=ledger.answer) as s:
        values = {"BOOTSTRAP": broker.bootstrap, "TOPIC": topic, "CLIENT": client, "GROUP": topic, "URL": s.url}
        values |= {"ORDER": "unordered", "LETTER": "deadletter"}
        # a killed member is missed after this; the broker's least is 6 s by default, the test's broker allows less
        deliver = filled(OUT, **values).replace("drain_s: 2", "drain_s: 2, session_timeout_s: 6")
        (folder / "in").mkdir()
        crew = list(members(folder, deliver, 4))
        with GatewayProcess(filled(IN, **values), folder / "in") as ingress:
            senders = start_senders(ledger, ingress.ingress("in"), events, finished)
            running = {0, 1}
            try:
                for number in running:
                    crew[number].start()
                for change in range(changes):
                    goal = events * (change + 1) // (changes + 1)
                    ingress.wait_until(lambda goal=goal: len(ledger.accepted) >= goal, 120, f"{goal} accepted events")
                    number = chance.randrange(len(crew))
                    if number not in running:
                        crew[number].start()
                        running.add(number)
                    elif chance.random() < 0.5:
                        crew[number].kill()
                        running.discard(number)
                    else:
                        assert crew[number].stop() == 0
                        running.discard(number)
                for sender in senders:
                    sender.join(120)
                if not running:
                    crew[0].start()
                ingress.wait_until(lambda: not ledger.accepted - set(ledger.delivered), 120, "the deliveries")
                account(ledger, {}, f"{client}, {changes} changes of members")
            finally:
                finished.set()
                for member in crew:
                    member.__exit__(None, None, None)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("client", CLIENTS)
def test_nothing_is_lost_when_members_come_and_go(client: str, tmp_path: Path, kafka: KafkaBroker) -> None:
    rebalances(tmp_path, kafka, client, 3000, 5)


@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("client", CLIENTS)
def test_members_that_come_and_go_twenty_times(client: str, tmp_path: Path, kafka: KafkaBroker) -> None:
    rebalances(tmp_path, kafka, client, 20_000, 20)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_dead_letter_that_is_away_pauses_and_resumes_by_itself(
    client: str, tmp_path: Path, kafka: KafkaBroker
) -> None:
    topic = f"letters-{uuid4().hex[:8]}"
    never, finished = Ledger(refusing=0, never=5), threading.Event()
    buried: dict[int, bytes] = {}
    down = threading.Event()
    down.set()

    def bury(received) -> int:  # type: ignore[no-untyped-def]
        if down.is_set():
            return 503
        buried[int(received.headers["ce-id"])] = received.body
        return 202

    with Subscriber(decide=never.answer) as s, Subscriber(decide=bury) as letter:
        config = filled(IN + OUT.replace("bridges:\n", ""), BOOTSTRAP=kafka.bootstrap, TOPIC=topic, CLIENT=client)
        config = filled(config, GROUP=topic, URL=s.url, ORDER="partition", LETTER=letter.url)
        config = config.replace("backoff_max_s: 0.2", "backoff_max_s: 0.2, retry: 1")
        with GatewayProcess(config, tmp_path) as gateway:
            senders = start_senders(never, gateway.ingress("in"), 100, finished)
            for sender in senders:
                sender.join(60)

            def out() -> dict[str, object]:
                (found,) = [b for b in gateway.status()["bridges"] if b["name"] == "out"]
                return dict(found)

            gateway.wait_until(lambda: not out()["ready"] and "dead letter" in str(out()["reason"]), 60, "the pause")
            assert not buried
            down.clear()
            gateway.wait_until(lambda: len(buried) + len(never.delivered) == 100, 60, "the rest")
            gateway.wait_until(lambda: out()["ready"], 60, "the bridge to be ready again")
            account(never, buried, client)
            assert set(buried) == {n for n in range(1, 101) if n % 5 == 0}
            assert gateway.stop() == 0
