"""A log remembers outside its files what must be in them: a removed, emptied or older file is refused."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from gateway_log.verify import faults

from gateway_core.contract.errors import StartError

pytestmark = [pytest.mark.anyio, pytest.mark.spec("SAFE-43")]


async def write(log: Any, count: int, **options: Any) -> None:
    channel = await log.open(**options)
    await log.append(channel, log.events(count))
    await log.stop(channel)


async def refusal(log: Any, **options: Any) -> str:
    with pytest.raises(StartError) as caught:
        await log.open(**options)
    log.running.clear()
    return str(caught.value)


async def test_a_removed_file_is_refused(log: Any) -> None:
    await write(log, 30)
    (log.folder / "shard-000.db").unlink()
    words = await refusal(log)
    assert "shard-000.db is missing, although it had all events before 31" in words
    assert f"`tidegate log repair --data-dir {log.path} --broker default`" in words
    assert not (log.folder / "shard-000.db").exists()


async def test_an_emptied_file_is_refused(log: Any) -> None:
    await write(log, 30)
    (log.folder / "shard-000.db").write_bytes(b"")
    assert "shard-000.db is empty, although" in await refusal(log)


@pytest.mark.parametrize("sync", ["full", "normal"])
async def test_an_older_file_is_refused(log: Any, sync: str) -> None:
    await write(log, 10, sync=sync)
    shutil.copy(log.folder / "shard-000.db", log.path / "older")
    await write(log, 10, sync=sync)
    shutil.copy(log.path / "older", log.folder / "shard-000.db")
    assert "shard-000.db ends before event 11, although it had all events before 21" in await refusal(log)


async def test_the_file_of_a_worker_that_is_no_more_is_missed_too(log: Any) -> None:
    await write(log, 5, worker=1, workers=2)
    (log.folder / "shard-001.db").unlink()
    assert "shard-001.db is missing" in await refusal(log, worker=0, workers=1)


async def test_a_file_that_is_ahead_of_what_is_remembered_is_taken(log: Any) -> None:
    """As after kill -9: what is remembered lies behind."""
    await write(log, 10)
    shutil.copy(log.folder / "meta.json", log.path / "older")
    await write(log, 10)
    shutil.copy(log.path / "older", log.folder / "meta.json")
    await write(log, 1)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 1, "shards": {"0": 5}}', "\xff\xfe"])
async def test_a_damaged_memory_is_refused_with_the_remedy(log: Any, content: str) -> None:
    await write(log, 1)
    (log.folder / "meta.json").write_bytes(content.encode("latin-1"))
    words = await refusal(log)
    assert "meta.json is damaged" in words
    assert "tidegate log repair" in words


async def test_the_memory_of_a_newer_version_is_refused(log: Any) -> None:
    await write(log, 1)
    (log.folder / "meta.json").write_text('{"format": 99, "shards": {}, "more": 1}')
    assert "has format 99, which is newer" in await refusal(log)


async def test_workers_share_it(log: Any) -> None:
    for worker in range(3):
        await log.open(worker=worker, workers=3)
    for worker, channel in enumerate(log.running):
        await log.append(channel, log.events(worker + 1))
    while log.running:
        await log.stop(log.running[0])
    for worker in range(3):
        shard = log.folder / f"shard-{worker:03d}.db"
        shard.rename(shard.with_suffix(".away"))
        assert f"before {worker + 2}:" in await refusal(log, worker=worker, workers=3)
        shard.with_suffix(".away").rename(shard)
    assert list(faults(log.folder)) == []
