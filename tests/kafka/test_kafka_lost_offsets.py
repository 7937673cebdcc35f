"""Consumer groups whose offsets the cluster has forgotten."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import anyio
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from gateway_java.kafka import KafkaBroker
from gateway_kafka.admin import Admin
from gateway_kafka.client_config import KafkaConfig
from gateway_testing import GatewayProcess, Subscriber
from gateway_testing.suites.kit import until

from tests import web
from tests.command_line import tidegate
from tests.kafka.test_kafka_recreate import recreate
from tests.kafka.test_kafka_source import Topic
from tests.kafka_broker import TWIN_CLIENTS, channel_config


def forget(kafka: KafkaBroker, group: str) -> None:
    """As the cluster does when `offsets.retention.minutes` are over. librdkafka does not wait for the broker to confirm
    that a member has left, so the group may have members for a moment."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})  # which must outlive its question
    for tries_left in reversed(range(100)):
        try:
            admin.delete_consumer_groups([group])[group].result(60)
        except KafkaException as e:
            if e.args[0].code() != KafkaError.NON_EMPTY_GROUP or not tries_left:
                raise
            time.sleep(0.2)
        else:
            return


def source(kafka: KafkaBroker, folder: Path, name: str, client: str) -> Topic:
    topic = Topic(kafka, folder, 2, client=client, start="latest", topic=name, group=name)
    topic.name = name
    return topic


@pytest.mark.anyio
@pytest.mark.spec("SAFE-62")
@pytest.mark.parametrize("client", TWIN_CLIENTS)
async def test_a_source_whose_place_is_forgotten_waits_for_somebody_to_say_where_it_begins(
    kafka: KafkaBroker, tmp_path: Path, client: str
) -> None:
    name = f"forgotten-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(name, 2)
    topic = source(kafka, tmp_path, name, client)
    async with topic.read() as intake:
        topic.write("a", "b")
        await until(lambda: intake.taken == ["a", "b"] and topic.lag == 0, "the first events")
    topic.write("c")  # while no gateway runs
    await anyio.to_thread.run_sync(forget, kafka, name)
    topic = source(kafka, tmp_path, name, client)
    async with topic.read() as intake:
        info = topic.source.info()  # type: ignore[attr-defined]
        assert f"tidegate offsets reset --group {name}" in info["error"]
        await anyio.sleep(2)
        assert intake.taken == []
        async with Admin(KafkaConfig(bootstrap=[kafka.bootstrap])) as admin:
            await admin.commit(name, {(name, 0): 2, (name, 1): 0})
        await until(lambda: intake.taken == ["c"], "what came meanwhile")
        assert topic.source.info()["error"] is None  # type: ignore[attr-defined]


@pytest.mark.anyio
@pytest.mark.spec("SAFE-57")
async def test_a_topic_that_was_made_anew_while_nobody_read_it_is_read_from_its_beginning(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    name = f"renewed-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(name, 2)
    topic = source(kafka, tmp_path, name, "aiokafka")
    async with topic.read() as intake:
        topic.write("a")
        await until(lambda: intake.taken == ["a"] and topic.lag == 0, "the first event")
    await anyio.to_thread.run_sync(recreate, kafka, name, 2)
    topic.write("b")
    topic = source(kafka, tmp_path, name, "aiokafka")
    async with topic.read() as intake:
        await until(lambda: intake.taken == ["b"], "the event of the new topic")


@pytest.mark.spec("SAFE-62")
def test_a_trigger_whose_place_is_forgotten_says_so_and_how_to_go_on(kafka: KafkaBroker, tmp_path: Path) -> None:
    with Subscriber() as subscriber:
        config = channel_config(kafka, "aiokafka")
        config += f"  one: {{broker: default, subscriber: '{subscriber.url}/one'}}\n"
        config += f"  two: {{broker: default, subscriber: '{subscriber.url}/two'}}\n"
        gateway = GatewayProcess(config, tmp_path)

        def post(id: str) -> None:
            event = {"ce-specversion": "1.0", "ce-id": id, "ce-source": "/s", "ce-type": "t"}
            assert web.post(gateway.ingress(), headers=event, timeout=30, verify=False).status_code == 202

        def arrived(path: str) -> list[str]:
            return [r.headers["ce-id"] for r in list(subscriber.requests) if r.path == path]

        with gateway:
            post("1")
            gateway.wait_until(lambda: arrived("/one") == arrived("/two") == ["1"], 60, "the first event")
            (group, _) = sorted(gateway.status()["brokers"][0]["channel"]["groups"])
            assert gateway.stop() == 0
            forget(kafka, group)
            gateway.start()
            post("2")
            gateway.wait_until(lambda: arrived("/two") == ["1", "2"], 60, "the event at the other trigger")
            trigger = gateway.trigger("one")
            assert not trigger["ready"]
            assert f"tidegate offsets reset --group {group} --to earliest" in str(trigger)
            assert arrived("/one") == ["1"]
            words = ("offsets", "reset", "--group", group, "--to", "earliest", "--yes", gateway.config)
            assert tidegate(*words).returncode == 0
            gateway.wait_until(lambda: set(arrived("/one")) == {"1", "2"}, 60, "what came meanwhile")
            gateway.wait_until(lambda: gateway.trigger("one")["ready"], 60, "the trigger to be ready")
            assert gateway.stop() == 0
        assert "can't be joined yet" in gateway.stderr.read_text()
