"""With a version of aiokafka that the plugin does not know, it uses public functions only; events are delivered."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from gateway_java.kafka import KafkaBroker
from gateway_kafka.admin import Admin, NoTopic
from gateway_kafka.aio.public import PublicWays
from gateway_kafka.aio.versions import unknown
from gateway_kafka.aio.ways import ways
from gateway_kafka.client import GroupActive, KafkaFault
from gateway_kafka.client_config import KafkaConfig
from gateway_testing import GatewayProcess, Subscriber

from tests.command_line import tidegate
from tests.kafka.test_kafka_consumers import member
from tests.kafka.test_kafka_producers import Answers, producing, read

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def unknown_version(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TIDEGATE_AIOKAFKA", "public")
    assert isinstance(ways(), PublicWays)
    yield
    monkeypatch.delenv("TIDEGATE_AIOKAFKA")
    assert not isinstance(ways(), PublicWays)


async def test_records_are_written_in_order_and_read_on_from_the_committed_offsets(kafka: KafkaBroker) -> None:
    topic, group = f"public-{uuid.uuid4().hex[:8]}", f"public-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(topic, 3)
    async with producing(bootstrap=kafka.bootstrap) as producer:
        answers = Answers(producer, topic)
        for number in range(500):
            await answers.room(100)
            answers.send(b"%d" % (number % 7), b"%d" % number, [("n", b"%d" % number)])
        assert await answers.all() == {}
    by_key: dict[bytes, list[int]] = {}
    for record in await read(kafka.bootstrap, topic, 500):
        by_key.setdefault(record.key, []).append(int(record.value))
    assert by_key == {b"%d" % key: list(range(key, 500, 7)) for key in range(7)}

    async with member("aiokafka", kafka.bootstrap, group, topic) as first:
        await first.until(lambda: len(first.values) == 500)
        assert first.consumer is not None
        await first.consumer.commit(dict(first.next))
    async with producing(bootstrap=kafka.bootstrap) as producer:
        answers = Answers(producer, topic)
        answers.send(None, b"new")
        assert await answers.all() == {}
    async with member("aiokafka", kafka.bootstrap, group, topic) as second:
        await second.until(lambda: bool(second.values))
        assert second.values == [b"new"]
        assert second.consumer is not None
        assert second.consumer.fault is None
    assert first.wrong == second.wrong == []


async def test_a_new_member_takes_partitions_over(kafka: KafkaBroker) -> None:
    topic, group = f"public-{uuid.uuid4().hex[:8]}", f"public-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(topic, 2)
    async with member("aiokafka", kafka.bootstrap, group, topic) as first:
        await first.until(lambda: len(first.ours) == 2)
        async with member("aiokafka", kafka.bootstrap, group, topic) as second:
            await second.until(lambda: len(second.ours) == 1)
            await first.until(lambda: len(first.ours) == 1)
        await first.until(lambda: len(first.ours) == 2)
    assert first.wrong == second.wrong == []


async def test_topics_offsets_and_groups_are_looked_after(kafka: KafkaBroker) -> None:
    topic, group = f"public-{uuid.uuid4().hex[:8]}", f"public-{uuid.uuid4().hex[:8]}"
    async with Admin(KafkaConfig(bootstrap=[kafka.bootstrap])) as admin:
        with pytest.raises(NoTopic):
            await admin.partitions([topic])
        await admin.ensure_topic(topic, 2, None)
        await admin.ensure_topic(topic, 5, 1)  # is there
        both = await admin.partitions([topic])
        assert both == [(topic, 0), (topic, 1)]
        async with producing(bootstrap=kafka.bootstrap) as producer:
            answers = Answers(producer, topic)
            for _ in range(10):
                answers.send(b"key", b"value")
            assert await answers.all() == {}
        assert await admin.beginnings(both) == dict.fromkeys(both, 0)
        ends = await admin.ends(both)
        assert sum(ends.values()) == 10
        assert await admin.at_time(both, 0) == dict.fromkeys(both, 0)
        assert await admin.at_time(both, 2**42) == ends
        await admin.prepare(group, [topic], "latest")
        assert await admin.committed(group, both) == ends
        assert group in await admin.groups()
        assert await admin.members(group) == []
        async with member("aiokafka", kafka.bootstrap, group, topic) as reading:
            await reading.until(lambda: len(reading.ours) == 2)
            assert len(await admin.members(group)) == 1
            with pytest.raises(GroupActive):
                await admin.commit(group, dict.fromkeys(both, 0))
        assert await admin.committed(group, both) == ends
        with pytest.raises(KafkaFault, match="use Kafka's own tools"):
            await admin.delete_group(group)


async def test_an_address_where_nobody_listens_is_named_with_the_reason() -> None:
    with pytest.raises(KafkaFault, match="Connection refused"):
        async with Admin(KafkaConfig(bootstrap=["127.0.0.1:1"], request_timeout_s=2)):
            pass


CONFIG = """
brokers:
  default:
    ingress: [{{http: {{listen: "127.0.0.1:0"}}}}]
    channel:
      kafka: {{bootstrap: "{bootstrap}", topic: {topic}, group_prefix: {topic}, client: {client}}}
    dead_letter: {{stdout: {{}}}}
triggers:
  all: {{broker: default, subscriber: "{url}"}}
"""


@pytest.mark.parametrize("installed", ["0.13.9", "0.15.0", "1.0.0", "0.140.0"])
def test_other_versions_are_not_known(installed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_AIOKAFKA", "")
    assert unknown(installed).endswith(f"and {installed} is installed")
    assert unknown("0.14.7") == ""


@pytest.mark.usefixtures("processes")
def test_a_gateway_delivers_and_says_once_in_its_log_why_it_goes_the_public_way(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = f"public-{uuid.uuid4().hex[:8]}"
    with Subscriber() as subscriber:
        config = CONFIG.format(bootstrap=kafka.bootstrap, topic=topic, client="aiokafka", url=subscriber.url)
        with GatewayProcess(config, tmp_path, {"TIDEGATE_AIOKAFKA": "public"}) as gateway:
            for number in range(20):
                headers = {"ce-id": str(number), "ce-source": "/s", "ce-type": "t", "ce-specversion": "1.0"}
                assert httpx.post(gateway.ingress(), headers=headers, verify=False).status_code == 202
            received = subscriber.wait_for(20)
            assert sorted(int(one.headers["ce-id"]) for one in received) == list(range(20))
            log = gateway.log()
    assert log.count("only public functions of aiokafka are used") == 1
    assert "TIDEGATE_AIOKAFKA is `public`" in log


@pytest.mark.parametrize(("client", "warned"), [("aiokafka", True), ("confluent", False)])
def test_check_warns_of_a_version_that_is_not_known(tmp_path: Path, client: str, warned: bool) -> None:
    file = tmp_path / "tidegate.yaml"
    file.write_text(CONFIG.format(bootstrap="127.0.0.1:9", topic="t", client=client, url="http://127.0.0.1:9"))
    data = {"TIDEGATE_DATA_DIR": str(tmp_path / "data")}
    run = tidegate("check", "--json", file, env=data | {"TIDEGATE_AIOKAFKA": "public"})
    assert run.returncode == 0
    assert ("only public functions of aiokafka are used" in run.stdout) == warned
    assert "aiokafka" not in tidegate("check", "--json", file, env=data).stdout


@pytest.mark.parametrize("owner", ["broker", "trigger"])
def test_check_warns_of_a_version_that_only_a_dead_letter_uses(tmp_path: Path, owner: str) -> None:
    dead_letter = "dead_letter: {kafka: {bootstrap: '127.0.0.1:9', topic: t}}"
    of_broker, of_trigger = (dead_letter, "") if owner == "broker" else ("", f", {dead_letter}")
    file = tmp_path / "tidegate.yaml"
    file.write_text(
        f"brokers: {{default: {{{of_broker}}}}}\n"
        f"triggers: {{t: {{broker: default, subscriber: 'http://127.0.0.1:9'{of_trigger}}}}}\n"
    )
    env = {"TIDEGATE_DATA_DIR": str(tmp_path / "data"), "TIDEGATE_AIOKAFKA": "public"}
    run = tidegate("check", "--json", file, env=env)
    assert run.returncode == 0, run.stdout
    assert "only public functions of aiokafka are used" in run.stdout
    assert f"{owner}s.{'default' if owner == 'broker' else 't'}.dead_letter" in run.stdout
