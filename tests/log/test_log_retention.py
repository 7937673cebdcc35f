"""Old events go, but none that is still needed, and no number is used twice."""

from __future__ import annotations

from typing import Any

import pytest
from gateway_log.reader import LogReader
from gateway_testing import FakeClock

from gateway_core.contract.filters import match_all
from gateway_core.contract.moments import written
from gateway_core.contract.start_position import EARLIEST

pytestmark = pytest.mark.anyio
AGE_S = 600.0  # the log looks every 10 s of the clock
MIB = 1024 * 1024


async def test_old_events_go_once_all_have_dealt_with_them(log: Any) -> None:
    clock = FakeClock()
    slow, fast = log.Subscriber(), log.Subscriber(acks=True)
    channel = await log.open({"slow": slow, "fast": fast}, clock=clock, retention={"max_age_s": AGE_S})
    await log.append(channel, log.events(3000))
    slow.ack(*range(1, 1501))
    clock.advance(AGE_S + 20)
    await log.wait(lambda: channel.info()["first"] == 1501)
    slow.ack(*slow.held)
    clock.advance(20)
    await log.wait(lambda: channel.info()["events"] == 0)
    await log.append(channel, log.events(1))
    assert channel.info()["first"] == 3001


async def test_young_events_stay(log: Any) -> None:
    clock = FakeClock()
    channel = await log.open(clock=clock, retention={"max_age_s": AGE_S})
    await log.append(channel, log.events(10))
    clock.advance(AGE_S / 2)
    await log.append(channel, log.events(10))
    clock.advance(AGE_S / 2 + 20)
    await log.wait(lambda: channel.info()["first"] == 11)
    await log.append(channel, log.events(1))
    assert channel.info()["events"] == 11


async def test_numbers_are_not_used_again_after_a_restart_of_an_empty_log(log: Any) -> None:
    clock = FakeClock()
    channel = await log.open(clock=clock, retention={"max_age_s": AGE_S})
    await log.append(channel, log.events(10))
    clock.advance(AGE_S + 20)
    await log.wait(lambda: channel.info()["events"] == 0)
    await log.stop(channel)
    channel = await log.open()
    await log.append(channel, log.events(1))
    with LogReader(log.folder) as reader:
        assert reader.bounds(0) == (11, 12)


@pytest.mark.slow
async def test_a_large_log_shrinks_and_gives_space_back(log: Any) -> None:
    clock = FakeClock()
    channel = await log.open(clock=clock, retention={"max_age_s": None, "max_bytes": 2 * MIB})
    for _ in range(40):
        await log.append(channel, log.events(10, data=bytes(100_000)))

    def small() -> bool:
        clock.advance(11)
        return channel.info()["events"] <= 21

    await log.wait(small)
    assert channel.info()["events"] >= 10


async def test_events_that_a_reader_has_not_read_stay(log: Any) -> None:
    clock = FakeClock()
    channel = await log.open(clock=clock, retention={"max_age_s": AGE_S})
    feed = channel.attach_reader("table", match_all())
    await log.append(channel, log.events(10))
    feed.advance({"0": 4})
    clock.advance(AGE_S + 20)
    await log.wait(lambda: channel.info()["first"] == 4)
    feed.advance({"0": 8})
    clock.advance(20)
    await log.wait(lambda: channel.info()["first"] == 8)
    channel.detach("table")
    clock.advance(20)
    await log.wait(lambda: channel.info()["events"] == 0)


async def test_unread_events_go_where_the_config_says_so(log: Any) -> None:
    clock = FakeClock()
    away = log.Subscriber(room=2)
    channel = await log.open({"away": away}, clock=clock, retention={"max_age_s": AGE_S, "keep_unread": False})
    await log.append(channel, log.events(10))
    clock.advance(AGE_S + 20)
    await log.wait(lambda: channel.info()["events"] == 0)
    await log.stop(channel)
    away = log.Subscriber()
    channel = await log.open({"away": away})
    await log.append(channel, log.events(1))
    await log.wait(lambda: away.got == [11])
    assert away.feed.lag() == 1


class Jumping(FakeClock):
    """A clock that somebody sets."""

    ahead_s = 0.0

    def now_ns(self) -> int:
        return super().now_ns() + int(self.ahead_s * 1e9)


@pytest.mark.slow
@pytest.mark.spec("SAFE-56")
async def test_a_clock_that_jumps_forward_makes_no_event_old(log: Any, caplog: pytest.LogCaptureFixture) -> None:
    clock = Jumping()
    channel = await log.open(clock=clock, retention={"max_age_s": AGE_S, "keep_unread": False})
    await log.append(channel, log.events(10))
    clock.advance(20)
    clock.ahead_s = 400 * 86_400.0  # the time server is wrong
    for _ in range(20):
        clock.advance(20)
        await log.append(channel, log.events(1))
    assert "jumped forward by 34560000 s" in caplog.text
    assert channel.info()["first"] == 1
    clock.ahead_s = 0.0
    clock.advance(3600 + AGE_S)
    await log.wait(lambda: channel.info()["first"] > 10)


async def test_nothing_is_deleted_while_a_reload_replaces_subscriptions(log: Any) -> None:
    clock = FakeClock()
    slow, table = log.Subscriber(), log.Subscriber(acks=True)
    channel = await log.open({"slow": slow, "other": table}, clock=clock, retention={"max_age_s": AGE_S})
    channel.attach_reader("table", match_all(), start=EARLIEST)
    await log.append(channel, log.events(10))
    channel.hold(None)
    channel.detach("slow")
    channel.detach("table")
    assert (log.folder / "readers" / "table.json").exists(), "another worker would delete what the table needs"
    for _ in range(3):
        clock.advance(AGE_S + 20)
        await log.append(channel, log.events(1))  # behind what retention has put on the writer's thread
    assert channel.info()["first"] == 1
    again = log.Subscriber(acks=True)
    again.feed = channel.attach("slow", again.filter, again)
    reading = channel.attach_reader("table", match_all())
    channel.hold({"slow", "other", "table"})
    await log.wait(lambda: len(again.got) == 13)
    reading.advance({"0": 14})
    clock.advance(AGE_S + 20)
    await log.wait(lambda: channel.info()["events"] == 0)


async def test_what_a_reload_could_not_attach_keeps_its_events_until_the_config_drops_it(log: Any) -> None:
    clock = FakeClock()
    broken = log.Subscriber()
    channel = await log.open({"broken": broken}, clock=clock, retention={"max_age_s": AGE_S})
    channel.attach_reader("table", match_all(), start=EARLIEST)
    await log.append(channel, log.events(10))
    broken.ack(*range(1, 5))

    async def reloaded(wanted: set[str]) -> int:
        channel.hold(None)
        for name in wanted:
            channel.detach(name)  # and neither is attached again
        channel.hold({"broken", "table"} if wanted else set())
        clock.advance(AGE_S + 20)
        for _ in range(2):
            await log.append(channel, log.events(1))
        return int(channel.info()["first"])

    assert await reloaded({"broken", "table"}) == 1
    assert await reloaded({"broken"}) == 1
    assert await reloaded(set()) > 1
    assert not (log.folder / "readers" / "table.json").exists()


@pytest.mark.spec("AGAIN-17")
async def test_the_status_says_how_far_back_events_go_and_when_the_log_is_full(log: Any) -> None:
    clock = FakeClock()

    async def appended(count: int) -> None:
        events = log.events(count, data=b"x" * 1000)
        for event in events:
            event.received_ns = clock.now_ns()
        await log.append(channel, events)

    channel = await log.open(clock=clock, retention={"max_age_s": AGE_S, "max_bytes": 64 * MIB})
    assert (channel.info()["oldest"], channel.info()["full_in_s"]) == (None, None)
    first_ns = clock.now_ns()
    await appended(500)
    assert channel.info()["oldest"] == written(first_ns)
    clock.advance(300)
    second_ns = clock.now_ns()
    await appended(500)
    size = channel.info()["bytes"]
    assert channel.info()["full_in_s"] == pytest.approx((64 * MIB - size) * 300 / size, abs=1)
    clock.advance(310)
    await log.wait(lambda: channel.info()["oldest"] == written(second_ns))
    await log.stop(channel)
    channel = await log.open(clock=clock)
    assert channel.info()["oldest"] == written(second_ns)
