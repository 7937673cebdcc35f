"""Of accepted events with one key within the window exactly one is in the log, whatever happens in between."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from gateway_log.backup import back_up
from gateway_log.channel import LogChannel
from gateway_log.reader import LogReader
from gateway_log.repair import repair
from gateway_log.verify import faults
from gateway_testing import FakeClock

from gateway_core.contract.deduplicate_config import DeduplicateConfig
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, split_position
from tests.command_line import tidegate

pytestmark = [pytest.mark.anyio, pytest.mark.spec("ONCE-01")]
SMALL = 1000
"""Keys: then a run has 125 of them, and a generation is one run."""


async def open_(log: Any, window: Any = "7d", max_keys: int = SMALL, path: Path | None = None, **options: Any) -> Any:
    """A log that deduplicates; `key` and `on_conflict` are among the options."""
    own = {name: options.pop(name) for name in ("key", "on_conflict") if name in options}
    channel = log.make(path=path, **options)
    channel.deduplicate(DeduplicateConfig.model_validate({"window": window, "max_keys": max_keys, **own}))
    await channel.start(None)
    log.running.append(channel)
    await channel.open()
    return channel


async def put(channel: LogChannel, events: Sequence[Event]) -> list[int]:
    """The positions of these events, in order; of duplicates as negative numbers."""
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    channel.append(events, lambda e: answer.set_result(None) if e is None else answer.set_exception(e))
    await answer
    return [-event.position if event.duplicate else event.position for event in events]


def ids(log: Any, folder: Path | None = None) -> list[str]:
    with LogReader(folder or log.folder) as reader:
        return [event.attributes["id"] for s in reader.shards() for event in reader.events(s, reader.read(s, 1))]


def died(log: Any, channel: LogChannel) -> None:
    """Leaves the files as a `kill -9` does: copies them beside, since this process goes on."""
    copy = log.path.with_name(f"{log.path.name}-after")
    shutil.copytree(log.path, copy, ignore=shutil.ignore_patterns("*-shm"))
    log.path, log.folder = copy, copy / "log" / "default"


async def test_an_event_that_comes_again_is_stored_once_and_has_the_position_of_the_first(log: Any) -> None:
    channel = await open_(log)
    assert await put(channel, log.events(3)) == [1, 2, 3]
    assert await put(channel, log.events(4, first=1)) == [-2, -3, 4, 5]
    assert ids(log) == ["0", "1", "2", "3", "4"]
    info = channel.info()["deduplication"]
    assert (info["keys"], info["duplicates"], info["conflicts"]) == (5, 2, 0)
    assert channel.appended == 5


async def test_a_duplicate_inside_one_batch_and_inside_one_commit(log: Any) -> None:
    channel = await open_(log)
    one, two = log.events(2), log.events(3)
    first, again = await asyncio.gather(put(channel, [one[0], log.event(0), one[1]]), put(channel, [two[1], two[2]]))
    assert first == [1, -1, 2]
    assert again == [-2, 3]
    assert ids(log) == ["0", "1", "2"]


async def test_subscribers_get_the_first_only(log: Any) -> None:
    subscriber = log.Subscriber(acks=True)
    channel = log.make()
    channel.deduplicate(DeduplicateConfig(window=60))
    await channel.start(None)
    log.running.append(channel)
    subscriber.feed = channel.attach("t", subscriber.filter, subscriber)
    await channel.open()
    await put(channel, log.events(2))
    await put(channel, log.events(3))
    await put(channel, log.events(2))
    await log.wait(lambda: len(subscriber.got) >= 3)
    assert subscriber.got == [1, 2, 3]


async def test_keys_are_known_after_a_restart_and_after_a_kill(log: Any) -> None:
    channel = await open_(log)
    await put(channel, log.events(400))
    died(log, channel)
    channel = await open_(log)
    assert await put(channel, log.events(400)) == [-n for n in range(1, 401)]
    await log.stop(channel)
    channel = await open_(log)
    assert await put(channel, log.events(401)) == [*(-n for n in range(1, 401)), 401]
    assert channel.info()["deduplication"]["keys"] == 401


async def test_a_run_that_was_torn_by_a_kill_is_made_again(log: Any) -> None:
    channel = await open_(log)
    for n in range(0, 400, 50):
        await put(channel, log.events(50, first=n))
    await log.stop(channel)
    newest = max((log.folder / "keys").glob("*.runs"), key=lambda p: (p.stat().st_size > 0, p.name))
    newest.write_bytes(newest.read_bytes()[:-100])
    channel = await open_(log)
    assert await put(channel, log.events(400)) == [-n for n in range(1, 401)]


async def test_keys_outlive_the_rows_that_retention_deletes(log: Any) -> None:
    clock = FakeClock()
    options = {"clock": clock, "retention": {"max_age_s": 600.0}, "window": "7d"}
    channel = await open_(log, **options)
    await put(channel, log.events(300))
    clock.advance(620)
    await log.wait(lambda: channel.info()["events"] == 0)
    assert await put(channel, log.events(300)) == [-n for n in range(1, 301)]
    died(log, channel)
    channel = await open_(log, **options)
    assert await put(channel, log.events(301)) == [*(-n for n in range(1, 301)), 301]


async def test_the_window_begins_with_the_first_and_no_duplicate_prolongs_it(log: Any) -> None:
    clock = FakeClock()
    channel = await open_(log, clock=clock, window="1h")
    assert await put(channel, log.events(1)) == [1]
    clock.advance(3000)
    assert await put(channel, log.events(1)) == [-1]
    clock.advance(601)
    assert await put(channel, log.events(1)) == [2]
    assert await put(channel, log.events(1)) == [-2]
    await log.stop(channel)
    channel = await open_(log, clock=clock, window="1h")
    assert await put(channel, log.events(1)) == [-2]


@pytest.mark.spec("ONCE-03")
@pytest.mark.slow
async def test_more_keys_than_it_may_keep_drop_the_oldest_and_status_says_so(log: Any) -> None:
    clock = FakeClock()
    channel = await open_(log, clock=clock, window="2h")
    for n in range(0, 3000, 50):
        await put(channel, log.events(50, first=n))
        clock.advance(60)
    await log.wait(lambda: channel.info()["deduplication"]["keys"] <= SMALL + 125)
    info = channel.info()
    assert info["deduplication"]["keys"] >= SMALL * 7 // 8 - 125
    assert 0 < info["deduplication"]["reaches_back_s"] < 3600
    assert "max_keys" in info["faults"]["deduplication"]
    assert await put(channel, log.events(500, first=2500)) == [-n for n in range(2501, 3001)]
    assert await put(channel, log.events(1)) == [3001]
    await log.stop(channel)
    channel = await open_(log, clock=clock, window="2h")
    assert "max_keys" in channel.info()["faults"]["deduplication"]
    clock.advance(7300)
    assert "deduplication" not in channel.info()["faults"]


@pytest.mark.spec("ONCE-02")
async def test_other_content_is_accepted_and_counted_or_refused(log: Any, caplog: pytest.LogCaptureFixture) -> None:
    channel = await open_(log)
    await put(channel, log.events(1))
    assert await put(channel, [log.event(0, b"other")]) == [-1]
    assert await put(channel, [log.event(0, time="2026-01-01T00:00:00Z")]) == [-1]
    assert channel.info()["deduplication"]["conflicts"] == 2
    assert len([r for r in caplog.records if "other content" in r.message]) == 1  # once a minute
    await log.stop(channel)
    channel = await open_(log, on_conflict="refuse")
    with pytest.raises(Refused) as refused:
        await put(channel, [log.event(7), log.event(0, b"other"), log.event(8)])
    assert refused.value.status == 409
    assert await put(channel, log.events(2, first=7)) == [2, 3]  # nothing of the batch was stored
    with pytest.raises(Refused):  # inside one batch, too
        await put(channel, [log.event(9), log.event(9, b"other")])
    assert ids(log) == ["0", "7", "8"]


async def test_trace_headers_of_a_second_attempt_are_no_other_content(log: Any) -> None:
    channel = await open_(log, on_conflict="refuse")
    hop = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333{}-01"
    await put(channel, [log.event(0, traceparent=hop.format(1), tracestate="a=1")])
    assert await put(channel, [log.event(0, traceparent=hop.format(2))]) == [-1]


async def test_attributes_in_another_order_are_no_other_content(log: Any) -> None:
    channel = await open_(log, on_conflict="refuse")
    one = log.event(0, subject="a")
    other = Event(dict(reversed(list(one.attributes.items()))), one.data)
    assert await put(channel, [one, other]) == [1, -1]
    assert await put(channel, [other]) == [-1]
    assert await put(channel, [Event(one.attributes, one.data, trace="00-1-2-3")]) == [-1]


async def test_the_key_is_what_the_config_names(log: Any) -> None:
    channel = await open_(log, key=["source", "order"])
    assert await put(channel, [log.event(1, order="a"), log.event(2, order="a"), log.event(3, order=5)]) == [1, -1, 2]
    assert await put(channel, [log.event(4, order="5"), log.event(5), log.event(5)]) == [-2, 3, 4]
    assert channel.info()["deduplication"]["without_key"] == 2
    # parts don't run into each other
    assert await put(channel, [log.event(6, source="/sa", order="b"), log.event(7, source="/s", order="ab")]) == [5, 6]


async def test_old_versions_of_cloudevents_have_the_same_key(log: Any) -> None:
    channel = await open_(log)
    await put(channel, log.events(1))
    old = Event({"cloudEventsVersion": "0.1", "eventID": "0", "source": "/s", "eventType": "t"}, b"{}")
    assert await put(channel, [old]) == [-1]


async def test_a_refused_append_leaves_no_key(log: Any) -> None:
    channel = await open_(log)
    await put(channel, log.events(1))
    writer = sqlite3.connect(log.folder / "shard-000.db", isolation_level=None)
    writer.execute(
        "CREATE TRIGGER refuse BEFORE INSERT ON events WHEN NEW.sequence > 1 BEGIN SELECT RAISE(ABORT, 'no'); END"
    )
    from gateway_core.contract.errors import StorageError

    with pytest.raises(StorageError):
        await put(channel, log.events(2, first=1))
    with pytest.raises(StorageError):  # a duplicate of what is not stored is not accepted either
        await put(channel, log.events(1, first=1))
    writer.execute("DROP TRIGGER refuse")
    writer.close()
    await log.wait(lambda: channel.info()["writable"])
    assert await put(channel, log.events(3)) == [-1, 2, 3]


async def test_what_is_replayed_on_purpose_is_stored_again(log: Any) -> None:
    channel = await open_(log)
    await put(channel, log.events(1))
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    events = log.events(1)
    channel.append_again(events, answer.set_result)
    assert await answer is None
    assert (events[0].position, events[0].duplicate) == (2, False)
    assert await put(channel, log.events(1)) == [-1]


@pytest.mark.spec("ONCE-04")
async def test_keys_of_a_log_that_went_back_are_forgotten_and_never_come_back(log: Any, tmp_path: Path) -> None:
    channel = await open_(log)
    await put(channel, log.events(10))
    before = tmp_path / "before"
    back_up(log.path, before, lambda *_: None)
    await put(channel, log.events(400, first=10))
    await log.stop(channel)
    shutil.copy(before / "log" / "default" / "shard-000.db", log.folder / "shard-000.db")
    (log.folder / "meta.json").unlink()
    channel = await open_(log)
    # these are lost with the log, so they are stored when they are sent again
    assert await put(channel, log.events(20)) == [*(-n for n in range(1, 11)), *range(11, 21)]
    others = log.events(600, first=1000)
    assert await put(channel, others) == list(range(21, 621))
    await log.stop(channel)
    channel = await open_(log)
    assert await put(channel, log.events(410, first=0)) == [*(-n for n in range(1, 21)), *range(621, 1011)]


@pytest.mark.spec("ONCE-04")
async def test_a_backup_has_the_keys_of_its_events_and_of_no_others(log: Any, tmp_path: Path) -> None:
    clock = FakeClock()
    options = {"clock": clock, "retention": {"max_age_s": 600.0}}
    channel = await open_(log, **options)
    await put(channel, log.events(300))
    clock.advance(620)
    await log.wait(lambda: channel.info()["events"] == 0)
    await put(channel, log.events(100, first=300))
    made = tmp_path / "backup"
    back_up(log.path, made, lambda *_: None)
    await put(channel, log.events(300, first=400))
    await log.stop(channel)
    log.path, log.folder = made, made / "log" / "default"
    channel = await open_(log, **options)
    assert await put(channel, log.events(402)) == [*(-n for n in range(1, 401)), 401, 402]


async def test_a_repair_keeps_the_keys(log: Any) -> None:
    channel = await open_(log, max_keys=10_000)
    await put(channel, log.events(200))
    await log.stop(channel)
    file = log.folder / "shard-000.db"
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE events SET checksum = 1 WHERE sequence = 50")
    connection.close()
    list(repair(log.folder))
    channel = await open_(log, max_keys=10_000)
    answers = await put(channel, log.events(200))
    assert [n for n in answers if n > 0] in ([], [201])  # the lost event may be stored again


async def test_a_log_that_no_longer_deduplicates_works_and_takes_it_up_again(log: Any) -> None:
    channel = await open_(log)
    await put(channel, log.events(2))
    await log.stop(channel)
    channel = await log.open()
    await log.append(channel, log.events(2))
    await log.stop(channel)
    channel = await open_(log)
    assert [abs(n) for n in await put(channel, log.events(3))] == [1, 2, 5]
    with LogReader(log.folder) as reader:
        assert reader.bounds(0) == (1, 6)


async def test_a_log_of_an_older_version_begins_to_deduplicate(log: Any) -> None:
    channel = await log.open()
    await log.append(channel, log.events(2))
    await log.stop(channel)
    channel = await open_(log)
    assert await put(channel, log.events(2)) == [3, 4]
    assert await put(channel, log.events(2)) == [-3, -4]
    assert split_position(channel.info()["next"]) == (0, 5)


@pytest.mark.slow
@pytest.mark.spec("ONCE-10")
async def test_verify_reads_the_keys_on_disk(log: Any) -> None:
    channel = await open_(log)
    for n in range(0, 400, 50):
        await put(channel, log.events(50, first=n))
    assert list(faults(log.folder)) == []  # while it runs
    await log.stop(channel)
    assert list(faults(log.folder)) == []
    file = min((log.folder / "keys").glob("*.runs"))
    intact = file.read_bytes()
    file.write_bytes(intact[:-10])  # torn by a crash: made again at the next start
    assert list(faults(log.folder)) == []
    file.write_bytes(intact[:100] + bytes([intact[100] ^ 1]) + intact[101:])
    [fault] = faults(log.folder)
    assert fault.startswith("keys/keys-000001.runs: the keys of shard 0 from event 1 to before ")
    file.write_bytes(bytes([intact[0] ^ 1]) + intact[1:])
    [fault] = faults(log.folder)
    assert fault == "keys/keys-000001.runs: is damaged at byte 0: keys of events can't be read"
    ran = tidegate("log", "verify", "--data-dir", log.path)
    assert (ran.returncode, "all events are there" in ran.stdout) == (1, True)
    (log.folder / "keys.lock").touch()
    (log.folder / "keys.lock").chmod(0o644)
    ran = tidegate("log", "verify", "--data-dir", log.path)
    assert (ran.returncode, "all events are there" in ran.stdout) == (1, False)
