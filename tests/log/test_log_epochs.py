"""A reader notices that the log went back: restored from a copy, or cut by a machine that lost power."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from gateway_log import epochs
from gateway_log.epochs import Epoch
from gateway_log.reader import LogReader
from gateway_log.verify import faults

from gateway_core.contract.filters import match_all

pytestmark = pytest.mark.anyio


async def run(log: Any, events: int) -> Any:
    channel = await log.open()
    await log.append(channel, log.events(events))
    await log.stop(channel)
    return channel


@pytest.mark.spec("SAFE-52")
async def test_a_reader_of_a_restored_log_goes_on_where_it_parted(log: Any, caplog: pytest.LogCaptureFixture) -> None:
    await run(log, 3)
    copy = log.path / "copy"
    shutil.copytree(log.folder, copy)
    channel = await log.open()
    feed = channel.attach_reader("table", match_all())
    await log.append(channel, log.events(5))
    feed.advance({"0": 9})
    await log.stop(channel)
    place = (log.folder / "readers" / "table.json").read_bytes()

    shutil.rmtree(log.folder)
    shutil.copytree(copy, log.folder)
    await run(log, 10)  # it is longer now than it was
    (log.folder / "readers").mkdir(exist_ok=True)
    (log.folder / "readers" / "table.json").write_bytes(place)
    channel = await log.open()
    assert channel.attach_reader("table", match_all()).start == {"0": 4}
    assert "shard 0 was read up to 9, but the log went back to 4" in caplog.text


@pytest.mark.spec("SAFE-52")
async def test_a_reader_of_the_same_log_goes_on_where_it_was(log: Any) -> None:
    for _ in range(3):
        channel = await log.open()
        feed = channel.attach_reader("table", match_all())
        await log.append(channel, log.events(5))
        end = feed.ends()
        feed.advance(end)
        await log.stop(channel)
        assert list(faults(log.folder)) == []
        channel = await log.open()
        assert channel.attach_reader("table", match_all()).start == end
        await log.stop(channel)


async def test_places_without_an_epoch_are_taken_over(log: Any) -> None:
    await run(log, 3)
    (log.folder / "readers").mkdir()
    (log.folder / "readers" / "table.json").write_text('{"0": 3}')  # as an older version writes it
    channel = await log.open()
    feed = channel.attach_reader("table", match_all())
    assert feed.start == {"0": 3}
    feed.advance({"0": 4})
    content = json.loads((log.folder / "readers" / "table.json").read_text())
    with LogReader(log.folder) as reader:
        (epoch,) = reader.epochs(0)
    assert content == {"0": 4, "epochs": {"0": f"1:{epoch.id}"}}


A, B, C = Epoch(1, "a"), Epoch(5, "b"), Epoch(9, "c")


@pytest.mark.parametrize(
    ("there", "following", "place", "id", "diverged_at"),
    [
        pytest.param([A, B], 9, 7, "1:a,5:b", None, id="in the last epoch"),
        pytest.param([A, B], 9, 5, "1:a", None, id="at the end of an epoch"),
        pytest.param([A, B], 9, 6, "1:a", 5, id="behind the end of its epoch"),
        pytest.param([A, B], 9, 12, "1:a,5:b", 9, id="behind the end of the log"),
        pytest.param([A, C], 12, 7, "1:a,5:b", 5, id="an epoch that is not there"),
        pytest.param([A, C], 12, 7, "1:a,3:b", 3, id="an epoch that is not there, and began earlier"),
        pytest.param([A, C], 12, 7, "1:x,5:y", 1, id="nothing in common"),
        pytest.param([B, C], 12, 5, "1:a", None, id="an epoch that is forgotten"),
        pytest.param([], 12, 7, "1:a", None, id="a log of an older version"),
        pytest.param([A], 9, 7, "", None, id="a place of an older version"),
        pytest.param([], 5, 7, "", 5, id="behind the end, of an older version"),
    ],
)
async def test_where_a_place_and_a_log_part(
    there: list[Epoch], following: int, place: int, id: str, diverged_at: int | None
) -> None:
    assert epochs.diverged_at(there, following, place, id) == diverged_at


@pytest.mark.usefixtures("real_time")
async def test_epochs_of_deleted_events_are_forgotten(log: Any) -> None:
    from gateway_testing import FakeClock

    age, clock = 600.0, FakeClock()
    for _ in range(20):
        channel = await log.open(clock=clock, retention={"max_age_s": age})
        await log.append(channel, log.events(2))
        clock.advance(age + 20)
        await log.wait(lambda channel=channel: channel.info()["events"] == 0)
        await log.stop(channel)
    with LogReader(log.folder) as reader:
        assert len(reader.epochs(0)) <= 2


async def test_an_epoch_that_damage_left_without_an_id_is_left_out() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE epochs (start INTEGER PRIMARY KEY, id TEXT)")
        connection.execute("INSERT INTO epochs VALUES (1, 'a'), (4, NULL)")
        assert epochs.load(connection) == [Epoch(1, "a")]
