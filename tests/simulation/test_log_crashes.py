"""The log on a disk that fails and loses power: what was accepted is there, and who has not read it gets it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Literal

import pytest
from gateway_log import meta

from tests.simulation.disk import MIB, Disk
from tests.simulation.log_lives import Act, Life
from tests.simulation.log_run import READER, Run, run, run_of_seed

pytestmark = pytest.mark.spec("SIM-11")

SHORT = (
    *(Act("append", 2, 300), Act("ack", 2), Act("flush"), Act("append", 1, 10), Act("read", 1)),
    *(Act("ack", 2), Act("flush"), Act("remember"), Act("old"), Act("append", 1, 5000)),
)
FOUND = {
    4: "the folders of a new log were not synced",
    156: "a sync that failed while the write-ahead log was shortened was not noticed",
    170: "events were deleted that a reader had to read again, since the log went back",
    530: "a sync that failed when progress was recorded was not noticed",
    1079: "progress was recorded after a sync had failed",
    1465: "after a restart, events were appended behind what a failed sync had not stored",
    1804: "half a page that a power failure left was reported as a damaged file",
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.slow
@pytest.mark.parametrize("sync", ["full", "normal"])
@pytest.mark.parametrize("every", [19, pytest.param(1, marks=pytest.mark.full)])
def test_a_short_history_survives_a_crash_at_its_steps(
    tmp_path: Path, sync: Literal["full", "normal"], every: int
) -> None:
    steps = run(tmp_path / "whole", 0, [Life(SHORT, "power")], sync).disk.steps
    for at in range(1, steps, every):
        run(tmp_path / f"power-{at}", at, [Life(SHORT, "power", at), Life(SHORT[:2], "power")], sync)
        run(tmp_path / f"process-{at}", at, [Life(SHORT, "process", at), Life(SHORT[:2], "power")], sync)


@pytest.mark.slow
@pytest.mark.parametrize("seed", FOUND, ids=str)
def test_what_was_found(tmp_path: Path, seed: int) -> None:
    run_of_seed(tmp_path / "d", seed)


@pytest.mark.slow
@pytest.mark.parametrize("count", [8, pytest.param(400, marks=pytest.mark.full)])
def test_histories_with_faults_and_crashes(tmp_path: Path, count: int) -> None:
    for seed in range(5000, 5000 + count):
        run_of_seed(tmp_path / str(seed), seed)


@pytest.mark.spec("ONCE-08")
@pytest.mark.parametrize("count", [12, pytest.param(400, marks=pytest.mark.full)])
@pytest.mark.slow
def test_events_that_are_sent_again_are_stored_once(tmp_path: Path, count: int) -> None:
    for seed in range(9000, 9000 + count):
        run_of_seed(tmp_path / str(seed), seed, storm=seed % 4 == 3, once=True)


def on_disk(folder: Path, sync: Literal["full", "normal"], acts: tuple[Act, ...]) -> tuple[Run, Disk]:
    """A run that is still alive after these acts; the caller ends it."""
    disk = Disk(folder, Random(1), 8 * MIB)
    return Run(disk, Random(1), sync), disk


def test_a_sync_that_fails_when_progress_is_recorded_ends_the_writing(tmp_path: Path) -> None:
    """With `sync: normal`: nobody knows any more what is in stable storage."""
    made, disk = on_disk(tmp_path / "d", "normal", ())

    async def whole() -> None:
        await made._start()
        await made._append(Act("append", 1))
        known = meta.read(made.folder).shard(0)
        rule = disk.fail("sync", names="*-wal")
        made.clock.advance(10)
        await made._append(Act("append", 1))
        for _ in range(1000):  # its thread takes what time it needs
            await made._flush(Act("flush"))
            if rule.hits:
                break
        assert rule.hits == 1
        assert made.channel is not None
        await made._append(Act("append", 1))
        assert "restart the gateway" in made.channel.info()["error"]
        made.clock.advance(10)
        await made._flush(Act("flush"))
        assert meta.read(made.folder).shard(0) == known, "what the disk says now is not believed"
        await made._end(Life((), "power"))
        await made.finish()

    with disk:
        asyncio.run(whole())


def test_a_reader_of_a_log_that_went_back_keeps_what_it_has_to_read_again(tmp_path: Path) -> None:
    made, disk = on_disk(tmp_path / "d", "normal", ())
    file = made.folder / "readers" / f"{READER}.json"

    async def whole() -> None:
        await made._start()
        await made._append(Act("append", 3))
        await made._read(Act("read", 3))
        before = file.read_text()
        disk.stop()
        assert made.channel is not None
        await made.channel.stop()
        disk.crash("power", "none")
        await made._start()
        assert file.read_text() != before
        assert made.reader.start == {"0": 1}
        await made._end(Life((), "clean"))

    with disk:
        asyncio.run(whole())
