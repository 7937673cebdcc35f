"""Where new subscriptions and readers begin in a log, above all at a time, if times are out of order."""

from __future__ import annotations

import random
from typing import Any

import pytest
from gateway_log.starts import SLACK_NS

from gateway_core.contract.event import position_of
from gateway_core.contract.filters import match_all
from gateway_core.contract.start_position import EARLIEST, LATEST, StartPosition

pytestmark = [pytest.mark.anyio, pytest.mark.spec("TR-11")]
S = 1_000_000_000
NOW = 1_700_000_000 * S


async def fill(log: Any, times: list[int], **options: Any) -> Any:
    """A channel with events that were received at these times."""
    channel = await log.open(**options)
    events = log.events(len(times))
    for event, ns in zip(events, times, strict=True):
        event.received_ns = ns
    await log.append(channel, events)
    return channel


def at(channel: Any, name: str, start: StartPosition) -> int:
    """Where a reader with this start begins in shard 0."""
    return int(channel.attach_reader(name, match_all(), start=start).start["0"])


@pytest.mark.slow
async def test_times_that_are_out_of_order_hide_no_event(log: Any) -> None:
    """Whatever the order within the slack, the first event of the time or later is the first in the log."""
    chosen = random.Random(1)
    times = [NOW + n * S // 10 + chosen.randrange(-SLACK_NS // 2, SLACK_NS // 2) for n in range(600)]
    channel = await fill(log, times)
    for n in range(0, 600, 7):
        wanted = next(sequence for sequence, ns in enumerate(times, 1) if ns >= times[n])
        assert at(channel, f"r{n}", StartPosition.at_time(times[n])) == wanted
    assert at(channel, "after", StartPosition.at_time(max(times) + 1)) == 601
    assert at(channel, "before", StartPosition.at_time(0)) == 1


async def test_a_clock_that_jumped_back_hides_no_event_that_was_stored_after_it_caught_up(log: Any) -> None:
    """An hour back: times then come twice, and a start within them is one of both. What is later than all is exact."""
    ahead = [NOW + n * S for n in range(100)]
    back = [ns - 3600 * S for ns in ahead]
    later = [NOW + 200 * S + n * S for n in range(100)]
    channel = await fill(log, [*ahead, *back, *later])
    assert at(channel, "later", StartPosition.at_time(later[50])) == 251
    assert at(channel, "caught up", StartPosition.at_time(later[0])) == 201
    assert at(channel, "ahead", StartPosition.at_time(ahead[10])) in (11, 201)


async def test_a_subscription_and_a_reader_begin_at_the_same_event(log: Any) -> None:
    channel = await fill(log, [NOW + n * S for n in range(40)])
    wanted = {
        "earliest": (EARLIEST, 1),
        "latest": (LATEST, 41),
        "time": (StartPosition.at_time(NOW + 20 * S - 1), 21),
        "positions": (StartPosition.at_positions({0: 30, 7: 2}), 30),
        "gone": (StartPosition.at_positions({0: 0}), 1),
        "beyond": (StartPosition.at_positions({0: 1000}), 41),
        "others": (StartPosition.at_positions({7: 2}), 1),
    }
    for name, (start, first) in wanted.items():
        assert at(channel, f"reader {name}", start) == first, name
        s = log.Subscriber(start=start)
        s.feed = channel.attach(name, s.filter, s, start=start)
        assert s.feed.lag() == 41 - first, name
        await log.wait(lambda s=s, first=first: len(s.got) == 41 - first)
        assert s.got == [position_of(0, n) for n in range(first, 41)], name


async def test_a_subscription_that_is_known_ignores_its_start(log: Any) -> None:
    channel = await fill(log, [NOW] * 5)
    s = log.Subscriber(acks=True, start=EARLIEST)
    s.feed = channel.attach("s", s.filter, s, start=EARLIEST)
    await log.wait(lambda: len(s.got) == 5)
    await log.stop(channel)
    again = log.Subscriber(start=StartPosition.at_time(0))
    channel = await log.open({"s": again})
    await log.append(channel, log.events(1))
    await log.wait(lambda: bool(again.got))
    assert again.got == [6]


async def test_each_shard_has_its_own_first_event(log: Any) -> None:
    """Positions by shard, and one time for all; a shard that is not named is read from its beginning."""
    for worker in (0, 1):
        await log.stop(await fill(log, [NOW + n * S + worker for n in range(10)], worker=worker, workers=2))
    channel = await log.open(worker=0, workers=1)
    starts = {
        "time": (StartPosition.at_time(NOW + 5 * S + 1), {"0": 7, "1": 6}),
        "positions": (StartPosition.at_positions({1: 4}), {"0": 1, "1": 4}),
    }
    for name, (start, wanted) in starts.items():
        assert channel.attach_reader(f"reader {name}", match_all(), start=start).start == wanted
        s = log.Subscriber()
        channel.attach(name, s.filter, s, start=start)
        await log.wait(lambda s=s, wanted=wanted: len(s.got) == 22 - sum(wanted.values()))
        assert min(p for p in s.got if p >> 48) == position_of(1, wanted["1"])
