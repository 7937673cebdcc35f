"""The `file` and `stdout` sinks, and the line writer under them."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_cloudevents.event_json import load
from gateway_file.line_writer import AT_ONCE, GATHER_S, STEADY, STEADY_S, FileTarget, LineWriter
from gateway_testing import FakeClock

from gateway_core.config.registry import Registry
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext, SinkRef
from gateway_core.contract.errors import StartError
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome, Sink

pytestmark = pytest.mark.anyio


def build(name: str, options: Any, tmp_path: Path, workers: int = 1) -> Sink:
    import gateway_file.plugin

    registry = Registry()
    registry.add("file", gateway_file.plugin)
    context = BuildContext("triggers.t.subscriber", tmp_path, SystemClock(), registry, workers=workers)
    sink: Sink = registry.build(SinkRef(name, options), context)
    return sink


def event(n: int) -> Event:
    return Event({"specversion": "1.0", "id": str(n), "datacontenttype": "application/json"}, b'{"n": %d}' % n)


class Outcomes:
    """Counts outcomes, and can be awaited."""

    def __init__(self) -> None:
        self.all: list[Outcome] = []
        self._changed = anyio.Event()

    def __call__(self, outcome: Outcome) -> None:
        self.all.append(outcome)
        self._changed.set()

    async def until(self, count: int) -> list[Outcome]:
        with anyio.fail_after(60):
            while len(self.all) < count:
                await self._changed.wait()
                self._changed = anyio.Event()
        return self.all


async def test_a_file_holds_each_event_once_it_is_delivered(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "events.jsonl"
    sink, outcomes = build("file", {"path": str(path)}, tmp_path), Outcomes()
    async with anyio.create_task_group() as tasks:
        await sink.start(tasks)
        for n in range(500):
            sink.send(event(n), 30, outcomes)
        assert all(o.delivered for o in await outcomes.until(500))
        assert [load(line) for line in path.read_bytes().splitlines()] == [event(n) for n in range(500)]
        await sink.stop()


async def test_stop_writes_what_waits(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    sink, outcomes = build("file", {"path": str(path), "fsync": False}, tmp_path), Outcomes()
    async with anyio.create_task_group() as tasks:
        await sink.start(tasks)
        for n in range(100):
            sink.send(event(n), 30, outcomes)
        await sink.stop()
    assert len(outcomes.all) == 100
    assert len(path.read_bytes().splitlines()) == 100


async def test_lines_are_written_together_and_outcomes_leave_the_loop_time_for_others(tmp_path: Path) -> None:
    """Each outcome is followed by another line, as with dead letters that wait for room."""
    writes: list[int] = []
    rounds: dict[int, int] = {}  # outcomes by iteration of the event loop
    loop, number = asyncio.get_running_loop(), 0

    class Target:
        def open(self) -> None: ...
        def close(self) -> None: ...
        def write(self, data: bytes) -> None:
            writes.append(data.count(b"\n"))

    def turn() -> None:
        nonlocal number
        number += 1
        if len(outcomes.all) < 200:
            loop.call_soon(turn)

    def first(outcome: Outcome) -> None:
        rounds[number] = rounds.get(number, 0) + 1
        outcomes(outcome)
        writer.write(b"{}", 30, outcomes)

    writer, outcomes = LineWriter(Target(), SystemClock()), Outcomes()
    await writer.start()
    for _ in range(100):
        writer.write(b"{}", 30, first)
    turn()
    assert all(o.delivered for o in await outcomes.until(200))
    await writer.stop()
    assert writes == [100, 100]
    assert sum(rounds.values()) == 100
    assert max(rounds.values()) <= AT_ONCE


@pytest.mark.parametrize(
    ("lines", "pause_s", "wait_s"),
    [
        (STEADY, 0.0, STEADY_S),
        (STEADY - 1, 0.0, GATHER_S),
        (STEADY, GATHER_S, GATHER_S),  # they came all at once, some time before they were written
    ],
)
async def test_lines_that_keep_coming_are_written_less_often(lines: int, pause_s: float, wait_s: float) -> None:
    class Target:
        def open(self) -> None: ...
        def close(self) -> None: ...
        def write(self, data: bytes) -> None: ...

    clock, outcomes = FakeClock(), Outcomes()
    writer = LineWriter(Target(), clock)
    await writer.start()
    for _ in range(lines):
        writer.write(b"{}", 30, outcomes)
    clock.advance(pause_s)
    await outcomes.until(lines)
    clock.advance(wait_s - 0.001)  # a millisecond too early
    loop = asyncio.get_running_loop()
    began = loop.time()
    writer.write(b"{}", 30, outcomes)
    await outcomes.until(lines + 1)
    assert loop.time() - began >= 0.001 - 1e-4
    clock.advance(0.001)
    await writer.stop()


async def test_a_rotated_file_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    sink, outcomes = build("file", {"path": str(path)}, tmp_path), Outcomes()
    async with anyio.create_task_group() as tasks:
        await sink.start(tasks)
        sink.send(event(1), 30, outcomes)
        await outcomes.until(1)
        path.rename(tmp_path / "events.1")
        sink.send(event(2), 30, outcomes)
        await outcomes.until(2)
        await sink.stop()
    assert load((tmp_path / "events.1").read_bytes()) == event(1)
    assert load(path.read_bytes()) == event(2)


async def test_a_file_that_is_cut_in_place_is_written_on(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    sink, outcomes = build("file", {"path": str(path)}, tmp_path), Outcomes()
    async with anyio.create_task_group() as tasks:
        await sink.start(tasks)
        for n, left in enumerate((b"", b"", b"a line of another program")):  # the first two as `copytruncate` leaves it
            sink.send(event(n), 30, outcomes)
            await outcomes.until(n + 1)
            path.write_bytes(left)
        sink.send(event(3), 30, outcomes)
        await outcomes.until(4)
        await sink.stop()
    assert all(o.delivered for o in outcomes.all)
    first, second = path.read_bytes().splitlines()
    assert first == b"a line of another program"
    assert load(second) == event(3)


async def test_writers_of_one_file_never_mix_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    sinks = [build("file", {"path": str(path), "fsync": False}, tmp_path) for _ in range(3)]
    outcomes = Outcomes()
    async with anyio.create_task_group() as tasks:
        for sink in sinks:
            await sink.start(tasks)
        for n in range(300):
            sinks[n % 3].send(event(n), 30, outcomes)
        await outcomes.until(300)
        for sink in sinks:
            await sink.stop()
    assert sorted(int(load(line).attributes["id"]) for line in path.read_bytes().splitlines()) == list(range(300))


@pytest.mark.spec("SAFE-29")
async def test_a_line_that_was_torn_is_moved_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "events.jsonl"
    torn = b'{"id":"2", "da' + b"x" * 70_000
    path.write_bytes(b'{"id":"1"}\n' + torn)
    sink, outcomes = build("file", {"path": str(path)}, tmp_path), Outcomes()
    async with anyio.create_task_group() as tasks:
        await sink.start(tasks)
        assert path.read_bytes() == b'{"id":"1"}\n'
        sink.send(event(3), 30, outcomes)
        await outcomes.until(1)
        await sink.stop()
    assert [load(line).attributes["id"] for line in path.read_bytes().splitlines()] == ["1", "3"]
    assert (tmp_path / "events.jsonl.torn").read_bytes() == torn + b"\n"
    assert "events.jsonl.torn" in caplog.text


@pytest.mark.spec("SAFE-29")
@pytest.mark.parametrize(
    "tail",
    [
        b'{"id":"2"}',  # an editor that ends no last line
        b"a foreign file without any line end",
        b"x" * 200_000,
        "Grüße".encode("utf-16"),
        b"[1, 2",
        b'{"id":"2","data":1e400}',  # JSON that our parser refuses
        b'{"id":"2","data":"\\ud800"}',
    ],
)
@pytest.mark.parametrize("before", [b"", b'{"id":"1"}\n', b"some text\n"])
async def test_what_is_not_torn_is_never_cut(tmp_path: Path, before: bytes, tail: bytes) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(before + tail)
    sink, outcomes = build("file", {"path": str(path)}, tmp_path), Outcomes()
    async with anyio.create_task_group() as tasks:
        await sink.start(tasks)
        sink.send(event(3), 30, outcomes)
        await outcomes.until(1)
        with path.open("ab") as other:  # and while it runs
            other.write(tail)
        sink.send(event(4), 30, outcomes)
        await outcomes.until(2)
        await sink.stop()
    found = path.read_bytes()
    assert found.startswith(before + tail + b"\n")
    rest = found.removeprefix(before + tail + b"\n").splitlines()
    assert (load(rest[0]), rest[1], load(rest[2])) == (event(3), tail, event(4))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.spec("SAFE-29")
async def test_a_torn_line_that_cant_be_moved_aside_stays(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"id":')
    (tmp_path / "events.jsonl.torn").mkdir()
    sink = build("file", {"path": str(path)}, tmp_path)
    async with anyio.create_task_group() as tasks:
        with pytest.raises(StartError):
            await sink.start(tasks)
    assert path.read_bytes() == b'{"id":'


async def test_a_place_that_cant_be_written_stops_the_start(tmp_path: Path) -> None:
    sink = build("file", {"path": "/proc/nowhere/events"}, tmp_path)
    async with anyio.create_task_group() as tasks:
        with pytest.raises(StartError, match=r"triggers\.t\.subscriber: can't write file://"):
            await sink.start(tasks)


async def test_a_full_disk_is_a_reason_to_try_again(tmp_path: Path) -> None:
    sink, outcomes = build("file", {"path": "/dev/full"}, tmp_path), Outcomes()
    async with anyio.create_task_group() as tasks:
        await sink.start(tasks)
        sink.send(event(1), 30, outcomes)
        (outcome,) = await outcomes.until(1)
        await sink.stop()
    assert (outcome.delivered, outcome.retry, outcome.reason) == (False, True, "No space left on device")


async def test_an_event_without_json_text_fails_for_good(tmp_path: Path) -> None:
    sink, outcomes = build("file", {"path": str(tmp_path / "f")}, tmp_path), Outcomes()
    sink.send(Event({"id": "\ud800"}), 30, outcomes)
    assert [(o.delivered, o.retry) for o in outcomes.all] == [(False, False)]


async def test_standard_output_gets_one_line_an_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "w") as out, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", out)
        sink, outcomes = build("stdout", {}, tmp_path), Outcomes()
        async with anyio.create_task_group() as tasks:
            await sink.start(tasks)
            sink.send(event(1), 30, outcomes)
            await outcomes.until(1)
            await sink.stop()
    with os.fdopen(read_end, "rb") as r:
        assert load(r.read()) == event(1)


async def test_standard_output_is_for_one_worker(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"triggers\.t\.subscriber: stdout works with a single worker only"):
        build("stdout", {}, tmp_path, workers=2)


async def drain(fd: int, size: int) -> int:
    """Reads at least so many bytes."""
    count = 0
    with anyio.fail_after(60):
        while count < size:
            try:
                count += len(os.read(fd, 1000))
            except BlockingIOError:
                await anyio.sleep(0.001)
    return count


async def test_a_write_that_hangs_is_answered_in_time(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    clock, outcomes = FakeClock(), Outcomes()
    writer = LineWriter(FileTarget(fifo, fsync=True), clock)
    await writer.start()
    writer.write(b"x" * 1_000_000, 30, outcomes)  # more than a pipe holds
    drained = await drain(reader, 1)  # it is at it
    clock.advance(29)
    assert outcomes.all == []
    clock.advance(2)
    assert [(o.delivered, o.retry) for o in outcomes.all] == [(False, True)]
    await drain(reader, 1_000_001 - drained)
    await writer.stop()
    os.close(reader)
    assert len(outcomes.all) == 1
