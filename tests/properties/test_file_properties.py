"""The log's files, line files and the dead-letter store, for any content and any damage at their end."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gateway_deadletter import line as line_format
from gateway_deadletter.store import Store
from gateway_file.line_writer import FileTarget, LineWriter
from gateway_log.checksum import checksum
from gateway_log.cursor import CursorChanges, CursorState
from gateway_log.feeder import Ring
from gateway_log.reader import LogReader
from gateway_log.shard import Shard
from gateway_testing import FakeClock
from hypothesis import given
from hypothesis import strategies as st

from gateway_core.contract.event import Event, position_of, split_position
from gateway_core.contract.interfaces import Outcome
from tests.budget import examples

QUICK = examples(60)
FILES = examples(25)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
DATA = st.none() | st.binary(max_size=30)
EVENTS = st.builds(
    Event,
    st.dictionaries(st.sampled_from(["id", "type", "subject", "ext"]), TEXT | st.integers(-9, 9) | st.booleans()),
    DATA,
    st.booleans(),
    st.none() | st.binary(max_size=5),
    st.integers(0, 2**60),
)
TAILS = st.one_of(
    st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"")),
    st.binary(max_size=12).map(lambda b: b"{" + b.replace(b"\n", b"")),
    st.just(b'{"id":"1"}'),
)
LINES = st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"")), max_size=6)


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def exactly(event: Event) -> tuple[object, ...]:
    return (
        repr(sorted(event.attributes.items())),
        event.data,
        event.data is not None and event.json_data,
        event.key,
        event.received_ns,
    )


# -- the log ------------------------------------------------------------------------------------------------------


@QUICK
@given(st.integers(0, 999), st.integers(1, 2**20) | st.integers(2**46, 2**48 - 1))
def test_a_position_is_a_shard_and_a_sequence(shard: int, sequence: int) -> None:
    assert split_position(position_of(shard, sequence)) == (shard, sequence)
    assert position_of(shard, sequence) < 2**63, "positions are whole numbers of SQLite and Spark"


@QUICK
@given(
    st.integers(1, 100),
    st.lists(st.tuples(st.integers(1, 8), st.integers(0, 50)), max_size=20),
    st.integers(1, 20),
    st.integers(1, 200),
    st.integers(1, 30),
)
def test_a_ring_has_the_newest_events_and_no_more_than_it_may(
    first: int, groups: list[tuple[int, int]], most_events: int, most_bytes: int, count: int
) -> None:
    ring, following = Ring(first, most_events, most_bytes), first
    for number, size in groups:
        ring.push([Event({}, position=following + n) for n in range(number)], size)
        following += number
        assert following - ring.start <= most_events
    for sequence in range(ring.start, following + 1):
        expected = list(range(sequence, min(sequence + count, following)))
        assert [e.position for e in ring.read(sequence, count)] == expected
    if sum(n for n, _ in groups) <= most_events and sum(size for _, size in groups) <= most_bytes:
        assert ring.start == first


def rows(first: int, data: list[bytes | None], received_ns: int = 1) -> list[object]:
    columns = [(first + n, received_ns + n, 0, None, b'{"id":"1"}', d) for n, d in enumerate(data)]
    return [v for row in columns for v in (*row, checksum(*row))]


@pytest.mark.slow
@FILES
@given(
    st.lists(st.lists(DATA, min_size=1, max_size=5), max_size=4),
    st.dictionaries(
        TEXT.filter(bool),
        st.builds(CursorState, st.none() | st.integers(1, 99), st.lists(st.integers(1, 99)).map(tuple)),
    ),
)
def test_a_shard_opened_again_has_its_events_and_cursors(
    batches: list[list[bytes | None]], cursors: dict[str, CursorState]
) -> None:
    with folder() as at:
        shard = Shard(at, 0, "normal")
        for batch in batches:
            shard.write(rows(shard.next, batch), None)
        end = shard.next
        shard.write([], CursorChanges(0, end, list(cursors.items())))
        shard.close()
        again = Shard(at, 0, "normal")
        # a cursor beyond the end can't be right: its subscription gets all events again
        possible = {
            name: cursor if all(n <= end for n in (*cursor.pending, cursor.next or 1)) else CursorState(1)
            for name, cursor in cursors.items()
        }
        assert (again.first, again.next, again.routed, again.cursors) == (1, end, end, possible)
        again.close()
        reader = LogReader(at)
        found = list(reader.read(0, 1, end))
        reader.close()
        assert [r.sequence for r in found] == list(range(1, end))
        assert [r.data for r in found] == [d for batch in batches for d in batch]


@pytest.mark.slow
@FILES
@given(st.integers(0, 30), st.integers(0, 40), st.integers(0, 40), st.integers(0, 200))
def test_retention_takes_the_oldest_and_no_more_than_it_may(
    count: int, before: int, older_than: int, excess: int
) -> None:
    with folder() as at:
        shard = Shard(at, 0, "normal")
        if count:
            shard.write(rows(1, [b"x" * 10] * count), None)
        while shard.delete_some(before, older_than, excess):
            pass
        sizes, gone = 20, shard.first - 1  # 10 bytes of data, 10 of attributes
        assert gone <= max(0, min(before - 1, count))
        by_age, by_size = older_than - 1, -(-excess // sizes)
        assert gone == max(0, min(before - 1, count, max(by_age, by_size)))
        assert shard.next == count + 1
        shard.close()
        again = Shard(at, 0, "normal")
        assert again.next == count + 1, "numbers are never used again"
        again.close()


# -- line files ---------------------------------------------------------------------------------------------------


@FILES
@given(LINES, TAILS, LINES)
def test_no_byte_of_a_file_is_lost_and_whole_lines_stay(before: list[bytes], tail: bytes, after: list[bytes]) -> None:
    with folder() as at:
        file, aside = at / "lines", at / "lines.torn"
        whole = b"".join(line + b"\n" for line in before)
        file.write_bytes(whole + tail)
        target = FileTarget(file, fsync=False)
        target.open()
        if aside.exists():
            assert tail[:1] in (b"{", b"\0")
            assert aside.read_bytes() == tail + b"\n"
        elif tail:
            whole += tail + b"\n"
        assert file.read_bytes() == whole
        for line in after:
            target.write(line + b"\n")
        target.close()
        assert file.read_bytes() == whole + b"".join(line + b"\n" for line in after)


@FILES
@given(LINES)
def test_every_line_handed_to_a_writer_is_in_the_file_once_and_in_order(lines: list[bytes]) -> None:
    outcomes: list[Outcome] = []

    async def run(file: Path) -> None:
        writer = LineWriter(FileTarget(file, fsync=False), FakeClock())
        await writer.start()
        for line in lines:
            writer.write(line, 10, outcomes.append)
        await writer.stop()
        await asyncio.sleep(0)

    with folder() as at:
        asyncio.run(run(at / "lines"))
        assert (at / "lines").read_bytes() == b"".join(line + b"\n" for line in lines)
    assert [o.delivered for o in outcomes] == [True] * len(lines)


# -- the dead-letter store ----------------------------------------------------------------------------------------


@QUICK
@given(EVENTS, st.integers(1, 2**62))
def test_a_letter_is_read_as_the_event_it_was(event: Event, now_ns: int) -> None:
    line = line_format.write(event, now_ns)
    assert b"\n" not in line
    id, read = line_format.read(line)
    assert exactly(read) == exactly(event)
    assert line_format.id_of(line) == id
    assert id.startswith(f"{now_ns:016x}")


@QUICK
@given(st.binary(max_size=40) | EVENTS.map(lambda e: line_format.write(e, 1)) | st.just(b'{"event":{}}'), st.data())
def test_a_damaged_letter_is_a_letter_or_a_fault(line: bytes, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, len(line)))
    damaged = line[:at] + draw.draw(st.binary(max_size=3)) + line[at + draw.draw(st.integers(0, 3)) :]
    try:
        id, _ = line_format.read(damaged)
    except ValueError:
        return
    assert line_format.id_of(damaged) == id


@FILES
@pytest.mark.filterwarnings("default")
@given(st.lists(st.tuples(st.integers(0, 2), EVENTS | st.just(b"no letter")), max_size=8), st.sets(st.integers(0, 9)))
def test_a_store_has_all_letters_in_order_and_removes_those_named(
    written: list[tuple[int, Event | bytes]], chosen: set[int]
) -> None:
    with folder() as at:
        store = Store(at / "dead.jsonl")
        for n, (worker, what) in enumerate(written):
            with store.file_of(worker, 3).open("ab") as file:
                file.write((what if isinstance(what, bytes) else line_format.write(what, n + 1)) + b"\n")
        kept = list(store.entries())
        assert [exactly(e) for _, e in kept] == [exactly(e) for _, e in written if isinstance(e, Event)]
        removed = {id for n, (id, _) in enumerate(kept) if n in chosen}
        assert store.remove([*removed, "unknown"]) == len(removed)
        assert [id for id, _ in store.entries()] == [id for id, _ in kept if id not in removed]
        text = b"".join(f.read_bytes() for f in store.files())
        assert text.count(b"no letter") == sum(isinstance(what, bytes) for _, what in written)
