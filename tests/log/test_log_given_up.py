"""Which events were given up, as the log keeps it: with the cursor, as long as the event, over restarts and kills."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from gateway_log import given_up, meta
from gateway_log.channel import LogChannel
from gateway_log.cursor import CursorChanges, CursorState
from gateway_log.feeder import MAX_GIVEN_UP, Tail
from gateway_log.reader import LogReader, open_read_only, shard_file
from gateway_log.repair import repair
from gateway_log.shard import Shard

from gateway_core.contract.capabilities import GivenUp, KeepsGivenUp, TellsGivenUp

from .conftest import Log

pytestmark = [pytest.mark.anyio, pytest.mark.spec("SAFE-90")]

ROW = [1, 1, 0, "", "{}", None, 0]


def fate(number: int = 1, to: str = "file:///x", **more: int) -> GivenUp:
    return GivenUp(number, to, f"reason {number}: it's", 3, 503, **more)


async def test_it_is_kept_with_the_cursor_over_a_restart(log: Log) -> None:
    subscriber = log.Subscriber()
    channel = await log.open({"t": subscriber, "u": log.Subscriber(acks=True)})
    await log.append(channel, log.events(3))
    await log.wait(lambda: len(subscriber.held) == 3)
    assert isinstance(subscriber.feed, KeepsGivenUp)
    first, second, third = subscriber.held
    subscriber.feed.give_up(second, fate())
    subscriber.ack(second)
    await log.stop(channel)
    again: LogChannel = await log.open({"t": log.Subscriber(), "u": log.Subscriber()})
    assert isinstance(again, TellsGivenUp)
    assert await again.given_up(second) == {"t": fate()}
    assert await again.given_up(first) == await again.given_up(third) == await again.given_up(9 << 48) == {}


async def test_a_position_of_nobody_is_ignored(log: Log) -> None:
    subscriber = log.Subscriber()
    channel = await log.open({"t": subscriber})
    subscriber.feed.give_up(7 << 48 | 1, fate())
    await log.stop(channel)


async def test_a_subscription_that_delivers_writes_nothing(log: Log) -> None:
    channel = await log.open({"t": log.Subscriber(acks=True)})
    await log.append(channel, log.events(3))
    await log.stop(channel)
    with closing(open_read_only(shard_file(log.folder, 0))) as connection:
        assert not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'given_up'").fetchall()


async def test_they_are_counted_by_subscription_and_dead_letter(log: Log) -> None:
    subscriber = log.Subscriber()
    channel = await log.open({"t": subscriber})
    assert channel.given_up_counts() == []
    await log.append(channel, log.events(5))
    await log.wait(lambda: len(subscriber.held) == 5)
    for number, position in enumerate([*subscriber.held]):
        delivered = 9 if number == 3 else 0  # by a replay
        facts = fate(number, "file:///y" if number == 4 else "file:///x", delivered_ns=delivered)
        subscriber.feed.give_up(position, facts)
        subscriber.ack(position)
    await log.stop(channel)
    counts = {(c.name, c.to): (c.count, c.last) for c in log.make().given_up_counts()}
    assert counts == {("t", "file:///x"): (3, fate(2)), ("t", "file:///y"): (1, fate(4, "file:///y"))}


def rows_of(folder: Path) -> list[given_up.Row]:
    with LogReader(folder) as reader:
        return reader.given_up_rows(0)


def test_it_goes_with_its_event(tmp_path: Path) -> None:
    shard = Shard(tmp_path, 0, "full")
    for n in (1, 2, 3):
        shard.write([n, *ROW[1:]], CursorChanges(0, n + 1, [("t", CursorState(None))], [given_up.row(n, "t", fate(n))]))
    assert [row.sequence for row in rows_of(tmp_path)] == [1, 2, 3]
    assert not shard.delete_some(3, 10**18, 0)
    assert rows_of(tmp_path) == [given_up.row(3, "t", fate(3))]
    shard.close()


def test_what_can_not_be_written_is_kept_for_the_next_time(tmp_path: Path) -> None:
    tail = Tail(0, 1, 1, 1, lambda: None)
    for n in range(MAX_GIVEN_UP + 3):
        tail.note(given_up.row(n, "t", fate(n)))
    taken = tail.take()
    assert not tail.stale
    tail.note(given_up.row(0, "u", fate()))
    tail.put_back(taken)
    assert tail.stale
    kept = tail.take().given_up
    assert (len(kept), kept[0].sequence, kept[-1].name) == (MAX_GIVEN_UP, 4, "u")


@pytest.mark.usefixtures("processes")
def test_a_kill_leaves_both_the_cursor_and_the_fate_or_neither(tmp_path: Path) -> None:
    read, write = os.pipe()
    child = os.fork()
    if not child:  # pragma: no cover
        try:
            shard = Shard(tmp_path, 0, "full")
            for n in range(1, 10_000):
                changes = CursorChanges(0, n + 1, [("t", CursorState(n + 1))], [given_up.row(n, "t", fate(n))])
                shard.write([n, *ROW[1:]], changes)
                os.write(write, b".")
        finally:
            os._exit(1)
    os.close(write)
    for _ in range(20):
        assert os.read(read, 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(read)
    shard = Shard(tmp_path, 0, "full")
    place = shard.cursors["t"].next
    assert place is not None
    assert sorted(row.sequence for row in rows_of(tmp_path)) == list(range(1, place))
    shard.close()


def test_a_repair_keeps_it(tmp_path: Path) -> None:
    shard = Shard(tmp_path, 0, "full")
    shard.write(ROW, CursorChanges(0, 2, [("t", CursorState(None))], [given_up.row(1, "t", fate())]))
    shard.freeze("planted")
    meta.change(tmp_path, lambda known: known.broken(0, "planted"))
    shard.close()
    assert any("kept" in line for line in repair(tmp_path))
    assert rows_of(tmp_path) == [given_up.row(1, "t", fate())]


@pytest.mark.spec("AGAIN-20")
async def test_a_delivery_after_all_is_kept_whoever_writes_the_shard(log: Log) -> None:
    """The first worker replays the events of all; the one that writes the shard keeps what became of them."""
    theirs = log.Subscriber()
    second = await log.open({"t": theirs}, worker=1, workers=2)
    await log.append(second, log.events(3))
    await log.wait(lambda: len(theirs.held) == 3)
    positions = [*theirs.held]
    for position in positions[:2]:
        theirs.feed.give_up(position, fate())
        theirs.ack(position)
    theirs.ack(positions[2])
    await second.joined("t")
    mine = log.Subscriber()
    first = await log.open({"t": mine}, worker=0, workers=2)
    for position in positions:
        mine.feed.delivered_again(position, 9)
    mine.feed.delivered_again(positions[2], 8, fate(4))  # of a dead letter that the log does not know
    await log.stop(first)
    await log.stop(second)
    again: LogChannel = await log.open({"t": log.Subscriber()}, worker=1, workers=2)
    with anyio.fail_after(10):
        while (await again.given_up(positions[0]))["t"].delivered_ns != 9:  # noqa: ASYNC110 - a file is read
            await anyio.sleep(0.01)
    assert await again.given_up(positions[1]) == {"t": fate(delivered_ns=9)}
    assert await again.given_up(positions[2]) == {"t": fate(4, delivered_ns=8)}
    assert again.given_up_counts() == []


@pytest.mark.spec("AGAIN-20")
async def test_a_rewind_that_delivers_what_was_given_up_is_kept_too(log: Log) -> None:
    subscriber = log.Subscriber()
    channel = await log.open({"t": subscriber})
    await log.append(channel, log.events(4))
    await log.wait(lambda: len(subscriber.held) == 4)
    positions = [*subscriber.held]
    for position in positions:
        subscriber.feed.give_up(position, fate())
        subscriber.ack(position)
    await channel.decide_rewind("t", {0: 2})
    await channel.rewind("t", {0: 2})
    await log.wait(lambda: len(subscriber.held) == 3)
    subscriber.ack(positions[1])
    subscriber.feed.give_up(positions[2], fate(5))
    subscriber.ack(positions[2])
    await log.stop(channel)  # the last one comes after a restart
    subscriber = log.Subscriber(acks=True)
    channel = await log.open({"t": subscriber})
    await log.wait(lambda: subscriber.got == positions[3:])
    await log.stop(channel)
    found = [(await channel.given_up(position))["t"] for position in positions]
    assert [one.delivered_ns > 0 for one in found] == [False, True, False, True]
    assert found[2] == fate(5)
