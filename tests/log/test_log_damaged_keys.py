"""Damage in the files of keys never lets an event be stored twice unnoticed: the next start makes the keys again from
the log's events, or refuses."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gateway_log.channel import LogChannel
from gateway_log.repair import repair
from gateway_log.verify import faults
from gateway_testing import FakeClock

from gateway_core.contract.errors import StartError
from tests.log.test_log_deduplication import died, open_, put

pytestmark = [pytest.mark.anyio, pytest.mark.spec("ONCE-14")]
ALL = [-n for n in range(1, 401)]


def flip(file: Path, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)


async def fill(log: Any, channel: LogChannel) -> None:
    for n in range(0, 400, 50):
        await put(channel, log.events(50, first=n))


def oldest(log: Any, folder: str = "keys") -> Path:
    return min((log.folder / folder).glob("*.runs"))


def newest(log: Any) -> Path:
    return max((log.folder / "keys").glob("*.runs"), key=lambda p: (p.stat().st_size > 0, p.name))


DAMAGES: dict[str, Callable[[Any], None]] = {
    "first header": lambda log: flip(oldest(log), 8),
    "header within a file": lambda log: flip(oldest(log), 60 + 50 * 24 + 4 + 8),
    "keys within a file": lambda log: flip(oldest(log), 60 + 50 * 24 + 4 + 60 + 100),
    "last keys of an older file": lambda log: flip(oldest(log), -10),
    "last header": lambda log: flip(newest(log), newest(log).stat().st_size // (60 + 1204) * 1264 - 1264 + 8),
    "cut in the middle": lambda log: oldest(log).write_bytes(oldest(log).read_bytes()[:1500]),
    "zeros": lambda log: oldest(log).write_bytes(bytes(oldest(log).stat().st_size)),
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_the_next_start_makes_damaged_keys_again(log: Any, damage: str) -> None:
    channel = await open_(log)
    await fill(log, channel)
    await log.stop(channel)
    DAMAGES[damage](log)
    for _ in range(2):
        channel = await open_(log)
        assert (await put(channel, log.events(401)))[:400] == ALL
        assert channel.info()["deduplication"]["keys"] == 401
        died(log, channel)
    await log.stop(channel)


async def test_a_damaged_bit_anywhere_is_mended_and_no_later_start_finds_it(log: Any) -> None:
    channel = await open_(log)
    await fill(log, channel)
    await log.stop(channel)
    before = log.path
    for file in sorted((log.folder / "keys").glob("*.runs")):
        for at in sorted((*range(8, file.stat().st_size, 1264), *range(700, file.stat().st_size, 1264))):
            log.path = before.with_name(f"{file.stem}-{at}")
            shutil.copytree(before, log.path)
            log.folder = log.path / "log" / "default"
            flip(log.folder / "keys" / file.name, at)
            channel = await open_(log)
            assert await put(channel, log.events(400)) == ALL, at
            await log.stop(channel)
            assert list(faults(log.folder)) == [], at
            channel = await open_(log)
            assert await put(channel, log.events(400)) == ALL, at
            await log.stop(channel)
            shutil.rmtree(log.path)


@pytest.mark.parametrize("damage", [*DAMAGES, "no file"])
async def test_a_start_is_refused_if_the_log_no_longer_has_the_events(log: Any, damage: str) -> None:
    clock = FakeClock()
    options = {"clock": clock, "retention": {"max_age_s": 600.0}, "window": "7d"}
    channel = await open_(log, **options)
    await fill(log, channel)
    await log.stop(channel)  # so that all runs are there when retention looks
    channel = await open_(log, **options)
    clock.advance(620)
    await log.wait(lambda: channel.info()["events"] == 0)
    await log.stop(channel)
    DAMAGES[damage](log) if damage in DAMAGES else shutil.rmtree(log.folder / "keys")
    for _ in range(2):
        with pytest.raises(StartError, match=r"keys in .* are damaged or missing \(events \d+ to \d+ of shard 0\)"):
            await open_(log, **options)
    told = list(repair(log.folder))
    assert told
    assert all("are lost: events that were stored before are stored again" in line for line in told)
    assert list(repair(log.folder)) == []
    channel = await open_(log, **options)
    places = await put(channel, log.events(400))
    assert {place < 0 for place in places} == {True, False}  # the newest keys are in no run
    await log.stop(channel)
    channel = await open_(log, **options)
    assert all(position < 0 for position in await put(channel, log.events(400)))


async def test_damaged_keys_that_no_longer_count_are_no_reason_to_refuse(log: Any) -> None:
    clock = FakeClock()
    options = {"clock": clock, "retention": {"max_age_s": 600.0}, "window": "1h"}
    channel = await open_(log, **options)
    await fill(log, channel)
    clock.advance(4000)
    await log.wait(lambda: channel.info()["events"] == 0)
    await log.stop(channel)
    flip(oldest(log), 8)
    channel = await open_(log, **options)
    assert await put(channel, log.events(1)) == [401]


async def test_made_again_keys_do_not_hide_later_ones(log: Any) -> None:
    clock = FakeClock()
    channel = await open_(log, clock=clock, window="1h")
    await fill(log, channel)
    clock.advance(2000)
    await put(channel, log.events(60, first=400))
    clock.advance(1700)  # the first ones no longer count
    assert await put(channel, log.events(60)) == [*range(461, 521)]
    await put(channel, log.events(60, first=1000))
    await log.stop(channel)
    flip(oldest(log), 8)
    channel = await open_(log, clock=clock, window="2h")
    assert await put(channel, log.events(60)) == [-n for n in range(461, 521)]
    await log.stop(channel)
    channel = await open_(log, clock=clock, window="1h")
    assert await put(channel, log.events(60)) == [-n for n in range(461, 521)]


@pytest.mark.parametrize("first", [0, 1])
async def test_each_worker_knows_the_damaged_keys_of_all(log: Any, first: int) -> None:
    channels = [await open_(log, worker=n, workers=2) for n in range(2)]
    for n in range(0, 400, 50):
        await put(channels[n // 50 % 2], log.events(50, first=n))
    for channel in channels:
        await log.stop(channel)
    flip(oldest(log, "keys"), 8)
    flip(oldest(log, "keys-1"), 8)
    one = await open_(log, worker=first, workers=2)
    assert all(position < 0 for position in await put(one, log.events(400)))  # the other is not there yet
    two = await open_(log, worker=1 - first, workers=2)
    assert all(position < 0 for position in await put(two, log.events(400)))
    for channel in (one, two):
        await log.stop(channel)
    assert list(faults(log.folder)) == []
    channel = await open_(log)
    assert all(position < 0 for position in await put(channel, log.events(400)))
