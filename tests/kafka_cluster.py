"""A Kafka cluster of three brokers on this machine. Topics have three replicas, and two must have what is
acknowledged."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from gateway_java.kafka import KafkaBroker, new_cluster_id
from gateway_java.ports import free_ports

NODES = 3
LIMIT_S = 90.0
_SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    # a follower that is down leaves the replicas in sync soon, and a new leader is chosen soon
    "replica.lag.time.max.ms": "3000",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    # a preferred leader that is back leads again: another change of leaders
    "leader.imbalance.check.interval.seconds": "3",
    "leader.imbalance.per.broker.percentage": "0",
}


class KafkaCluster:
    """`with KafkaCluster(folder) as cluster`: its brokers run, and each is a controller as well."""

    def __init__(self, folder: Path) -> None:
        ports = free_ports(2 * NODES)
        plain, controllers = ports[:NODES], ports[NODES:]
        voters = ",".join(f"{n}@127.0.0.1:{port}" for n, port in enumerate(controllers, 1))
        id = new_cluster_id()
        self.brokers = [
            KafkaBroker(
                folder / str(n),
                port=port,
                memory="384m",
                cluster_id=id,
                properties={
                    **_SETTINGS,
                    "node.id": str(n),
                    "controller.quorum.voters": voters,
                    "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
                },
            )
            for n, port, controller in zip(range(1, NODES + 1), plain, controllers, strict=True)
        ]
        self.bootstrap = [broker.bootstrap for broker in self.brokers]

    def __enter__(self) -> KafkaCluster:
        try:
            with ThreadPoolExecutor(NODES) as starting:  # one alone has no majority
                list(starting.map(lambda broker: broker.start(LIMIT_S), self.brokers))
        except BaseException:
            self.kill()
            raise
        self._admin = AdminClient({"bootstrap.servers": ",".join(self.bootstrap), "log_level": 0})
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        for broker in self.brokers:
            broker.kill()

    def create_topic(self, name: str, partitions: int) -> None:
        self._admin.create_topics([NewTopic(name, partitions, NODES)])[name].result(LIMIT_S)

    def leaders(self, topic: str) -> list[int]:
        """The node that leads each partition; -1 if none does."""
        found = self._admin.list_topics(topic, timeout=LIMIT_S).topics[topic].partitions
        return [found[n].leader for n in sorted(found)]

    def wait_until_in_sync(self, *topics: str) -> None:
        """Returns once every replica of these topics has all records."""
        end = time.monotonic() + LIMIT_S
        while True:
            known = self._admin.list_topics(timeout=LIMIT_S).topics
            if all(len(p.isrs) == NODES for topic in topics for p in known[topic].partitions.values()):
                return
            assert time.monotonic() < end, {topic: known[topic].partitions for topic in topics}
            time.sleep(0.1)
