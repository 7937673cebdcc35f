"""Files that the gateway writes without SQLite, on a disk that fails and loses power: dead letters, lines, the log's
reserve of space."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from gateway_deadletter import line
from gateway_deadletter.store import Store
from gateway_file.line_writer import FileTarget
from gateway_log.disk_reserve import DiskReserve

from gateway_core.contract.event import Event
from tests.simulation.disk import MIB, Disk

pytestmark = pytest.mark.spec("SIM-12")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Lines:
    """What was written to a file, and what is known to be there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sent: list[bytes] = []
        self.stored: list[bytes] = []

    def write(self, disk: Disk, batches: int, random: Random) -> None:
        """Writes lines until the disk stops; a batch that failed is written again, as a retry would."""
        target = FileTarget(self.path, fsync=True)
        with suppress(OSError):
            target.open()
        for _ in range(batches):
            batch = [b'{"n": %d, "x": "%s"}' % (len(self.sent) + n, b"x" * random.randrange(900)) for n in range(3)]
            self.sent += batch
            for _ in range(3):
                try:
                    target.write(b"".join(one + b"\n" for one in batch))
                except OSError:
                    continue
                if not disk.stopped:
                    self.stored += batch
                break
        target.close()

    def check(self) -> None:
        """Every stored line is there, and no line that nobody wrote, except those with a hole: they can't be read."""
        there = self.path.read_bytes().splitlines() if self.path.exists() else []
        assert set(self.stored) <= set(there)
        assert {one for one in there if b"\0" not in one} <= set(self.sent)


def at_each_step(folder: Path, act: Callable[[Disk, Random], object], check: Callable[[Disk], object]) -> int:
    """Ends the process at each step of what `act` does, with a power cut or without, then checks. Returns their
    number."""
    at = 0
    while True:
        at += 1
        for seed in range(4):
            with Disk(folder / f"{at}-{seed}", Random(seed), 8 * MIB) as disk:
                disk.stop_at(at)
                with suppress(OSError):
                    act(disk, Random(seed))
                ended = not disk.stopped
                disk.crash("power" if seed else "process")
                check(disk)
        if ended:
            return at


@pytest.mark.slow
def test_a_line_that_was_written_survives_a_crash_at_each_step(tmp_path: Path) -> None:
    made: list[Lines] = []

    def act(disk: Disk, random: Random) -> None:
        made.append(Lines(disk.folder / "dead" / "letters.jsonl"))
        made[-1].write(disk, 3, random)

    def check(disk: Disk) -> None:
        made[-1].write(disk, 1, Random(1))  # what was torn is put aside
        made[-1].check()

    assert at_each_step(tmp_path, act, check) > 8


@pytest.mark.parametrize("seed", range(20))
def test_lines_survive_failing_writes_and_syncs(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    with Disk(tmp_path / "d", random) as disk:
        lines = Lines(disk.folder / "letters.jsonl")
        for _ in range(3):
            for kind, number in (("write", errno.EIO), ("write", errno.ENOSPC), ("sync", errno.EIO)):
                disk.fail(kind, number, skip=random.randrange(6), times=random.randrange(1, 4))
            lines.write(disk, 6, random)
            disk.crash(random.choice(("process", "power")))
        lines.write(disk, 1, random)
        lines.check()


@pytest.mark.slow
def test_dead_letters_that_stay_survive_the_removal_of_others_at_each_step(tmp_path: Path) -> None:
    events = [Event({"specversion": "1.0", "id": str(n), "source": "/s", "type": "t"}, b"x" * 100) for n in range(6)]
    lines = [line.write(event, n + 1) for n, event in enumerate(events)]
    gone = [line.read(lines[n])[0] for n in (0, 3)]

    at, ended = 0, False
    while not ended:
        at += 1
        for seed in range(4):
            with Disk(tmp_path / f"{at}-{seed}", Random(seed)) as disk:
                store = Store(disk.folder / "letters.jsonl")
                target = FileTarget(store.path, fsync=True)
                target.open()
                target.write(b"".join(one + b"\n" for one in lines))
                target.close()
                disk.stop_at(disk.steps + at)
                with suppress(OSError):
                    store.remove(gone)
                ended = not disk.stopped
                disk.crash("power" if seed else "process")
                left = {event.attributes["id"] for _, event in store.entries()}
                assert left in ({"1", "2", "4", "5"}, {"0", "1", "2", "3", "4", "5"})
                assert not ended or len(left) == 4
    assert at > 4


def test_a_removal_that_finds_no_space_leaves_all_as_it_is(tmp_path: Path) -> None:
    with Disk(tmp_path / "d", Random(1)) as disk:
        file = disk.folder / "letters.jsonl"
        event = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b"x" * 9000)
        lines = [line.write(event, n + 1) for n in range(3)]
        target = FileTarget(file, fsync=True)
        target.open()
        target.write(b"".join(one + b"\n" for one in lines))
        target.close()
        disk.fill(leave=8192)
        with pytest.raises(OSError, match="No space"):
            Store(file).remove([line.read(lines[0])[0]])
        assert [path.name for path in disk.folder.iterdir()] == [file.name], "it takes no space afterwards"
        assert len(list(Store(file).entries())) == 3


@pytest.mark.slow
def test_the_reserve_of_space_is_whole_or_counts_as_none_after_a_crash(tmp_path: Path) -> None:
    def act(disk: Disk, random: Random) -> None:
        reserve = DiskReserve(disk.folder, 0, 1)
        reserve.begin()
        reserve.release()
        reserve.regain()

    def check(disk: Disk) -> None:
        reserve = DiskReserve(disk.folder, 0, 1)
        reserve.begin()
        assert not reserve.full
        assert reserve.path.stat().st_size == reserve.size

    assert at_each_step(tmp_path, act, check) > 4
