"""Syncs of the log's write-ahead log by several threads: none counts after one that failed."""

from __future__ import annotations

import errno
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event as Flag

import pytest
from gateway_log import meta
from gateway_log.disk_reserve import SyncFailed
from gateway_log.shard import Shard

from gateway_core.contract.errors import StartError

pytestmark = [pytest.mark.unit, pytest.mark.spec("SAFE-55")]


def failing(begun: Flag, go_on: Flag) -> Callable[[], None]:
    def work() -> None:
        begun.set()
        assert go_on.wait(10)
        raise SyncFailed(errno.EIO, "the disk is gone")

    return work


def test_progress_is_not_recorded_beside_a_sync_that_fails(tmp_path: Path) -> None:
    shard = Shard(tmp_path, 0, "normal")
    known = meta.read(tmp_path).shard(0)
    shard.next = 20  # as after 19 events, of which the disk has none
    begun, go_on = Flag(), Flag()
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(shard.syncs.run, failing(begun, go_on))
        assert begun.wait(10)
        second = threads.submit(shard.remember)  # waits for the first, and must not believe the disk then
        with pytest.raises(TimeoutError):
            second.result(0.1)
        go_on.set()
        assert isinstance(first.exception(10), SyncFailed)
        refused = second.exception(10)
    assert isinstance(refused, StartError)
    assert isinstance(refused.__cause__, SyncFailed)
    assert meta.read(tmp_path).shard(0) == known
    shard.abandon()


def test_the_writer_does_not_wait_long_for_another_sync(tmp_path: Path) -> None:
    shard = Shard(tmp_path, 0, "full")
    begun, go_on = Flag(), Flag()
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(shard.syncs.run, failing(begun, go_on))
        assert begun.wait(10)
        assert not shard.restart_wal()
        go_on.set()
        assert isinstance(first.exception(10), SyncFailed)
    with pytest.raises(SyncFailed):
        shard.restart_wal()
    shard.abandon()
