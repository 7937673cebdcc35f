"""The dead-letter file: letters survive, come back whole, and can be taken out while others arrive."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from gateway_core.config.registry import Registry
from gateway_core.contract.capabilities import DeadLetterStore
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext, DeadLetterRef
from gateway_core.contract.errors import StartError
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome

pytestmark = pytest.mark.anyio

LETTERS = [
    Event({"specversion": "1.0", "id": "json", "datacontenttype": "application/json"}, b'{"a": [1, 2]}'),
    Event({"specversion": "1.0", "id": "spread", "datacontenttype": "application/json"}, b'{\n  "a": 1\n}\n'),
    Event({"specversion": "1.0", "id": "untyped"}, b'{"a": 1}', json_data=True),
    Event({"specversion": "1.0", "id": "text", "datacontenttype": "text/plain"}, "Grüße\n".encode()),
    Event({"specversion": "1.0", "id": "bytes", "datacontenttype": "image/png"}, b"\x89PNG\x00", key=b"\xff\x00"),
    Event({"specversion": "1.0", "id": "empty"}, b""),
    Event({"specversion": "1.0", "id": "none", "count": 7, "yes": True}, None, key=b""),
    Event(
        {"cloudEventsVersion": "0.1", "eventID": "old", "extensions": {"a": {"b": 1}}}, b"{", received_ns=1_234_567_890
    ),
]


def build(tmp_path: Path, options: dict[str, Any] | None = None, **changes: Any) -> Any:
    import gateway_deadletter.plugin

    registry = Registry()
    registry.add("deadletter", gateway_deadletter.plugin)
    names = {"broker": "default", **changes}
    context = BuildContext("brokers.default.dead_letter", tmp_path, SystemClock(), registry, **names)
    return registry.build(DeadLetterRef("deadletter", options or {}), context)


async def write(sink: Any, events: list[Event]) -> None:
    """All are in the file when this returns."""
    outcomes: list[Outcome] = []
    async with anyio.create_task_group() as tasks:
        await sink.start(tasks)
        for event in events:
            sink.send(event, 30, outcomes.append)
        await sink.stop()
    assert [o.delivered for o in outcomes] == [True] * len(events)


def ids(sink: Any) -> list[str]:
    return [event.attributes["id"] for _, event in sink.entries()]


def numbered(numbers: range) -> list[Event]:
    return [Event({"specversion": "1.0", "id": str(n)}, b"x" * 50) for n in numbers]


@pytest.mark.spec("DP-18")
async def test_letters_come_back_as_they_were(tmp_path: Path) -> None:
    sink = build(tmp_path)
    await write(sink, LETTERS)
    again = [event for _, event in sink.entries()]
    assert again == LETTERS
    assert [(e.json_data, e.received_ns) for e in again] == [(e.json_data, e.received_ns) for e in LETTERS]
    assert isinstance(sink, DeadLetterStore)


async def test_the_file_is_lines_of_json_in_the_data_directory(tmp_path: Path) -> None:
    await write(
        build(tmp_path), [Event(LETTERS[4].attributes, b"\x89", key=b"k", received_ns=1_700_000_000_123_456_789)]
    )
    (line,) = (tmp_path / "dead-letter" / "default.jsonl").read_bytes().splitlines()
    letter = json.loads(line)
    letter.pop("id")
    assert letter == {
        "event": {**LETTERS[4].attributes, "data_base64": "iQ=="},
        "key_base64": "aw==",
        "received": "2023-11-14T22:13:20.123456789Z",
    }


async def test_ids_stay_when_other_letters_are_removed(tmp_path: Path) -> None:
    sink = build(tmp_path)
    await write(sink, numbered(range(10)))
    before = list(sink.entries())
    assert sink.remove([id_ for id_, e in before if int(e.attributes["id"]) % 2]) == 5
    assert list(sink.entries()) == before[::2]
    assert sink.remove([before[1][0]]) == 0
    assert sorted(p.name for p in (tmp_path / "dead-letter").iterdir()) == ["default.jsonl"]


@pytest.mark.slow
async def test_removal_and_arrival_do_not_disturb_each_other(tmp_path: Path) -> None:
    sink, remover = build(tmp_path, {"fsync": False}), build(tmp_path)
    outcomes: list[Outcome] = []
    removed = 0
    async with anyio.create_task_group() as tasks:
        await sink.start(tasks)
        for start in range(0, 2000, 50):
            for event in numbered(range(start, start + 50)):
                sink.send(event, 30, outcomes.append)
            found = [id_ for id_, _ in remover.entries()]
            removed += await anyio.to_thread.run_sync(remover.remove, found[::2])
        await sink.stop()
    left = ids(sink)
    assert [o.delivered for o in outcomes] == [True] * 2000
    assert len(left) == len(set(left)) == 2000 - removed
    assert removed > 0


async def test_every_worker_has_a_file_and_reads_all(tmp_path: Path) -> None:
    for worker in range(3):
        await write(build(tmp_path, worker=worker, workers=3), numbered(range(worker, worker + 1)))
    await write(build(tmp_path), numbered(range(3, 4)))
    names = sorted(p.name for p in (tmp_path / "dead-letter").iterdir())
    assert names == ["default.jsonl", "default~0.jsonl", "default~1.jsonl", "default~2.jsonl"]
    reader = build(tmp_path)
    assert ids(reader) == ["0", "1", "2", "3"]
    assert reader.remove([id_ for id_, _ in reader.entries()]) == 4
    assert ids(reader) == []


async def test_brokers_keep_apart(tmp_path: Path) -> None:
    await write(build(tmp_path, broker="a", workers=2, worker=1), numbered(range(1)))
    await write(build(tmp_path, broker="a-1"), numbered(range(1, 2)))
    assert ids(build(tmp_path, broker="a-1")) == ["1"]
    assert ids(build(tmp_path, broker="a")) == ["0"]


async def test_a_torn_line_hides_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "letters.jsonl"
    sink = build(tmp_path, {"path": str(path)})
    await write(sink, numbered(range(2)))
    with path.open("ab") as f:
        f.write(path.read_bytes().splitlines()[0][:-10])
    assert ids(sink) == ["0", "1"]
    assert caplog.text == ""  # it may be a line that is just being written
    await write(build(tmp_path, {"path": str(path)}), numbered(range(2, 3)))
    assert ids(sink) == ["0", "1", "2"]


async def test_lines_of_others_are_passed_over_and_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "letters.jsonl"
    path.write_bytes(b'not json\n\n{"event": {"id": "by hand"}}\n')
    sink = build(tmp_path, {"path": str(path)})
    ((id_, event),) = sink.entries()
    assert event == Event({"id": "by hand"})
    assert "letters.jsonl:1: not a dead letter" in caplog.text
    assert sink.remove([id_]) == 1
    assert path.read_bytes() == b"not json\n\n"


async def test_a_place_that_cant_be_written_stops_the_start(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        with pytest.raises(StartError, match=r"brokers\.default\.dead_letter: can't write"):
            await build(tmp_path, {"path": "/proc/nowhere/letters"}).start(tasks)


CRASHING = """
import sys, anyio
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_dead_letter_file import build, numbered
async def main():
    sink = build(Path(sys.argv[1]))
    async with anyio.create_task_group() as tasks:
        await sink.start(tasks)
        n = 0
        while True:
            event, = numbered(range(n, n + 1))
            sink.send(event, 30, lambda outcome, n=n: print(n, flush=True))
            n += 1
            if n % 100 == 0:
                await anyio.sleep(0.001)
anyio.run(main)
"""


@pytest.mark.spec("DP-18")
@pytest.mark.usefixtures("processes")
def test_what_was_safe_is_there_after_a_kill(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CRASHING, str(tmp_path), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        safe = [int(process.stdout.readline()) for _ in range(1000)]
        os.kill(process.pid, signal.SIGKILL)
        safe += [int(line) for line in process.stdout.read().split(b"\n")[:-1]]
    there = ids(build(tmp_path))
    assert {str(n) for n in safe} <= set(there)
    anyio.run(write, build(tmp_path), numbered(range(10**6, 10**6 + 1)))
    assert ids(build(tmp_path))[-1] == "1000000"


@pytest.mark.spec("SAFE-29")
async def test_a_letter_whose_line_has_no_end_is_a_letter_and_survives_a_removal(tmp_path: Path) -> None:
    """An editor that ends no last line: the letter is listed, and removing another one leaves it where it is."""
    path = tmp_path / "letters.jsonl"
    sink = build(tmp_path, {"path": str(path)})
    await write(sink, numbered(range(3)))
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    assert ids(sink) == ["0", "1", "2"]
    assert sink.remove([next(iter(sink.entries()))[0]]) == 1
    await write(build(tmp_path, {"path": str(path)}), numbered(range(3, 4)))
    assert ids(sink) == ["1", "2", "3"]
