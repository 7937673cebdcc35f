"""`tidegate log verify` finds every damage, and `tidegate log repair` saves what can be read."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from gateway_log.commands import app
from gateway_log.meta import read
from typer.testing import CliRunner

from gateway_core.contract.errors import StartError
from gateway_core.contract.start_position import EARLIEST

pytestmark = [pytest.mark.anyio, pytest.mark.spec("SAFE-49")]

PAGE = 4096


def run(command: str, log: Any, *more: str) -> Any:
    return CliRunner().invoke(app, [command, "--data-dir", str(log.path), *more])


async def make(log: Any) -> Path:
    """A stopped log of 200 events; `done` has dealt with 150 of them, `slow` with none."""
    slow, done = log.Subscriber(start=True, room=0), log.Subscriber(start=True, room=1000)
    channel = await log.open({"slow": slow, "done": done})
    channel.attach_reader("spark", slow.filter, start=EARLIEST)
    await log.append(channel, [log.event(n, b"<%05d>" % n + bytes(300)) for n in range(1, 201)])
    await log.wait(lambda: len(done.got) == 200)
    done.ack(*done.held[:150])
    await log.stop(channel)
    file: Path = log.folder / "shard-000.db"
    return file


def damage(file: Path, what: str) -> None:
    content = bytearray(file.read_bytes())
    page = content.index(b"<00100>") // PAGE * PAGE
    if what == "bit":
        content[content.index(b"<00100>") + 1] ^= 1
    elif what == "page":
        content[page : page + PAGE] = os.urandom(PAGE)
    elif what == "first page":
        content[:PAGE] = os.urandom(PAGE)
    elif what == "cut by one byte":
        content = content[:-1]
    elif what == "cut":
        content = content[:page]
    elif what == "empty":
        content = bytearray()
    file.write_bytes(content)
    if what == "missing":
        file.unlink()
    elif what in ("row", "places", "place", "name", "text", "older"):
        statement = {
            "row": "DELETE FROM events WHERE sequence = 100",
            "places": "UPDATE feeds SET pending = 'x' WHERE name = 'done'",
            "place": "INSERT OR REPLACE INTO feeds VALUES ('slow', 999, NULL)",
            "name": "INSERT INTO feeds VALUES (x'00', 1, NULL)",
            "text": "INSERT OR REPLACE INTO feeds VALUES ('slow', 'x', NULL)",
            "older": "DELETE FROM events WHERE sequence > 180",
        }[what]
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute(statement)
    elif what == "meta":
        (file.parent / "meta.json").write_text("{")
    elif what == "reader":
        (file.parent / "readers" / "spark.json").write_text("{")
    elif what == "reader's place":
        (file.parent / "readers" / "spark.json").write_text('{"0": 500}')
    elif what == "permissions":
        file.chmod(0o644)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "fault", "lost"),
    [
        ("bit", "shard-000.db: event 100 can't be read: its checksum is another one", 1),
        ("page", "events 9", 15),
        ("first page", "shard-000.db: file is not a database", 200),
        ("cut by one byte", "shard-000.db: is truncated: the 4095 bytes at its end are not a whole page", 12),
        ("cut", "shard-000.db: database disk image is malformed", 200),
        ("empty", "shard-000.db: is empty, although it had all events before 201", 200),
        ("missing", "shard-000.db: is missing, although it had all events before 201", 200),
        ("row", "shard-000.db: event 100 can't be read: there is no such row", 1),
        ("older", "shard-000.db: ends before event 181, although it had all events before 201", 20),
        ("places", "shard-000.db: ", 0),
        ("place", "shard-000.db: the cursor of 'slow' is not between 1 and 201", 0),
        ("name", "shard-000.db: a cursor is (b'\\x00', 1, None)", 0),
        ("text", "shard-000.db: a cursor is ('slow', 'x', None)", 0),
        ("meta", "meta.json is damaged", 0),
        ("reader", "readers/spark.json: ", 0),
        ("permissions", "shard-000.db: other users may read or change it: `chmod go= ", 0),
    ],
)
async def test_damage_is_found_and_repaired(log: Any, what: str, fault: str, lost: int) -> None:
    file = await make(log)
    damage(file, what)
    found = run("verify", log)
    assert found.exit_code == 1
    assert fault in found.stdout
    assert "tidegate log repair" in found.stdout
    result = run("repair", log)
    assert (result.exit_code, result.stderr) == (0, ""), result.stdout
    assert result.stdout != "nothing to repair\n"
    found = run("verify", log)
    assert found.stdout == "no faults\n"
    assert run("repair", log).stdout == "nothing to repair\n"
    slow, done = log.Subscriber(acks=True), log.Subscriber(acks=True)
    channel = await log.open({"slow": slow, "done": done})
    await log.append(channel, [log.event(201)])
    await log.wait(lambda: slow.feed.lag() == 0 and done.feed.lag() == 0)
    missing = set(range(1, 202)) - set(slow.got)
    assert len(missing) <= lost
    assert slow.got[-1] == 201
    assert set(range(151, 202)) - set(done.got) <= missing
    if lost:
        assert missing


async def test_a_reader_that_is_behind_the_end_is_found(log: Any) -> None:
    file = await make(log)
    damage(file, "reader's place")
    assert "readers/spark.json: the offset 500 in shard 0 is after its end 201" in run("verify", log).stdout


async def test_a_running_gateway_is_left_alone(log: Any) -> None:
    await log.open()
    result = run("repair", log)
    assert result.exit_code == 1
    assert "is in use by another gateway" in result.stderr


async def test_a_repair_that_was_interrupted_is_finished(log: Any) -> None:
    file = await make(log)
    shutil.copy(file, file.with_name("shard-000.db.repaired"))
    damage(file, "page")
    with pytest.raises(StartError, match=r"a repair of .* was interrupted: run `tidegate log repair"):
        await log.open()
    log.running.clear()
    assert "finished a repair that was interrupted" in run("repair", log).stdout
    assert run("verify", log).stdout == "no faults\n"


async def test_what_a_repair_did_is_told_as_json(log: Any) -> None:
    file = await make(log)
    damage(file, "page")
    lines = json.loads(run("repair", log, "--json").stdout)
    assert lines[0].startswith("shard-000.db: kept 1")
    assert "the damaged file is shard-000.db.damaged-" in lines[0]
    assert "can't be read: database disk image is malformed" in lines[1]
    assert read(log.folder).shards["0"].damaged == ""
    assert run("info", log).stdout.startswith("shard=0 first=1 next=201")
