"""Replays to all triggers in a running gateway: what its broker does not take stays."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
import pytest
from gateway_deadletter import line as line_format
from gateway_deadletter import replays as module
from gateway_deadletter.dead_letters import Query
from gateway_deadletter.replay import Replay
from gateway_deadletter.replays import Replays

from gateway_core.config.registry import Registry
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.errors import Refused, StorageError
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Accepted
from gateway_core.contract.settings import Settings
from gateway_core.runtime.gateway import Gateway

pytestmark = [pytest.mark.anyio, pytest.mark.spec("CO-41")]


def bury(tmp_path: Path, count: int, **more: str) -> Path:
    file = tmp_path / "data" / "dead-letter" / "default.jsonl"
    file.parent.mkdir(parents=True)
    facts = {"specversion": "1.0", "source": "/t", "type": "t", "tidegatetrigger": "own", **more}
    lines = [line_format.write(Event({**facts, "id": str(n)}), n + 1) for n in range(count)]
    file.write_bytes(b"".join(line + b"\n" for line in lines))
    return file


async def ran(tmp_path: Path, publish: Callable[[Sequence[Event], Accepted], None]) -> Replay:
    config = GatewayConfig.model_validate({"brokers": {"default": {}}})
    gateway = Gateway(config, Settings(data_dir=tmp_path / "data"), Registry.installed())
    gateway.topology.brokers["default"].publish = publish  # type: ignore[method-assign, assignment]
    gateway.started = True
    replays = Replays(gateway)
    async with anyio.create_task_group() as tasks:
        replays.begin(tasks)
        replay = replays.new(Query(), 0, "somebody", "here")
        replay.all_triggers = True
        return replays.start(replay)
    raise AssertionError


def left(file: Path) -> list[str]:
    return [str(line_format.read(line)[1].attributes["id"]) for line in file.read_bytes().splitlines()]


@pytest.mark.pure
async def test_what_is_refused_stays(tmp_path: Path) -> None:
    file = bury(tmp_path, 150)

    def publish(events: Sequence[Event], done: Accepted) -> None:
        (event,) = events
        assert "tidegatetrigger" not in event.attributes
        done(Refused("no") if event.attributes["id"] in ("3", "140") else None)

    replay = await ran(tmp_path, publish)
    assert (replay.state, replay.accepted, replay.refused, replay.removed) == ("done", 148, 2, 148)
    assert [reason for _, reason in replay.faults] == ["no", "no"]
    assert left(file) == ["3", "140"]
    (line,) = (tmp_path / "data" / "audit" / "audit.jsonl").read_text().splitlines()
    assert (json.loads(line)["who"], json.loads(line)["result"], json.loads(line)["left"]) == ("somebody", "failed", 2)


@pytest.mark.pure
@pytest.mark.parametrize("times", [2, 100])
async def test_a_channel_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    monkeypatch.setattr(module, "_WAIT_S", 0.0)
    file = bury(tmp_path, 3)
    failed: list[Event] = []

    def publish(events: Sequence[Event], done: Accepted) -> None:
        (event,) = events
        if event.attributes["id"] == "1" and len(failed) < times:
            failed.append(event)
            done(StorageError("the disk is full"))
            return
        done(None)

    replay = await ran(tmp_path, publish)
    if times == 2:
        assert (replay.state, replay.accepted, left(file)) == ("done", 3, [])
    else:
        assert (replay.state, replay.detail, left(file)) == ("failed", "the disk is full", ["1"])


@pytest.mark.pure
async def test_a_channel_that_does_not_answer_gets_an_event_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ANSWER_S", 0.05)
    file = bury(tmp_path, 3)
    got: list[Event] = []

    def publish(events: Sequence[Event], done: Accepted) -> None:
        got.extend(events)
        if events[0].attributes["id"] != "2":
            done(None)

    replay = await ran(tmp_path, publish)
    assert (replay.state, replay.accepted, left(file), len(got)) == ("failed", 2, ["2"], 3)
