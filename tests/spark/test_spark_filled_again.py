"""A table that lost its checkpoint: each way that a message offers works, and has each event once. What the channel's
cursor says of an earlier table counts for nothing."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_spark.batch import Batches
from gateway_spark.checkpoint import committed
from gateway_spark.errors import SparkFault
from gateway_spark.job import Job
from gateway_spark.query_run import writer
from gateway_spark.tables import read
from gateway_testing import GatewayProcess
from gateway_testing.suites import Kit
from gateway_testing.suites.kit import until

from gateway_core.contract.event import Event, position_of
from gateway_core.contract.interfaces import Filter
from gateway_core.contract.start_position import EARLIEST, LATEST
from tests import web
from tests.spark.table_files import rows

pytestmark = [pytest.mark.spec("SAFE-220"), pytest.mark.timeout(600), pytest.mark.anyio]
formats = pytest.mark.parametrize("format", ["parquet", pytest.param("delta", marks=pytest.mark.full)])
ALL = Filter(lambda event: True)
COUNT = 100
BAD = {7, 50}
"""The events that don't fit the table."""
GOOD = [n for n in range(1, COUNT + 1) if n not in BAD]


class Place:
    """A trigger `test` with a table, and a channel with the numbers from 1 on as events."""

    def __init__(self, spark: Any, folder: Path, channel: str = "log", channel_options: Any = None) -> None:
        self.spark = spark
        self.folder = folder
        self.table = folder / "table"
        self._channel = channel, channel_options
        self.sent = 0
        self.feed: Any = None

    @asynccontextmanager
    async def started(self, *, start: str = "earliest") -> AsyncIterator[Any]:
        """The channel as a start of the gateway opens it."""
        channel: Any = Kit(self.folder).channel(*self._channel)
        async with anyio.create_task_group() as tasks:
            await channel.start(tasks)
            self.feed = channel.attach_reader("test", ALL, start=EARLIEST if start == "earliest" else LATEST)
            await channel.open()
            yield channel
            await channel.stop()
            tasks.cancel_scope.cancel()

    async def send(self, channel: Any, count: int, type: Callable[[int], str] = lambda n: "t") -> None:
        events = []
        for n in range(self.sent + 1, self.sent + count + 1):
            attributes = {"specversion": "1.0", "id": str(n), "source": "/s", "type": type(n)}
            data = b'{"n": "no number"}' if n in BAD else b'{"n": %d}' % n
            events.append(Event({**attributes, "datacontenttype": "application/json"}, data, False, b"%d" % n))
        self.sent += count
        answers: list[BaseException | None] = []
        channel.append(events, answers.append)
        await until(lambda: bool(answers), "the append")
        assert answers == [None]

    def run(self, **options: Any) -> Batches:
        """The query until it has all that is there, and what the gateway then tells the channel."""
        self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # as after a restart
        job = self.job(**options)
        batches = Batches(job)
        query = writer(self.spark, job, batches).trigger(processingTime="0 seconds").start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        ends = committed(Path(job.checkpoint))
        assert ends is not None
        self.feed.advance(ends)
        return batches

    def job(self, **options: Any) -> Job:
        config = {"path": str(self.table), "data_schema": "n INT", "max_events_per_batch": 30, **options}
        sink: Any = Kit(self.folder).sink("spark", config)
        made: Job = sink.job(self.feed)
        return replace(made, conf={})

    @property
    def checkpoint(self) -> Path:
        return self.folder / "spark" / "test" / "checkpoint"

    def ids(self, format: str, table: Path | None = None) -> list[int]:
        rows = read(self.spark, format, str(table or self.table)).select("id").collect()
        return sorted(int(row.id) for row in rows)


def quarantine(table: Path) -> Path:
    return Path(f"{table}_quarantine")


@formats
async def test_a_missing_table_is_restored_or_filled_again_or_begun_as_the_message_says(
    spark: Any, tmp_path: Path, format: str
) -> None:
    place, options = Place(spark, tmp_path), {"format": format, "max_events_per_batch": 60}
    async with place.started() as channel:
        await place.send(channel, COUNT)
        assert place.run(**options).begins == {"0": 1}
    assert place.ids(format) == GOOD
    shutil.copytree(place.table, tmp_path / "copy")
    shutil.rmtree(place.table)
    async with place.started():
        with pytest.raises(SparkFault, match=r"is missing, .*restore the table; or delete .*; or set `adopt: true`"):
            place.run(**options)

        # "restore the table"
        shutil.copytree(tmp_path / "copy", place.table)
        assert place.run(**options).notes == []
        assert place.ids(format) == GOOD

    # "delete the checkpoint and its quarantine table if there is one, and set `start: earliest`"
    for folder in (place.table, place.checkpoint, quarantine(place.table)):
        shutil.rmtree(folder)
    async with place.started() as channel:
        assert place.feed.start == {"0": COUNT + 1}, "where the deleted table was"
        found = place.run(**options)
        assert (found.begins, found.notes) == ({"0": 1}, [])
        assert place.ids(format) == GOOD
        assert place.ids(format, quarantine(place.table)) == sorted(BAD)

        # "set `adopt: true`"
        shutil.rmtree(place.table)
        await place.send(channel, 5)
        assert "starts again" in place.run(**options, adopt=True).notes[0]
        assert place.ids(format) == [*range(COUNT + 1, COUNT + 6)]


@pytest.mark.area(name="spark_more")
async def test_deleting_the_checkpoint_alone_fills_the_table_and_says_what_is_there_twice(
    spark: Any, tmp_path: Path
) -> None:
    place = Place(spark, tmp_path)
    async with place.started() as channel:
        await place.send(channel, COUNT)
        place.run()
    shutil.rmtree(place.table)
    shutil.rmtree(place.checkpoint)
    async with place.started():
        (note,) = place.run().notes
        assert re.search(r"table_quarantine has rows from before: .* twice", note)
    assert place.ids("parquet") == GOOD
    assert place.ids("parquet", quarantine(place.table)) == sorted([*BAD, *BAD])


@pytest.mark.area(name="spark_more")
async def test_a_new_table_with_start_latest_has_all_after_the_cursor(spark: Any, tmp_path: Path) -> None:
    place = Place(spark, tmp_path)
    async with place.started(start="latest") as channel:
        await place.send(channel, 20)
        assert place.run().notes == [], "a new trigger"
    shutil.rmtree(place.table)
    shutil.rmtree(place.checkpoint)
    async with place.started(start="latest") as channel:
        await place.send(channel, 10)
    async with place.started(start="latest"):
        found = place.run()
        assert found.begins == {}
        assert "starts again at 21 of shard 0, where the trigger was" in found.notes[0]
    assert place.ids("parquet") == [*range(21, 31)]


@formats
@pytest.mark.area(name="spark_more")
async def test_tables_by_type_are_filled_again_together(spark: Any, tmp_path: Path, format: str) -> None:
    place = Place(spark, tmp_path)
    place.table = tmp_path / "tables" / "{type}"
    async with place.started() as channel:
        await place.send(channel, COUNT, lambda n: "even" if n % 2 == 0 else "odd")
        place.run(format=format)
        shutil.rmtree(tmp_path / "tables" / "odd")
        with pytest.raises(SparkFault, match=r"/odd is missing, .* all tables of the trigger, quarantine too"):
            place.run(format=format)
    shutil.rmtree(tmp_path / "tables")
    shutil.rmtree(place.checkpoint)
    async with place.started():
        assert place.run(format=format).begins == {"0": 1}
    assert place.ids(format, tmp_path / "tables" / "odd") == [n for n in GOOD if n % 2]
    assert place.ids(format, tmp_path / "tables" / "even") == [n for n in GOOD if n % 2 == 0]


@pytest.mark.area(name="spark_more")
async def test_a_table_of_another_query_is_left_where_it_is_for_one_at_another_path(spark: Any, tmp_path: Path) -> None:
    place = Place(spark, tmp_path)
    async with place.started() as channel:
        await place.send(channel, COUNT)
        place.run()
    shutil.rmtree(place.checkpoint)
    async with place.started():
        with pytest.raises(SparkFault, match=r"belongs to the query .*or choose another path"):
            place.run()
        place.table = tmp_path / "other"
        place.run()
        assert place.ids("parquet") == GOOD
        assert place.ids("parquet", tmp_path / "table") == GOOD


@pytest.mark.area(name="spark_more")
async def test_an_older_table_continues_where_it_ends_and_says_what_the_log_has_deleted(
    spark: Any, tmp_path: Path
) -> None:
    place = Place(spark, tmp_path)
    async with place.started() as channel:
        await place.send(channel, 10)
        place.run()
        shutil.copytree(place.table, tmp_path / "copy")
        await place.send(channel, 20)
        place.run()
        shutil.rmtree(place.table)
        shutil.move(tmp_path / "copy", place.table)
        with pytest.raises(
            SparkFault, match=r"restore the newest table; or delete the checkpoint and set `adopt: true`"
        ):
            place.run()
    shutil.rmtree(place.checkpoint)
    async with place.started():
        found = place.run(adopt=True)
        assert found.begins["0"] <= 11, "the cursor goes back, so that the log keeps what the table lacks"
    assert place.ids("parquet") == [n for n in range(1, 31) if n not in BAD]


@pytest.mark.usefixtures("kafka")
@pytest.mark.area(name="spark_more")
async def test_a_table_of_a_topic_is_filled_again_wherever_its_group_is(spark: Any, kafka: Any, tmp_path: Path) -> None:
    topic = f"again-{tmp_path.name}-{id(tmp_path)}"
    options = {"bootstrap": kafka.bootstrap, "topic": topic, "partitions": 2}
    place = Place(spark, tmp_path, "kafka", options)
    async with place.started() as channel:
        await place.send(channel, COUNT)
        place.run()
    for folder in (place.table, place.checkpoint, quarantine(place.table)):
        shutil.rmtree(folder)
    async with place.started():
        assert sum(place.feed.start.values()) == COUNT
        assert place.run().begins == {"0": 0, "1": 0}
    assert place.ids("parquet") == GOOD
    assert place.ids("parquet", quarantine(place.table)) == sorted(BAD)


class Elsewhere:
    """A table whose query others run, so that the gateway starts no process."""

    def __init__(self, place: Place) -> None:
        self.sink: Any = Kit(place.folder).sink("spark", {"path": str(place.table), "runs": "submitted"})
        self.place = place

    async def state(self) -> Mapping[str, Any]:
        async with anyio.create_task_group() as tasks:
            await self.sink.start_reading(self.place.feed, tasks)
            found: Mapping[str, Any] = self.sink.state()
            await self.sink.stop()
        return found


async def test_without_table_and_checkpoint_all_events_wait_and_the_log_keeps_them(tmp_path: Path) -> None:
    place = Place(None, tmp_path)

    def cursor() -> int:
        found: int = json.loads((tmp_path / "log/default/readers/test.json").read_text())["0"]
        return found

    async with place.started() as channel:
        await place.send(channel, COUNT)
        place.feed.advance({"0": COUNT + 1})
    async with place.started():
        assert place.feed.delivery_state(position_of(0, 3)) == "passed"
        assert (await Elsewhere(place).state())["lag"] == COUNT
        assert cursor() == 1
        assert place.feed.delivery_state(position_of(0, 3)) == "unread"
        place.feed.advance({"0": COUNT + 1})
    async with place.started(start="latest"):
        assert (await Elsewhere(place).state())["lag"] == 0
        assert cursor() == COUNT + 1
    place.table.mkdir()
    (place.table / "_spark_metadata").mkdir()
    async with place.started():
        assert (await Elsewhere(place).state())["lag"] == 0, "its query knows what the table has"
        assert cursor() == COUNT + 1


CONFIG = """
brokers: {default: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}
triggers:
  test:
    start: earliest
    subscriber: {spark: {path: TABLE, trigger_interval_s: 0.2}}
"""


@pytest.mark.full
@pytest.mark.usefixtures("own_spark")
def test_a_gateway_fills_a_deleted_table_and_says_how_far_it_is(tmp_path: Path) -> None:
    table = tmp_path / "table"

    def ids() -> list[int]:
        return sorted(int(row["id"]) for row in rows(table, "parquet", ["id"]))

    def why(id: int) -> str:
        command = [sys.executable, "-m", "gateway_core.cli", "why", str(id), "--data-dir", str(gateway.data_dir)]
        return subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=60).stdout

    with GatewayProcess(CONFIG.replace("TABLE", str(table)), tmp_path) as gateway:
        events = [{"specversion": "1.0", "id": str(n), "source": "/s", "type": "t"} for n in range(1, COUNT + 1)]
        headers = {"content-type": "application/cloudevents-batch+json"}
        assert web.post(gateway.ingress(), json=events, headers=headers, verify=False).status_code == 202
        cursor = gateway.data_dir / "log/default/readers/test.json"
        everything = [*range(1, COUNT + 1)]
        gateway.wait_until(lambda: ids() == everything, 120, "the rows")
        gateway.wait_until(lambda: json.loads(cursor.read_text())["0"] == COUNT + 1, 60, "the cursor")
        gateway.stop()
        shutil.rmtree(table)
        shutil.rmtree(gateway.data_dir / "spark/test/checkpoint")
        gateway.start()
        assert json.loads(cursor.read_text())["0"] in (1, COUNT + 1)
        if not table.exists():
            assert '"waiting"' in why(3)
        gateway.wait_until(lambda: ids() == everything, 120, "the rows, again")
        gateway.wait_until(lambda: json.loads(cursor.read_text())["0"] == COUNT + 1, 60, "the cursor, again")
        assert '"read"' in why(3)


@pytest.mark.full
def test_the_query_says_where_it_begins_and_the_cursor_follows(
    log: Any, sink: Callable[..., Any], event: Callable[..., Any], tmp_path: Path
) -> None:
    log.append(*(event(str(n)) for n in range(5)))
    (tmp_path / "table" / "_spark_metadata").mkdir(parents=True)  # what it has, only Spark can say
    runner = sink(start={"0": 6}, options={"start": {"kind": "earliest"}, "firsts": {"0": 1}})
    state = runner.wait_for("the events", lambda s: s["state"] == "running" and s["rows"] == 5 and s["lag"] == 0)
    assert [state["advanced"][0], state["advanced"][-1]] == [{"0": 1}, {"0": 6}]
