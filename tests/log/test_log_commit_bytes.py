"""A commit is bounded in bytes: the write-ahead log must fit into the ballast, or a full disk would never recover."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_log.disk_reserve import DiskReserve
from gateway_log.reader import shard_file
from gateway_log.wal_file import wal_file

from gateway_core.contract.event import Event

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024


@pytest.mark.slow
@pytest.mark.spec("SAFE-80")
async def test_much_that_comes_at_once_does_not_outgrow_the_ballast(log: Any) -> None:
    channel = await log.open()
    answered: list[BaseException | None] = []
    done = asyncio.Event()

    def answer(error: BaseException | None) -> None:
        answered.append(error)
        if len(answered) == 48:
            done.set()

    for number in range(48):  # in one iteration of the loop
        channel.append([Event({"id": str(number)}, bytes(MIB))], answer)
    with anyio.fail_after(60):
        await done.wait()
    assert answered == [None] * 48
    wal = wal_file(shard_file(log.folder, 0)).stat().st_size
    ballast = (log.folder / "shard-000.ballast").stat().st_size
    assert wal <= ballast, f"{wal} bytes of write-ahead log beside a ballast of {ballast}"


@pytest.mark.spec("SAFE-80")
async def test_events_keep_their_order_across_the_commits_that_they_are_cut_into(log: Any) -> None:
    subscriber = log.Subscriber(acks=True)
    channel = await log.open({"all": subscriber})
    waiting = asyncio.Event()
    count = 0

    def answer(error: BaseException | None) -> None:
        nonlocal count
        assert error is None
        count += 1
        if count == 40:
            waiting.set()

    for number in range(40):
        size = 3 * MIB if number % 7 == 3 else 200_000
        channel.append([Event({"id": f"{number}-{n}"}, bytes(size // 4)) for n in range(4)], answer)
    with anyio.fail_after(60):
        await waiting.wait()
        while len(subscriber.got) < 160:  # noqa: ASYNC110
            await anyio.sleep(0.01)
    assert [e.attributes["id"] for e in subscriber.events] == [f"{a}-{b}" for a in range(40) for b in range(4)]


async def test_one_append_larger_than_a_commit_must_fit_on_the_disk_twice(tmp_path: Path) -> None:
    reserve = DiskReserve(tmp_path, 0, 1)
    assert reserve.most_commit_bytes + reserve.most_wal_bytes <= reserve.size
    assert reserve.can_take(MIB)
    before = reserve.missing()
    assert not reserve.can_take(2**60)
    assert reserve.missing() >= before + 2**60  # so that settled events are deleted for it
