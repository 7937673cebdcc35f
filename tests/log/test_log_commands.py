"""`tidegate log info|verify|export`."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from gateway_log.commands import app
from typer.testing import CliRunner

from gateway_core.config.registry import Registry
from gateway_core.contract.event import Event

pytestmark = pytest.mark.anyio


def run(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
async def data_dir(log: Any) -> Path:
    """A log that a running gateway still writes."""
    channel = await log.open({"s": log.Subscriber(room=0)})
    await log.append(
        channel,
        [
            Event({"id": "1", "type": "a", "datacontenttype": "application/json"}, b'{"x": 1}'),
            Event({"id": "2", "type": "b", "datacontenttype": "text/plain"}, "grün".encode()),
            Event({"id": "3", "type": "a"}, b"\xff"),
            Event({"id": "4", "type": "a", "datacontenttype": "application/json"}, b"NaN"),
        ],
    )
    path: Path = log.path
    return path


async def test_info_counts(data_dir: Path) -> None:
    shard = json.loads(run("info", "--data-dir", data_dir, "--json").stdout)["shards"][0]
    assert (shard["shard"], shard["first"], shard["next"], shard["events"]) == (0, 1, 5, 4)
    assert "shard=0 first=1 next=5 events=4" in run("info", "--data-dir", data_dir).stdout


async def test_export_writes_structured_events(data_dir: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in run("export", "--data-dir", data_dir).stdout.splitlines()]
    assert [(e["id"], e["tidegateposition"]) for e in lines] == [("1", 1), ("2", 2), ("3", 3), ("4", 4)]
    assert [lines[0]["data"], lines[1]["data"]] == [{"x": 1}, "grün"]
    assert [lines[2]["data_base64"], lines[3]["data_base64"]] == ["/w==", "TmFO"]
    out = tmp_path / "out.jsonl"
    run("export", "--data-dir", data_dir, "--filter-type", "a", "--from", "2", "--to", "4", "-o", out)
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == ["3"]


async def test_verify_finds_nothing_in_a_good_log(data_dir: Path) -> None:
    result = run("verify", "--data-dir", data_dir)
    assert (result.exit_code, result.stdout) == (0, "no faults\n")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (
            "UPDATE events SET attributes = '[1]' WHERE sequence = 2",
            "event 2 can't be read: its checksum is another one",
        ),
        ("INSERT OR REPLACE INTO feeds VALUES ('s', 99, NULL)", "the cursor of 's' is not between 1 and 5"),
        ("INSERT OR REPLACE INTO meta VALUES ('routed', 77)", "the routed end 77"),
        ("INSERT OR REPLACE INTO feeds VALUES ('s', 1, 'no json')", "shard-000.db: "),
    ],
)
async def test_verify_names_the_fault(data_dir: Path, damage: str, words: str) -> None:
    for _ in range(5):  # the gateway that runs may write its cursors again, over the damage
        with closing(sqlite3.connect(data_dir / "log" / "default" / "shard-000.db")) as connection, connection:
            connection.execute(damage)
        result = run("verify", "--data-dir", data_dir)
        if result.exit_code:
            break
    assert result.exit_code == 1
    assert words in result.stdout
    assert json.loads(run("verify", "--data-dir", data_dir, "--json").stdout)["ok"] is False


async def test_verify_finds_a_broken_file(data_dir: Path) -> None:
    (data_dir / "log" / "default" / "shard-001.db").write_bytes(b"not a database" * 400)
    assert run("verify", "--data-dir", data_dir).exit_code == 1


async def test_a_log_that_is_not_there_is_told(tmp_path: Path) -> None:
    result = run("info", "--data-dir", tmp_path / "none")
    assert result.exit_code == 1
    assert "there is no log of broker 'default'" in result.stderr
    (tmp_path / "log" / "orders").mkdir(parents=True)
    assert "name a broker with --broker: orders" in run("info", "--data-dir", tmp_path).stderr


def test_the_plugin_offers_channel_and_command() -> None:
    registry = Registry.installed()
    assert registry.find("channel", "log") is not None
    assert registry.commands["log"][0].load() is app
