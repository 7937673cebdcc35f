"""Several workers with shards of their own store each key once, whichever of them its events come to."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from gateway_log.backup import back_up
from gateway_log.channel import LogChannel
from gateway_testing import FakeClock

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import split_position
from tests.log.test_log_deduplication import died, ids, open_, put

pytestmark = [pytest.mark.anyio, pytest.mark.spec("ONCE-09")]

MANY = 4000
"""Keys: then a run of one of two workers has 31 of them."""


async def workers(log: Any, count: int = 2, **options: Any) -> list[LogChannel]:
    return [await open_(log, worker=n, workers=count, **options) for n in range(count)]


async def places(channel: LogChannel, events: Any) -> list[str]:
    """The shard and sequence of each event; of duplicates with a minus."""
    found = [("-" * (n < 0), *split_position(abs(n))) for n in await put(channel, events)]
    return [f"{sign}{shard}/{sequence}" for sign, shard, sequence in found]


async def test_what_one_worker_has_is_a_duplicate_for_each_other(log: Any) -> None:
    one, two = await workers(log)
    assert await places(one, log.events(2)) == ["0/1", "0/2"]
    assert await places(two, log.events(3)) == ["-0/1", "-0/2", "1/1"]
    assert await places(one, log.events(4)) == ["-0/1", "-0/2", "-1/1", "0/3"]
    assert sorted(ids(log)) == ["0", "1", "2", "3"]
    assert [c.info()["deduplication"]["keys"] for c in (one, two)] == [4, 3]  # the other one looks when it commits


@pytest.mark.slow
async def test_workers_that_get_everything_at_once_store_it_once(log: Any) -> None:
    channels = await workers(log, 3)
    chance = random.Random(1)

    async def send(channel: LogChannel, seed: int) -> None:
        order = list(range(600))
        random.Random(seed).shuffle(order)
        while order:
            taken, order = order[: (size := chance.randint(1, 9))], order[size:]
            await put(channel, [log.event(n) for n in taken])

    await asyncio.gather(*(send(channel, n) for channel in channels for n in range(2)))
    assert sorted(map(int, ids(log))) == list(range(600))
    assert all(channel.appended for channel in channels)


@pytest.mark.slow
async def test_keys_in_runs_of_another_worker_and_of_one_that_died(log: Any) -> None:
    one, two = await workers(log)
    for n in range(0, 800, 50):  # a run has 15 keys
        await put(one, log.events(50, first=n))
    first = await places(two, log.events(801))
    assert first == [*(f"-0/{n}" for n in range(1, 801)), "1/1"]
    died(log, one)
    two = await open_(log, worker=1, workers=2)  # the other one is not there yet
    assert await places(two, log.events(802)) == [*first[:-1], "-1/1", "1/2"]
    one = await open_(log, worker=0, workers=2)
    assert await places(one, log.events(802)) == [*first[:-1], "-1/1", "-1/2"]
    assert len(ids(log)) == 802


async def test_keys_of_another_worker_outlive_the_rows_that_its_retention_deletes(log: Any) -> None:
    clock = FakeClock()
    options = {"clock": clock, "retention": {"max_age_s": 600.0}, "window": "7d"}
    one, two = await workers(log, **options)
    await put(one, log.events(100))
    await put(two, log.events(1, first=5000))
    for n in range(100, 300, 20):
        await put(one, log.events(20, first=n))
    clock.advance(620)
    await log.wait(lambda: one.info()["events"] == 0)
    assert await places(two, log.events(300)) == [f"-0/{n}" for n in range(1, 301)]
    died(log, two)
    two = await open_(log, worker=1, workers=2, **options)
    assert await places(two, log.events(300)) == [f"-0/{n}" for n in range(1, 301)]


@pytest.mark.slow
@pytest.mark.parametrize("counts", [(1, 2, 1), (3, 2, 3), (2, 3, 1)])
async def test_the_number_of_workers_may_change(log: Any, counts: tuple[int, ...]) -> None:
    sent = 0
    for count in counts:
        channels = await workers(log, count, max_keys=MANY)
        for channel in channels:
            for _ in range(6):
                await put(channel, log.events(sent + 50))
                sent += 50
        for channel in channels:
            assert all(n < 0 for n in await put(channel, log.events(sent)))
        for channel in channels:
            await log.stop(channel)
    assert sorted(map(int, ids(log))) == list(range(sent))


async def test_the_newest_of_two_firsts_counts_after_the_window(log: Any) -> None:
    clock = FakeClock()
    one, two = await workers(log, clock=clock, window="1h")
    assert await places(one, log.events(1)) == ["0/1"]
    clock.advance(3601)
    assert await places(two, log.events(1)) == ["1/1"]
    assert await places(one, log.events(1)) == ["-1/1"]
    clock.advance(3601)
    assert await places(one, log.events(1)) == ["0/2"]
    assert await places(two, log.events(1)) == ["-0/2"]


@pytest.mark.spec("ONCE-02")
async def test_the_content_is_compared_with_that_of_the_other_worker(log: Any) -> None:
    one, two = await workers(log, on_conflict="refuse")
    await put(one, log.events(1))
    with pytest.raises(Refused):
        await put(two, [log.event(0, b"other"), log.event(1)])
    assert await places(two, log.events(2)) == ["-0/1", "1/1"]


async def test_events_without_a_key_and_replays_are_stored_by_each(log: Any) -> None:
    one, two = await workers(log, key=["source", "order"])
    assert await places(one, log.events(2)) == ["0/1", "0/2"]
    assert await places(two, log.events(2)) == ["1/1", "1/2"]
    assert await places(one, [log.event(5, order="a")]) == ["0/3"]
    assert await places(two, [log.event(6, order="a")]) == ["-0/3"]


@pytest.mark.slow
@pytest.mark.spec("ONCE-04")
@pytest.mark.parametrize("shard", [0, 1])
@pytest.mark.parametrize("before_2", [False, True], ids=["two", "one, then two"])
async def test_keys_of_a_shard_that_went_back_are_forgotten_by_all(
    log: Any, tmp_path: Path, shard: int, before_2: bool
) -> None:
    if before_2:  # runs of shard 1 in the folder of worker 0
        one, two = await workers(log, max_keys=MANY)
        await put(two, log.events(30, first=9000))
        for channel in (one, two):
            await log.stop(channel)
        await log.stop(await open_(log, max_keys=MANY))
    channels = await workers(log, max_keys=MANY)
    await put(channels[shard], log.events(10))
    before = tmp_path / "before"
    back_up(log.path, before, lambda *_: None)
    for n in range(10, 410, 40):
        await put(channels[shard], log.events(40, first=n))
    await put(channels[1 - shard], log.events(2, first=8000))
    for channel in channels:
        await log.stop(channel)
    name = f"shard-00{shard}.db"
    shutil.copy(before / "log" / "default" / name, log.folder / name)
    (log.folder / f"{name}-wal").unlink(missing_ok=True)  # the worker that stopped last was reading this file
    (log.folder / f"{name}-shm").unlink(missing_ok=True)
    (log.folder / "meta.json").unlink()
    channels = await workers(log, max_keys=MANY)
    others = log.events(600, first=1000)
    assert all(n > 0 for n in await put(channels[shard], others))  # takes the sequences of those that are lost
    answers = await put(channels[1 - shard], log.events(20))
    assert [n < 0 for n in answers] == [True] * 10 + [False] * 10
    assert all(n < 0 for n in await put(channels[shard], [*others, *log.events(20), *log.events(2, first=8000)]))
    assert max(Counter(ids(log)).values()) == 1


@pytest.mark.spec("ONCE-04")
async def test_a_backup_has_the_keys_of_all_workers(log: Any, tmp_path: Path) -> None:
    clock = FakeClock()
    options = {"clock": clock, "retention": {"max_age_s": 600.0}}
    channels = await workers(log, **options)
    for n in range(0, 300, 50):
        await put(channels[n // 50 % 2], log.events(50, first=n))
    clock.advance(620)
    await log.wait(lambda: all(channel.info()["events"] == 0 for channel in channels))
    made = tmp_path / "backup"
    back_up(log.path, made, lambda *_: None)
    for channel in channels:
        await log.stop(channel)
    log.path, log.folder = made, made / "log" / "default"
    channels = await workers(log, **options)
    for channel in channels:
        assert all(n < 0 for n in await put(channel, log.events(300)))


@pytest.mark.spec("ONCE-03")
async def test_all_workers_together_keep_no_more_than_max_keys(log: Any) -> None:
    one, two = await workers(log, max_keys=1000)
    for n in range(0, 3000, 50):
        await put(one, log.events(50, first=n))
    await put(two, log.events(1, first=5000))
    await log.wait(lambda: one.info()["deduplication"]["keys"] <= 1200)
    assert one.info()["deduplication"]["keys"] >= 800  # a worker that gets all may have the keys of all
    assert all("max_keys" in channel.info()["faults"]["deduplication"] for channel in (one, two))
    assert all(n < 0 for n in await put(two, log.events(400, first=2600)))
