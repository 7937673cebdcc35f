"""`tidegate offsets show|reset`, against a real broker."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from gateway_java.kafka import KafkaBroker
from gateway_kafka.admin import Admin
from gateway_kafka.client_config import KafkaConfig
from gateway_kafka.groups import groups_of
from gateway_testing import GatewayProcess

from gateway_core.cli import main
from gateway_core.config.registry import Registry
from gateway_core.contract.configs import load
from tests import web

pytestmark = pytest.mark.anyio

JAN, FEB = 1_767_225_600_000, 1_769_904_000_000  # 2026, at 00:00 UTC


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def offsets(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """`offsets("show", path)` as `tidegate offsets` on a command line. In async tests call it by `run`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIDEGATE_CONFIG", raising=False)
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    def run(*args: object) -> Ran:
        with pytest.raises(SystemExit) as stopped:
            main(["offsets", *map(str, args)])
        out, err = capsys.readouterr()
        assert isinstance(stopped.value.code, int)
        return Ran(stopped.value.code, out, err)

    return run


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of two partitions: three records in the first (two of January, one of February), none in the second."""

    bootstrap: str
    name: str
    group: str

    @property
    def where(self) -> tuple[str, ...]:
        return "--bootstrap", self.bootstrap, "--group", self.group, "--topic", self.name

    async def places(self) -> list[int | None]:
        async with Admin(self.options) as admin:
            found = await admin.committed(self.group, [(self.name, 0), (self.name, 1)])
        return [found[self.name, n] for n in (0, 1)]

    async def commit(self, offsets: Mapping[int, int]) -> None:
        async with Admin(self.options) as admin:
            await admin.commit(self.group, {(self.name, n): offset for n, offset in offsets.items()})

    @property
    def options(self) -> KafkaConfig:
        return KafkaConfig(bootstrap=[self.bootstrap])


@pytest.fixture
async def topic(kafka: KafkaBroker) -> Topic:
    made = Topic(kafka.bootstrap, f"places-{uuid.uuid4().hex}", f"group-{uuid.uuid4().hex}")
    kafka.create_topic(made.name, 2)
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap)
    await producer.start()
    for time in (JAN, JAN + 1, FEB):
        await producer.send_and_wait(made.name, b"x", partition=0, timestamp_ms=time)
    await producer.stop()
    return made


@asynccontextmanager
async def member(topic: Topic) -> AsyncIterator[None]:
    """Someone who reads as a member of the group."""
    consumer = AIOKafkaConsumer(
        topic.name,
        bootstrap_servers=topic.bootstrap,
        group_id=topic.group,
        client_id="billing-7",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    await consumer.start()
    try:
        await consumer.getone()
        yield
    finally:
        await consumer.stop()


async def run(command: Run, *args: object) -> Ran:
    return await anyio.to_thread.run_sync(lambda: command(*args))


# -- show ---------------------------------------------------------------------------------------------------------


async def test_show_says_where_a_group_is(topic: Topic, offsets: Run) -> None:
    await topic.commit({0: 1})
    shown = await run(offsets, "show", *topic.where)
    assert shown.out.splitlines() == [
        f"group={topic.group} topic={topic.name} partition=0 committed=1 end=3 lag=2",
        f"group={topic.group} topic={topic.name} partition=1 committed=none end=0 lag=none",
    ]
    (found,) = json.loads((await run(offsets, "show", *topic.where, "--json")).out)["groups"]
    assert (found["lag"], found["members"], found["bootstrap"]) == (2, [], [topic.bootstrap])
    assert found["partitions"][0] == {
        "topic": topic.name,
        "partition": 0,
        "first": 0,
        "end": 3,
        "committed": 1,
        "lag": 2,
    }


async def test_show_knows_all_groups_of_a_config(topic: Topic, offsets: Run, tmp_path: Path) -> None:
    config = tmp_path / "tidegate.yaml"
    config.write_text(CONFIG.format(bootstrap=topic.bootstrap, topic=topic.name, group=topic.group))
    found = json.loads((await run(offsets, "show", "--json")).out)["groups"]
    assert [(g["group"], g["owners"], g["missing"]) for g in found] == [
        (topic.group, ["brokers.nowhere.ingress[0]", "bridges.shared.source"], ["other-" + topic.name]),
        (f"{topic.name}.nowhere.late", ["triggers.late"], ["tidegate.nowhere"]),
        ("tidegate.second.all", ["triggers.all"], []),
        ("tidegate.own", ["bridges.own.source"], []),
    ]
    narrowed = await run(offsets, "show", "--topic", topic.name, "--group", "tidegate.own")
    assert [line.split()[0] for line in narrowed.out.splitlines()] == ["group=tidegate.own"] * 2
    assert "did you mean `tidegate.own`?" in (await run(offsets, "show", "--group", "tidegate.on")).err
    assert f"topic other-{topic.name} does not exist yet" in (await run(offsets, "show")).err


CONFIG = """\
brokers:
  nowhere:
    ingress: [{{kafka: {{bootstrap: "{bootstrap}", topic: {topic}, group: {group}}}}}]
    channel: {{kafka: {{bootstrap: "{bootstrap}", group_prefix: {topic}}}}}
  second:
    channel: {{kafka: {{bootstrap: "{bootstrap}", topic: {topic}}}}}
triggers:
  late: {{broker: nowhere, subscriber: stdout}}
  all: {{broker: second, subscriber: stdout}}
bridges:
  shared: {{source: {{kafka: {{bootstrap: "{bootstrap}", topic: other-{topic}, group: {group}}}}}, sink: stdout}}
  own: {{source: {{kafka: {{bootstrap: "{bootstrap}", topic: {topic}}}}}, sink: stdout}}
"""


# -- reset --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        ("earliest", [0, 0]),
        ("latest", [3, 0]),
        ("1", [1, 0]),
        ("99", [3, 0]),
        ("2026-01-01T01:00:00+01:00", [0, 0]),
        ("2026-01-15T00:00:00Z", [2, 0]),
        ("2026-03-01T00:00:00Z", [3, 0]),
    ],
)
async def test_reset_moves_a_group(topic: Topic, offsets: Run, to: str, expected: list[int]) -> None:
    await topic.commit({0: 2})
    before = await topic.places()
    looked = await run(offsets, "reset", *topic.where, "--to", to, "--dry-run")
    assert (looked.code, await topic.places()) == (0, before)
    assert [int(line.split("to=")[1].split()[0]) for line in looked.out.splitlines()[:2]] == expected
    moved = json.loads((await run(offsets, "reset", *topic.where, "--to", to, "--yes", "--json")).out)
    assert ([p["to"] for p in moved["partitions"]], moved["applied"]) == (expected, True)
    assert await topic.places() == expected
    again = await run(offsets, "reset", *topic.where, "--to", to, "--yes")
    assert (again.code, again.out.splitlines()[-1]) == (0, "the group is already there")


async def test_reset_of_one_partition_leaves_the_others(topic: Topic, offsets: Run) -> None:
    await topic.commit({0: 3})
    assert (await run(offsets, "reset", *topic.where, "--to", "earliest", "--partition", 1, "-y")).code == 0
    assert await topic.places() == [3, 0]
    unknown = await run(offsets, "reset", *topic.where, "--to", "earliest", "--partition", 2, "-y")
    assert (unknown.code, f"{topic.name} has no partition 2" in unknown.err) == (1, True)


async def test_reset_refuses_while_the_group_has_members(topic: Topic, offsets: Run) -> None:
    await topic.commit({0: 1})
    async with member(topic):
        refused = await run(offsets, "reset", *topic.where, "--to", "latest", "--yes")
        (shown,) = json.loads((await run(offsets, "show", *topic.where, "--json")).out)["groups"]
    assert (refused.code, refused.out) == (1, "")
    assert f"the group {topic.group} has 1 member (billing-7 at 127.0.0.1): stop the gateways" in refused.err
    assert shown["members"] == ["billing-7 at 127.0.0.1"]
    assert await topic.places() == [1, None]
    assert (await run(offsets, "reset", *topic.where, "--to", "latest", "--yes")).code == 0


@pytest.mark.parametrize(("answer", "code", "expected"), [("n", 1, [1, None]), ("y", 0, [3, 0])])
async def test_reset_asks_on_a_terminal(topic: Topic, answer: str, code: int, expected: list[int | None]) -> None:
    await topic.commit({0: 1})
    command = [sys.executable, "-m", "gateway_core.cli", "offsets", "reset", *topic.where, "--to", "latest"]
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "wb"), os.fdopen(theirs, "rb") as terminal:
        os.write(ours, f"{answer}\n".encode())
        done = await anyio.to_thread.run_sync(
            lambda: subprocess.run(command, stdin=terminal, capture_output=True, text=True, timeout=60)
        )
    assert (done.returncode, await topic.places()) == (code, expected)
    assert "Move 2 partitions?" in done.stderr


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["reset", "--to", "tomorrow"], 2, "not 'tomorrow'"),
        (["reset", "--to", "2026-01-31T08:00:00"], 2, "must be earliest, latest, an offset, or a time"),
        (["reset", "--to", "latest"], 2, "add --yes"),
        (["show", "tidegate.yaml"], 2, "not both"),
    ],
)
def test_a_wrong_command_line_is_told(offsets: Run, args: list[str], code: int, words: str) -> None:
    done = offsets(*args, "--bootstrap", "127.0.0.1:1", "--group", "g", "--topic", "t")
    assert (done.code, words in " ".join(done.err.replace("│", "").split())) == (code, True), done.err


def test_a_cluster_that_is_away_is_told(offsets: Run) -> None:
    away = offsets("show", "--bootstrap", "127.0.0.1:1", "--group", "g", "--topic", "t")
    assert (away.code, away.out) == (1, "")
    assert away.err.startswith("tidegate: group g: Kafka at 127.0.0.1:1: ")
    assert len(away.err.splitlines()) == 1


# -- with a gateway -----------------------------------------------------------------------------------------------


async def test_a_gateway_delivers_again_from_where_it_was_put(kafka: KafkaBroker, offsets: Run, tmp_path: Path) -> None:
    name = f"again{uuid.uuid4().hex}"
    config = GATEWAY.format(bootstrap=kafka.bootstrap, name=name)
    gateway = GatewayProcess(config, tmp_path)
    group = groups_of(load([gateway.config], Registry.installed()))[0].name

    def lines() -> int:
        file = tmp_path / "out.jsonl"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def place() -> dict[str, Any]:
        (found,) = json.loads(offsets("show", gateway.config, "--json").out)["groups"]
        return {"lag": found["lag"], "committed": sum(p["committed"] for p in found["partitions"])}

    def all_of_it() -> None:
        with gateway:
            assert "has 1 member" in offsets("reset", gateway.config, "--group", group, "--to", "0", "-y").err
            for id in range(3):
                post(gateway.ingress(name), id)
            gateway.wait_until(lambda: lines() == 3)
            gateway.wait_until(lambda: place() == {"lag": 0, "committed": 3})
            assert gateway.stop() == 0
            assert offsets("reset", gateway.config, "--group", group, "--to", "earliest", "-y").code == 0
            assert place() == {"lag": 3, "committed": 0}
            gateway.start()
            gateway.wait_until(lambda: lines() == 6)

    await anyio.to_thread.run_sync(all_of_it)


def post(url: str, id: int) -> None:
    answer = web.post(
        url, headers={"ce-specversion": "1.0", "ce-id": str(id), "ce-source": "/s", "ce-type": "t"}, verify=False
    )
    assert answer.status_code == 202, answer.text


GATEWAY = """\
brokers:
  {name}:
    ingress: [{{http: {{listen: "127.0.0.1:0"}}}}]
    channel: {{kafka: {{bootstrap: "{bootstrap}", partitions: 2}}}}
triggers:
  out: {{broker: {name}, subscriber: {{file: {{path: out.jsonl}}}}}}
"""
