"""Rewinds of a log that several workers write: decided for all shards, done by each, over the end of any of them."""

from __future__ import annotations

import pytest

from gateway_core.contract.errors import StorageError

from .conftest import Log

pytestmark = pytest.mark.anyio


@pytest.mark.spec("AGAIN-22")
async def test_a_decided_rewind_happens_in_every_shard_whoever_ends_before_it_is_done(log: Log) -> None:
    """The first worker goes back; the other one ends before it is asked to, and does so when it starts again. What it
    had not settled before that stays."""
    subscribers = [log.Subscriber(start=True), log.Subscriber(start=True)]
    channels = []
    for worker in (0, 1):
        channels.append(await log.open({"t": subscribers[worker]}, worker=worker, workers=2))
        await log.append(channels[worker], log.events(5))
        await log.wait(lambda s=subscribers[worker]: len(s.held) == 5)  # type: ignore[misc]
    for subscriber in subscribers:
        subscriber.ack(*subscriber.held[1:])
    await channels[1].joined("t")
    settled = await channels[0].settled("t")
    both = [[settled(position) for position in s.got] for s in subscribers]
    assert both == [[False, True, True, True, True]] * 2
    await channels[0].decide_rewind("t", {0: 3, 1: 4})
    await channels[0].rewind("t", {0: 3, 1: 4})
    await log.wait(lambda: len(subscribers[0].got) == 5 + 4)
    assert [p & 0xFFFF for p in subscribers[0].got[5:]] == [1, 3, 4, 5]
    for channel in channels:
        await log.stop(channel)
    left = log.folder / "rewinds"
    assert len(list(left.iterdir())) == 2, "decided, and done by one shard"
    second = log.Subscriber(acks=True)
    channel = await log.open({"t": second}, worker=1, workers=2)
    await log.wait(lambda: len(second.got) == 3)
    assert [p & 0xFFFF for p in second.got] == [1, 4, 5]
    assert not list(left.iterdir())
    await channel.rewind("t", {0: 3, 1: 4})  # asked for again, it does nothing
    await log.stop(channel)
    third = log.Subscriber()
    await log.open({"t": third}, worker=1, workers=2)
    assert third.got == []


@pytest.mark.spec("AGAIN-22")
async def test_a_gateway_that_stops_before_it_is_done_says_so_and_goes_back_at_its_next_start(log: Log) -> None:
    subscriber = log.Subscriber(acks=True)
    channel = await log.open({"t": subscriber})
    await log.append(channel, log.events(5))
    await log.wait(lambda: len(subscriber.got) == 5)
    await channel.decide_rewind("t", {0: 3})
    await log.stop(channel)
    with pytest.raises(StorageError, match="goes back at its next start"):
        await channel.rewind("t", {0: 3})
    again = log.Subscriber(acks=True)
    await log.open({"t": again})
    await log.wait(lambda: len(again.got) == 3)
    assert [p & 0xFFFF for p in again.got] == [3, 4, 5]
