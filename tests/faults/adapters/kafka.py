"""Kafka: the topic `in` goes through the gateway into the topic `out`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.faults.adapter import Arrived, Place, attributes_of, key_of, read_structured, structured
from tests.faults.kafka_server import KafkaServer
from tests.ledger import body_of

LIMIT_S = 60
PARTITIONS = 4
_GROUP = "gateway-of-the-faults"


class Kafka:
    """Not played: a server that takes no more messages. A broker whose disk is full ends, which is the row of its kill,
    and `min.insync.replicas` counts at most the replicas that a topic has.

    No figures of revoked credentials: in one of two runs under full load nothing more arrived after they were back."""

    name = "kafka"
    server = "kafka"
    server_settings = "group.min.session.timeout.ms=1000"
    ordered = True
    ordered_workers = False  # a worker that was killed delivers what it had stored behind the others

    def __init__(self, client: str = "aiokafka") -> None:
        self.client = client
        self._next = [0] * PARTITIONS  # from here on the topic `out` is to be collected
        self._producer: Producer | None = None  # a new one takes half a second to begin

    def prepare(self, at: Place) -> None:
        assert isinstance(at.server, KafkaServer)
        for topic in ("in", "out"):
            assert at.server.broker.create_topic(topic, PARTITIONS)

    def source(self, at: Place) -> str:
        options = f"group: {_GROUP}, start: earliest, session_timeout_s: 3, client: {self.client}"
        return f"kafka: {{{_login(at)}, topic: in, {options}}}"

    def sink(self, at: Place) -> str:
        options = "delivery_timeout_s: 5, key: partitionkey, codec: {cloudevents: {mode: structured}}"
        return f"{{kafka: {{{_login(at)}, topic: out, client: {self.client}, {options}}}}}"

    def send(self, at: Place, numbers: Sequence[int], acknowledged: Callable[[int], None]) -> None:
        faults: list[Any] = []
        producer = self._producer = self._producer or _producer(at)

        def answer(number: int) -> Callable[[Any, object], None]:
            return lambda fault, _: faults.append(fault) if fault else acknowledged(number)

        for number in numbers:
            value, headers = _record(number)
            producer.produce("in", value, key_of(number), headers=headers, on_delivery=answer(number))
        producer.flush(LIMIT_S + 10)
        if faults:
            raise ConnectionError(str(faults[0]))

    def poison(self, at: Place) -> None:
        producer = _producer(at)
        producer.produce("in", b'{"specversion": "1.0"', headers=[("content-type", b"application/cloudevents+json")])
        assert producer.flush(LIMIT_S + 10) == 0

    def collect(self, at: Place, arrived: Callable[[Arrived], None], ended: threading.Event) -> None:
        consumer = Consumer({**_options(at), "group.id": "collector", "enable.auto.commit": False})
        try:
            consumer.assign([TopicPartition("out", number, offset) for number, offset in enumerate(self._next)])
            while not ended.is_set():
                message: Any = consumer.poll(0.1)
                if message is None or message.error():  # it connects again by itself
                    continue
                arrived(read_structured(message.value()))
                self._next[message.partition()] = message.offset() + 1
        finally:
            consumer.close()

    def evict(self, at: Place) -> None:
        """Another consumer joins the gateway's group, gets a share of the partitions, and leaves them as they are."""
        asyncio.run(_join(at))

    def fill(self, at: Place, full: bool) -> bool:
        return False


async def _join(at: Place) -> None:
    consumer = AIOKafkaConsumer(
        "in",
        bootstrap_servers=_address(at),
        group_id=_GROUP,
        enable_auto_commit=False,
        partition_assignment_strategy=[type("StickyPartitionAssignor", (StickyPartitionAssignor,), {})],
    )
    try:
        async with asyncio.timeout(LIMIT_S):
            await consumer.start()
            while not consumer.assignment():  # noqa: ASYNC110 - the client tells nobody
                await asyncio.sleep(0.05)
    finally:
        await consumer.stop()


def _record(number: int) -> tuple[bytes, Any]:
    """Half of them in binary mode."""
    if number % 2:
        return structured(number), [("content-type", b"application/cloudevents+json")]
    attributes = attributes_of(number)
    headers = [("content-type", attributes.pop("datacontenttype").encode())]
    return body_of(number), [*headers, *((f"ce_{name}", value.encode()) for name, value in attributes.items())]


def _address(at: Place) -> str:
    return f"{at.host}:{at.port}"


def _login(at: Place) -> str:
    sasl = f"sasl: {{mechanism: SCRAM-SHA-512, username: {at.user}, password: {at.password}}}"
    return f'bootstrap: "{_address(at)}", request_timeout_s: 5, {sasl}'


def _options(at: Place) -> dict[str, Any]:
    return {
        "bootstrap.servers": _address(at),
        "reconnect.backoff.max.ms": 500,
        "log.connection.close": False,
        "log_level": 0,
    }


def _producer(at: Place) -> Producer:
    """Idempotent: what it sends again while the broker is down neither changes the order nor is there twice."""
    limit = {"message.timeout.ms": LIMIT_S * 1000}
    return Producer({**_options(at), **limit, "enable.idempotence": True, "linger.ms": 1})


ADAPTER = Kafka
