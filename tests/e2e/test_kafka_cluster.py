"""A cluster of three brokers that go away one after the other under load: leaders of partitions change, and the
coordinators of groups, and nothing is lost or out of order."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from gateway_java.kafka import KafkaBroker
from gateway_testing import GatewayProcess, Received, Subscriber

from tests.kafka_cluster import KafkaCluster
from tests.ledger import Ledger, free_port, key_of, start_senders

pytestmark = [pytest.mark.full, pytest.mark.timeout(900), pytest.mark.usefixtures("own_kafka")]

PARTITIONS = 6
AWAY_S = 4.0  # in which the others take over
EVENTS = 1_000_000  # more than are sent while the brokers restart; each of the eight senders has its share of them
CONFIG = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:PORT"}
    channel:
      kafka: {bootstrap: BOOTSTRAP, topic: channel, client: CLIENT, key: partitionkey, session_timeout_s: 6}
    delivery: {order: key, retry: 1000, backoff_delay_s: 0.05, backoff_max_s: 0.2}
triggers:
  all: {subscriber: URL}
"""


class Ordered(Ledger):
    """A subscriber that also notes the order in which the events of a key and sender come first."""

    def __init__(self) -> None:
        super().__init__(refusing=0.0, never=1 << 60)
        self.firsts: dict[tuple[str, int], list[int]] = {}

    def answer(self, received: Received) -> int:
        number = int(received.headers["ce-id"])
        if number not in self.delivered:
            self.firsts.setdefault((key_of(number), (number - 1) // (EVENTS // 8)), []).append(number)
        return super().answer(received)


def kill(broker: KafkaBroker, _: KafkaBroker) -> None:
    broker.kill()
    time.sleep(AWAY_S)
    broker.start()


def stop(broker: KafkaBroker, _: KafkaBroker) -> None:
    broker.stop()
    time.sleep(AWAY_S)
    broker.start()


def freeze(broker: KafkaBroker, _: KafkaBroker) -> None:
    """A leader that is frozen keeps its connections, and takes itself for the leader when it wakes up."""
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGSTOP)
    time.sleep(2 * AWAY_S)
    os.kill(broker.pid, signal.SIGCONT)


def kill_two(broker: KafkaBroker, other: KafkaBroker) -> None:
    """The third alone may neither take records nor choose leaders."""
    broker.kill()
    other.kill()
    time.sleep(AWAY_S)
    broker.start()
    other.start()


@pytest.mark.parametrize("client", ["aiokafka", "confluent"])
@pytest.mark.parametrize("fault", [kill, stop, freeze, kill_two], ids=["kill -9", "SIGTERM", "SIGSTOP", "two"])
def test_a_fault_of_each_broker_in_turn_loses_nothing(
    tmp_path: Path, client: str, fault: Callable[[KafkaBroker, KafkaBroker], None]
) -> None:
    ledger, finished = Ordered(), threading.Event()
    with KafkaCluster(tmp_path / "kafka") as cluster, Subscriber(decide=ledger.answer) as subscriber:
        cluster.create_topic("channel", PARTITIONS)
        text = CONFIG.replace("PORT", str(free_port())).replace("URL", subscriber.url).replace("CLIENT", client)
        with GatewayProcess(text.replace("BOOTSTRAP", str(cluster.bootstrap)), tmp_path) as gateway:
            senders = start_senders(ledger, gateway.ingress(), EVENTS, finished)
            led: set[int] = set()
            for broker, other in pairwise([*cluster.brokers, cluster.brokers[0]]):
                before = len(ledger.accepted)
                led |= set(cluster.leaders("channel"))
                fault(broker, other)
                cluster.wait_until_in_sync("channel", "__consumer_offsets")
                gateway.wait_until(lambda before=before: len(ledger.accepted) > before + 500, 60, "events again")
            finished.set()
            for sender in senders:
                sender.join(60)
            gateway.wait_until(lambda: ledger.accepted <= ledger.delivered.keys(), 120, "all that was accepted")
            trigger = gateway.trigger("all")
            assert gateway.stop() == 0
    assert led == {1, 2, 3}
    assert ledger.wrong == []
    assert trigger["dead_lettered"] == 0
    assert all(numbers == sorted(numbers) for numbers in ledger.firsts.values())
    again = sum(count - 1 for count in ledger.delivered.values())
    print(f"{client}, {fault.__name__}: {len(ledger.accepted)} accepted, {again} arrived again")
