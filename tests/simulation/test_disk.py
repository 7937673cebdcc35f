"""The simulated disk itself: what SQLite and the module `os` meet on it."""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from random import Random

import pytest

from gateway_core.contract.private_files import replace_file
from tests.simulation import sqlite_vfs
from tests.simulation.crash_image import SURVIVALS
from tests.simulation.disk import Disk

pytestmark = pytest.mark.spec("SIM-10")


def opened(folder: Path, sync: str = "FULL") -> sqlite3.Connection:
    connection = sqlite3.connect(folder / "x.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {sync}")
    connection.execute("CREATE TABLE IF NOT EXISTS t (a)")
    return connection


def rows(folder: Path) -> list[int]:
    with closing(opened(folder)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [a for (a,) in connection.execute("SELECT a FROM t ORDER BY rowid")]


def fill(connection: sqlite3.Connection, count: int) -> None:
    for n in range(count):
        connection.execute("INSERT INTO t VALUES (?)", (n,))


def test_both_ways_lead_to_the_same_table_of_functions() -> None:
    assert sqlite_vfs.vfs_of_connection() == (sqlite_vfs.exported_vfs() or sqlite_vfs.vfs_of_connection())


@pytest.mark.parametrize("how", SURVIVALS)
def test_a_power_cut_leaves_what_was_synced(tmp_path: Path, how: str) -> None:
    for seed in range(5):
        with Disk(tmp_path / str(seed), Random(seed)) as disk:
            connection = opened(disk.folder)
            fill(connection, 20)
            disk.crash("power", how)  # type: ignore[arg-type]
            connection.close()  # of the dead process: it removes nothing
            assert rows(disk.folder) == list(range(20))


@pytest.mark.slow
def test_a_power_cut_may_take_what_was_not_synced_and_the_end_of_a_process_does_not(tmp_path: Path) -> None:
    left = set()
    for seed in range(20):
        with Disk(tmp_path / str(seed), Random(seed)) as disk:
            connection = opened(disk.folder)
            connection.execute("PRAGMA synchronous = NORMAL")
            fill(connection, 20)
            if seed % 2:
                disk.crash("process")
                assert rows(disk.folder) == list(range(20))
                continue
            disk.crash("power")
            found = rows(disk.folder)
            assert found == list(range(len(found)))
            left.add(len(found))
    assert len(left) > 2


def test_a_process_that_died_leaves_its_writes_to_the_next_power_cut(tmp_path: Path) -> None:
    with Disk(tmp_path / "d", Random(1)) as disk:
        fill(opened(disk.folder, "NORMAL"), 20)
        disk.crash("process")
        disk.crash("power", "none")
        assert rows(disk.folder) == []


def test_sqlite_meets_the_faults_of_a_disk(tmp_path: Path) -> None:
    with Disk(tmp_path / "d", Random(1)) as disk, closing(opened(disk.folder)) as connection:
        for kind, number, name in (
            ("sync", errno.EIO, "SQLITE_IOERR_FSYNC"),
            ("write", errno.EIO, "SQLITE_IOERR_WRITE"),
            ("write", errno.ENOSPC, "SQLITE_FULL"),
        ):
            rule = disk.fail(kind, number, "*-wal")
            with pytest.raises(sqlite3.Error) as raised:
                fill(connection, 1)
            assert (raised.value.sqlite_errorname, rule.hits) == (name, 1)
        disk.fail("read", times=0)
        with pytest.raises(sqlite3.Error):
            opened(disk.folder)
        disk.heal()
        disk.fill(leave=8192)
        with pytest.raises(sqlite3.Error) as raised:
            fill(connection, 100)
        assert raised.value.sqlite_errorname == "SQLITE_FULL"
        assert os.statvfs(disk.folder).f_bavail <= 2
        disk.fill(disk.size)
        fill(connection, 100)


def test_what_a_failed_sync_lost_is_not_made_up_for(tmp_path: Path) -> None:
    lost = False
    for seed in range(20):
        with Disk(tmp_path / str(seed), Random(seed)) as disk:
            (disk.folder / "a").write_bytes(b"x" * 4096)
            descriptor = os.open(disk.folder / "a", os.O_RDWR)
            os.fsync(descriptor)
            os.fsync(folder := os.open(disk.folder, os.O_RDONLY))
            os.pwrite(descriptor, b"y" * 4096, 0)
            disk.fail("sync")
            with pytest.raises(OSError, match="Input/output"):
                os.fsync(descriptor)
            os.fsync(descriptor)
            os.close(descriptor)
            os.close(folder)
            disk.crash("power", "all")
            lost = lost or (disk.folder / "a").read_bytes() != b"y" * 4096
    assert lost


def test_a_sync_that_lies_stores_nothing(tmp_path: Path) -> None:
    with Disk(tmp_path / "d", Random(1)) as disk:
        connection = opened(disk.folder)
        fill(connection, 5)
        disk.lying = True
        fill(connection, 5)
        disk.crash("power", "none")
        assert rows(disk.folder) == list(range(5))


def test_a_replaced_file_is_the_old_or_the_new_one_at_every_step(tmp_path: Path) -> None:
    """And once `replace_file` has returned, the new one."""
    steps = 0
    for at in range(1, 50):
        with Disk(tmp_path / str(at), Random(at)) as disk:
            replace_file(disk.folder / "a", b"old" * 1000)
            disk.stop_at(disk.steps + at)
            with suppress(OSError):
                replace_file(disk.folder / "a", b"new" * 2000)
            returned = not disk.stopped
            disk.crash("power")
            found = (disk.folder / "a").read_bytes()
            assert found in ([] if returned else [b"old" * 1000]) + [b"new" * 2000]
            assert (disk.folder / "a").stat().st_mode & 0o777 == 0o600
            steps = at
            if returned:
                break
    assert steps == 6, "create, write, sync, rename, sync of the folder"


@pytest.mark.slow
def test_threads_may_open_and_close_files_while_others_are_killed(tmp_path: Path) -> None:
    """And while faults of reads come and go."""
    interval = sys.getswitchinterval()
    with Disk(tmp_path / "d", Random(1)) as disk, ThreadPoolExecutor(3) as threads:
        opened(disk.folder).close()

        def use() -> None:
            for _ in range(40):
                with closing(sqlite3.connect(disk.folder / "x.db")) as connection:
                    assert connection.execute("SELECT count(*) FROM t").fetchall() == [(0,)]

        sys.setswitchinterval(1e-6)
        try:
            used = [threads.submit(use) for _ in range(3)]
            while not all(one.done() for one in used):
                sqlite_vfs.shim().kill(disk, "another process")
                disk.heal(disk.fail("read", names="another file"))
            for one in used:
                one.result()
        finally:
            sys.setswitchinterval(interval)


def test_equal_seeds_make_equal_disks(tmp_path: Path) -> None:
    found = []
    for life in range(2):
        with Disk(tmp_path / str(life), Random(7)) as disk:
            fill(opened(disk.folder, "NORMAL"), 50)
            disk.crash("power")
            found.append({p.name: p.read_bytes() for p in sorted(disk.folder.iterdir())})
    assert found[0] == found[1]


def test_a_mistake_of_the_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*args: object) -> None:
        raise RuntimeError("wrong")

    def work() -> None:
        with Disk(tmp_path / "d", Random(1)) as disk, closing(opened(disk.folder)) as connection:
            monkeypatch.setattr("tests.simulation.inodes.Inode.size", wrong)
            with pytest.raises(sqlite3.Error):
                fill(connection, 1)
            monkeypatch.undo()

    with pytest.raises(RuntimeError, match="wrong"):
        work()
