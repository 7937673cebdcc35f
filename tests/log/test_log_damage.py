"""What was written is what is read: a row with one flipped bit is not delivered, and its neighbours are."""

from __future__ import annotations

import random
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from gateway_log.checksum import checksum
from gateway_log.reader import LogReader, to_event
from gateway_log.rows import Unreadable, is_damage
from gateway_log.verify import faults

from gateway_core.contract.errors import StartError
from gateway_core.contract.event import Event

pytestmark = pytest.mark.anyio

OLD = Path(__file__).parent / "data" / "format-1.tar.gz"


async def write(log: Any, count: int, size: int = 60) -> Path:
    """A log with events of which each has its own bytes, stopped; returns the shard's file."""
    channel = await log.open()
    await log.append(channel, [log.event(n, b"<%06d>" % n + b"." * size) for n in range(1, count + 1)])
    await log.stop(channel)
    file: Path = log.folder / "shard-000.db"
    return file


def unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Writes the files of the fixture. `extractall` without a filter warns, and has none before Python 3.11.4."""
    for member in archive:
        file = archive.extractfile(member)
        if file is not None:
            (folder / member.name).parent.mkdir(parents=True, exist_ok=True)
            (folder / member.name).write_bytes(file.read())


def flip(file: Path, at: int, bit: int = 0) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 1 << bit
    file.write_bytes(content)


@pytest.mark.spec("SAFE-45")
@pytest.mark.parametrize("text", [b"<000007>", b'"id":"7"'])
async def test_a_row_with_a_flipped_bit_is_found_and_not_delivered(log: Any, text: bytes) -> None:
    file = await write(log, 20)
    flip(file, file.read_bytes().index(text) + len(text) - 2)
    assert list(faults(log.folder)) == ["shard-000.db: event 7 can't be read: its checksum is another one"]
    subscriber = log.Subscriber(start=True, acks=True)
    channel = await log.open({"s": subscriber})
    await log.wait(lambda: len(subscriber.got) == 19)
    await log.append(channel, [log.event(21)])
    await log.wait(lambda: len(subscriber.got) == 20)
    assert subscriber.got == [n for n in range(1, 22) if n != 7]


@pytest.mark.spec("SAFE-45")
def test_every_single_flipped_bit_of_what_is_delivered_changes_the_checksum() -> None:
    chance = random.Random(1)
    row: list[Any] = [(3 << 48) + 77, 1_800_000_000_123_456_789, 3, b"key", b'{"id":"1"}', bytes(range(40))]
    total = checksum(*row)
    for column, bits in ((0, 56), (1, 63), (2, 8)):
        for bit in range(bits):
            assert checksum(*[v ^ (1 << bit) if n == column else v for n, v in enumerate(row)]) != total
    for column in (3, 4, 5):
        for at in range(len(row[column])):
            changed = bytearray(row[column])
            changed[at] ^= 1 << chance.randrange(8)
            assert checksum(*[bytes(changed) if n == column else v for n, v in enumerate(row)]) != total
    for column in (3, 5):  # no data is not empty data
        assert checksum(*[b"" if n == column else v for n, v in enumerate(row)]) != checksum(
            *[None if n == column else v for n, v in enumerate(row)]
        )


@pytest.mark.spec("SAFE-45")
@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE events SET checksum = NULL WHERE sequence = 7",
        "UPDATE events SET checksum = 'x' WHERE sequence = 7",
        "UPDATE events SET received_ns = 'x' WHERE sequence = 7",
        "UPDATE events SET received_ns = received_ns + 1 WHERE sequence = 7",
        "UPDATE events SET flags = 1 WHERE sequence = 7",
        "UPDATE events SET key = x'' WHERE sequence = 7",
        "UPDATE events SET data = NULL WHERE sequence = 7",
        "UPDATE events SET data = x'00' || data WHERE sequence = 7",
        "UPDATE events SET attributes = x'ff' WHERE sequence = 7",
        "UPDATE events SET attributes = CAST(x'ff' AS TEXT) WHERE sequence = 7",
        "DELETE FROM events WHERE sequence = 7",
        "UPDATE events SET sequence = 99 WHERE sequence = 7",
    ],
)
async def test_whatever_is_wrong_with_a_row_is_found_and_its_neighbours_are_read(log: Any, damage: str) -> None:
    file = await write(log, 20)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(damage)
    found: list[Unreadable] = []
    with LogReader(log.folder, lambda _, what: found.append(what)) as reader:
        read = [row.sequence for row in reader.read(0, 1)]
    assert read == [n for n in range(1, 21) if n != 7]
    assert (found[0].first, found[0].last) == (7, 7)
    assert any("event 7 can't be read" in line for line in faults(log.folder))


def test_a_file_that_ends_too_soon_is_damaged_and_a_disk_that_can_not_be_read_is_not() -> None:
    """SQLite 3.53 reports one so in the simulation's plan `a-log-that-ends-too-soon`; 3.40 calls it malformed."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHORT_READ
    assert is_damage(error)
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_READ
    assert not is_damage(error)


@pytest.mark.spec("SAFE-46")
async def test_a_log_of_the_first_format_is_opened_and_goes_on(log: Any) -> None:
    """The fixture: two shards of ten events each; `broker/some` has not acknowledged four, `broker/none` nothing, and
    `broker/spark` reads from the beginning."""
    with tarfile.open(OLD) as archive:
        unpack(archive, log.path)
    with LogReader(log.folder) as reader:  # before any gateway of this version has been there
        before = [to_event(s, row) for s in reader.shards() for row in reader.read(s, 1)]
    assert [e.attributes["id"] for e in before] == [f"{s}-{n}" for s in (0, 1) for n in range(1, 11)]
    some, none = log.Subscriber(), log.Subscriber()
    channel = await log.open({"broker/some": some, "broker/none": none}, workers=1)
    channel.attach_reader("broker/spark", some.filter)
    await log.wait(lambda: len(none.got) == 20 and len(some.got) == 8)
    assert [p & 0xFFFF for p in some.got] == [3, 5, 9, 10] * 2
    assert sorted(none.events, key=lambda e: e.position) == before
    traced = [e for e in none.events if e.trace]
    assert [e.attributes["id"] for e in traced] == ["0-4", "0-8", "1-4", "1-8"]
    await log.append(channel, [log.event(11, b"new")])
    await log.stop(channel)
    assert list(faults(log.folder)) == []
    file = log.folder / "shard-000.db"
    flip(file, file.read_bytes().index(b"new"))
    assert list(faults(log.folder)) == ["shard-000.db: event 11 can't be read: its checksum is another one"]


@pytest.mark.spec("SAFE-46")
async def test_an_old_row_that_is_no_json_is_found(log: Any) -> None:
    with tarfile.open(OLD) as archive:
        unpack(archive, log.path)
    file = log.folder / "shard-000.db"
    flip(file, file.read_bytes().index(b'{"specversion":"1.0","id":"0-3"'))
    with LogReader(log.folder) as reader:
        assert len(list(reader.read(0, 1))) == 9


@pytest.mark.spec("SAFE-46")
async def test_a_log_of_a_newer_format_is_refused_with_the_way_out(log: Any) -> None:
    file = await write(log, 1)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 9")
    with pytest.raises(StartError, match=r"has format 9, which is newer.*run the version of Tidegate that wrote it"):
        await log.open()
    with LogReader(log.folder) as reader, pytest.raises(sqlite3.NotSupportedError, match="format 9, which is newer"):
        list(reader.read(0, 1))


async def test_large_events_are_read_a_few_at_a_time(log: Any) -> None:
    channel = await log.open()
    await log.append(channel, [Event({"id": str(n)}, bytes(400_000)) for n in range(1, 8)])
    with LogReader(log.folder) as reader:
        rows, following = reader.rows(0).read(1, 8)  # type: ignore[union-attr]
        assert (len(rows), following) == (3, 4)
        assert len(list(reader.read(0, 1))) == 7
