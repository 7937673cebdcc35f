"""The log's life: appends, places, restarts, workers, and what it says of itself."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from gateway_log.cursor import CursorState, load_cursors
from gateway_log.reader import LogReader, open_read_only, shard_file

from gateway_core.cli.installation import build
from gateway_core.contract.errors import Overloaded, Refused, StartError
from gateway_core.contract.event import Event, position_of, split_position
from gateway_core.contract.filters import attributes_filter, match_all
from gateway_core.contract.start_position import EARLIEST

pytestmark = pytest.mark.anyio


async def test_events_come_back_as_they_were(log: Any) -> None:
    first = [
        Event({"id": "1", "flag": True, "count": 7, "sequence": "007"}, None, key=b"k", received_ns=5),
        Event({"id": "2", "text": "Zürich ✓"}, b"", received_ns=6),
        Event({"id": "3"}, b"\x00\xff", json_data=True, received_ns=7),
    ]
    channel = await log.open()
    await log.append(channel, first)
    await log.stop(channel)
    again = log.Subscriber(start=True)
    await log.open({"new": again})
    assert again.events == first
    assert [(e.json_data, e.received_ns, e.position) for e in again.events] == [
        (False, 5, 1),
        (False, 6, 2),
        (True, 7, 3),
    ]


@pytest.mark.spec("BR-18")
async def test_a_subscriber_that_is_away_finds_its_events_after_a_restart(log: Any) -> None:
    away, eager = log.Subscriber(room=0), log.Subscriber(acks=True)
    channel = await log.open({"away": away, "eager": eager})
    await log.append(channel, log.events(5))
    assert (eager.got, away.feed.lag(), eager.feed.lag()) == ([1, 2, 3, 4, 5], 5, 0)
    await log.stop(channel)
    back, eager = log.Subscriber(), log.Subscriber()
    await log.open({"away": back, "eager": eager})
    assert (back.got, eager.got) == ([1, 2, 3, 4, 5], [])


@pytest.mark.spec("SAFE-34")
@pytest.mark.parametrize("error", [MemoryError(), SystemError("error return without exception set")])
async def test_an_event_that_memory_is_too_short_for_may_come_again(
    error: Exception, log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def encode(attributes: object) -> bytes:
        raise error

    channel = await log.open()
    monkeypatch.setattr("gateway_log.channel._encode", encode)
    with pytest.raises(Overloaded):
        await log.append(channel, log.events(1))
    monkeypatch.undo()
    await log.append(channel, log.events(1))


@pytest.mark.parametrize(
    "broken",
    [
        lambda: Event({"id": "x", "what": object()}, b""),
        lambda: Event({"id": "x"}, "text"),  # type: ignore[arg-type]
        lambda: Event({"id": "x"}, [1]),  # type: ignore[arg-type]
        lambda: Event({"id": "x"}, b"", key="text"),  # type: ignore[arg-type]
    ],
    ids=["attribute", "text", "list", "key"],
)
async def test_an_event_that_cant_be_stored_is_refused_for_good_and_costs_no_other_one(
    log: Any, broken: Callable[[], Event]
) -> None:
    try:
        bad = broken()
    except TypeError:
        assert build() == "compiled"  # there it can't even be made
        return
    s = log.Subscriber()
    channel = await log.open({"s": s})
    answers: dict[str, BaseException | None] = {}
    (good,) = log.events(1)
    answered = {"bad": anyio.Event(), "good": anyio.Event()}

    def append(name: str, event: Event) -> None:
        def done(error: BaseException | None) -> None:
            answers[name] = error
            answered[name].set()

        channel.append([event], done)

    append("bad", bad)  # both in one round of the loop: in one commit
    append("good", good)
    with anyio.fail_after(60):
        for event in answered.values():
            await event.wait()
    assert answers["good"] is None
    assert isinstance(answers["bad"], Refused)
    assert len(s.events) == 1


async def test_only_what_was_not_acknowledged_is_redelivered(log: Any) -> None:
    s = log.Subscriber()
    channel = await log.open({"s": s})
    await log.append(channel, log.events(5))
    s.ack(5, 1, 3)
    await log.stop(channel)
    again = log.Subscriber()
    channel = await log.open({"s": again})
    await log.append(channel, log.events(1))
    assert again.got == [2, 4, 6]


@pytest.mark.spec("BR-17")
async def test_each_subscription_gets_what_its_filter_matches(log: Any) -> None:
    a, b = log.Subscriber(attributes_filter({"type": "a"})), log.Subscriber()
    channel = await log.open({"a": a, "b": b})
    await log.append(channel, [*log.events(2, type="a"), *log.events(2, type="b")])
    assert (a.got, b.got, channel.appended) == ([1, 2], [1, 2, 3, 4], 4)


async def test_counts_events_that_no_subscription_or_reader_wants(log: Any) -> None:
    channel = log.make()
    await channel.start(None)
    log.running.append(channel)
    channel.attach("a", attributes_filter({"type": "a"}), log.Subscriber(room=0))
    channel.attach_reader("r", attributes_filter({"type": "b"}))
    await channel.open()
    for kind in "aabbc":
        await log.append(channel, [log.event(type=kind)])
    assert channel.info()["unrouted"] == 1


@pytest.mark.slow
async def test_a_full_subscriber_holds_up_no_other_and_misses_nothing(log: Any) -> None:
    slow, fast = log.Subscriber(room=3), log.Subscriber(acks=True)
    channel = await log.open({"slow": slow, "fast": fast})
    for n in range(50):
        await log.append(channel, log.events(500, n * 500))  # more than the newest events held in memory
    total = 25_000
    assert len(fast.got) == total
    assert (len(slow.got), slow.feed.lag()) == (3, total)
    slow.room = 2000
    slow.feed.resume()
    appended = 0
    while len(slow.got) < total + appended:
        await log.wait(lambda: bool(slow.held))
        if appended < 2000:  # the way to the end is raced by new events
            await log.append(channel, log.events(50))
            appended += 50
        slow.ack(*slow.held)
        slow.feed.resume()
    assert slow.got == list(range(1, total + appended + 1))
    assert slow.feed.lag() == 0


async def test_a_batch_is_written_whole(log: Any) -> None:
    channel = await log.open()
    await asyncio.gather(*(log.append(channel, log.events(100)) for _ in range(7)))
    with LogReader(log.folder) as reader:
        assert (reader.bounds(0), [r.sequence for r in reader.read(0, 98, limit=3)]) == ((1, 701), [98, 99, 100])


async def test_an_answer_that_raises_does_not_break_the_others(log: Any, caplog: pytest.LogCaptureFixture) -> None:
    channel = await log.open()

    def broken(error: BaseException | None) -> None:
        raise RuntimeError("the client left")

    channel.append([log.event(1)], broken)
    await log.append(channel, [log.event(2)])
    assert channel.appended == 2
    assert "the client left" in caplog.text


async def test_more_than_may_wait_is_refused(log: Any) -> None:
    channel = await log.open(max_queue_bytes=4096)
    big = b"x" * 3000
    answers = await asyncio.gather(
        *(log.append(channel, [log.event(data=big)]) for _ in range(3)), return_exceptions=True
    )
    assert answers[0] is None
    assert all(isinstance(a, Overloaded) for a in answers[1:])
    await log.append(channel, [log.event(data=big)])  # there is room again


async def test_a_second_gateway_on_the_same_data_is_refused(log: Any) -> None:
    first = await log.open()
    with pytest.raises(StartError, match=r"log/default is in use by another gateway"):
        await log.make().start(None)
    await log.append(first, [log.event()])


@pytest.mark.slow
async def test_a_worker_adopts_the_shards_of_workers_that_are_no_more(log: Any) -> None:
    for worker in (0, 1, 2):
        s = log.Subscriber(room=0)
        channel = await log.open({"s": s}, worker=worker, workers=3)
        await log.append(channel, log.events(2, worker * 10))
        await log.stop(channel)
    s = log.Subscriber(acks=True)
    channel = await log.open({"s": s})
    await log.append(channel, [log.event(99)])
    assert sorted(s.got) == sorted([1, 2, 3, *(position_of(n, q) for n in (1, 2) for q in (1, 2))])
    assert channel.info()["events"] == 7
    await log.stop(channel)
    s = log.Subscriber()
    await log.open({"s": s})
    assert s.got == []


async def test_the_place_of_a_subscription_that_left_is_kept(log: Any) -> None:
    s = log.Subscriber(acks=True)
    channel = await log.open({"s": s, "idle": log.Subscriber(acks=True)})
    await log.append(channel, log.events(2))
    channel.detach("s")
    await log.append(channel, log.events(2))
    await log.stop(channel)
    channel = await log.open()
    await log.append(channel, log.events(1))
    await log.stop(channel)
    s, idle = log.Subscriber(), log.Subscriber()
    await log.open({"s": s, "idle": idle})
    assert (s.got, idle.got) == ([3, 4, 5], [5])


async def test_a_subscription_may_come_while_events_flow(log: Any) -> None:
    channel = await log.open()
    await log.append(channel, log.events(3))
    late, early = log.Subscriber(), log.Subscriber(start=True)
    for name, s in {"late": late, "early": early}.items():
        s.feed = channel.attach(name, s.filter, s, start=s.start)
    await log.append(channel, log.events(1))
    await log.wait(lambda: len(early.got) == 4)
    assert (late.got, early.got) == ([4], [1, 2, 3, 4])


async def test_a_reader_begins_at_the_ends_and_its_place_is_durable(log: Any) -> None:
    channel = await log.open()
    await log.append(channel, log.events(3))
    feed = channel.attach_reader("table", match_all())
    early = channel.attach_reader("early", match_all(), start=EARLIEST)
    assert (feed.location, feed.options["kind"], feed.start) == (str(log.folder), "log", {"0": 4})
    assert (early.options["start"], early.options["firsts"], early.start) == ({"kind": "earliest"}, {"0": 1}, {"0": 1})
    await log.append(channel, log.events(2))
    assert feed.ends() == {"0": 6}
    feed.advance({"0": 5})
    assert json.loads((log.folder / "readers" / "table.json").read_text())["0"] == 5
    channel.detach("table")
    again = channel.attach_reader("table", match_all())
    assert again.start == {"0": 5}
    told = [again.delivery_state(position) for position in (3, 4, 5)]
    assert told == ["before", "passed", "unread"], "`why` calls no event read that came before the trigger"
    again.advance({"0": 2})
    assert [again.delivery_state(position) for position in (1, 2)] == ["before", "unread"]
    again.advance({"0": 6})
    assert [again.delivery_state(position) for position in (1, 2, 5)] == ["before", "passed", "passed"]


async def test_positions_name_shard_and_sequence(log: Any) -> None:
    s = log.Subscriber()
    channel = await log.open({"s": s}, worker=1, workers=2)
    await log.append(channel, log.events(2))
    assert [split_position(p) for p in s.got] == [(1, 1), (1, 2)]
    info = channel.info()
    assert (info["writable"], info["first"], info["next"]) == (True, s.got[0], s.got[-1] + 1)


@pytest.mark.usefixtures("real_time")
async def test_idle_subscriptions_cost_no_writes(log: Any) -> None:
    idle = {f"t{n}": log.Subscriber(attributes_filter({"type": f"t{n}"}), acks=True) for n in range(10_000)}
    channel = await log.open(idle)
    wal = log.folder / "shard-000.db-wal"
    before = wal.stat().st_size
    with closing(sqlite3.connect(log.folder / "shard-000.db")) as reader:

        def routed() -> int:
            return int(reader.execute("SELECT value FROM meta WHERE name = 'routed'").fetchone()[0])

        for n in range(5):
            await log.append(channel, [log.event(type="t7")])
            await log.wait(lambda n=n: routed() == n + 2)
        assert reader.execute("SELECT count(*) FROM feeds").fetchone() == (10_000,)
    assert before > 100_000, "all places were made durable when they were new"
    assert wal.stat().st_size - before < 5 * 40_000, "pages written by five events and five checkpoints"
    assert len(idle["t7"].got) == 5


@pytest.mark.slow
async def test_what_is_acknowledged_while_the_log_opens_is_durable_soon(log: Any) -> None:
    channel = await log.open({"s": log.Subscriber()})
    await log.append(channel, log.events(1000))
    await log.stop(channel)
    s = log.Subscriber()

    async def acknowledge() -> None:
        await log.wait(lambda: len(s.held) == 1000)
        while s.held:
            s.ack(s.held[0])
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(acknowledge)
        await log.open({"s": s})
    with closing(open_read_only(shard_file(log.folder, 0))) as connection:
        await log.wait(lambda: load_cursors(connection) == (1001, {"s": CursorState(None)}))


@pytest.mark.usefixtures("real_time")
async def test_a_fault_of_an_old_shard_fails_no_event_of_the_new_one(log: Any, caplog: Any) -> None:
    channel = await log.open({"s": log.Subscriber()}, worker=1, workers=2)
    await log.append(channel, log.events(100))
    await log.stop(channel)
    s = log.Subscriber()
    channel = await log.open({"s": s})
    await log.wait(lambda: len(s.held) == 100)
    old, answers = list(s.held), []
    with closing(sqlite3.connect(shard_file(log.folder, 1))) as connection:
        connection.execute("CREATE TRIGGER t BEFORE INSERT ON feeds BEGIN SELECT raise(ABORT, 'no space'); END")
        while old and caplog.text.count("no space") < 2:
            s.ack(old.pop())
            for event in log.events(20):
                channel.append([event], answers.append)
            await anyio.sleep(0.02)
        await log.wait(lambda: channel.info()["waiting_bytes"] == 0)
        assert "shard-001" in caplog.text
        assert set(answers) == {None}
        assert [p for p in s.got if p < 1 << 48] == list(range(1, len(answers) + 1))
        s.ack(*old)
        connection.execute("DROP TRIGGER t")
        await log.wait(lambda: load_cursors(connection)[1]["s"] == CursorState(None))


async def test_cursors_that_could_not_be_written_are_written_once_they_can(log: Any, caplog: Any) -> None:
    s = log.Subscriber()
    channel = await log.open({"s": s})
    await log.append(channel, log.events(3))
    await log.wait(lambda: len(s.held) == 3)
    with closing(sqlite3.connect(shard_file(log.folder, 0))) as connection:
        await log.wait(lambda: load_cursors(connection) == (4, {"s": CursorState(None, (1, 2, 3))}))
        connection.execute("CREATE TRIGGER t BEFORE INSERT ON feeds BEGIN SELECT raise(ABORT, 'no space'); END")
        s.ack(*s.held)
        await log.wait(lambda: "no space" in caplog.text)
        connection.execute("DROP TRIGGER t")
        await log.wait(lambda: load_cursors(connection) == (4, {"s": CursorState(None)}))


@pytest.mark.slow
async def test_a_subscription_that_raises_is_offered_the_event_again(log: Any) -> None:
    class Stumbling(log.Subscriber):  # type: ignore[misc, name-defined]
        stumbled = False

        def offer(self, event: Event) -> bool:
            if event.position == 2 and not self.stumbled:
                self.stumbled = True
                raise RuntimeError("no")
            return bool(super().offer(event))

    s = Stumbling(acks=True)
    channel = await log.open({"s": s})
    await log.append(channel, log.events(3))
    await log.wait(lambda: s.got == [1, 2, 3])
