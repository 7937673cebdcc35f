"""A table knows the query that fills it, and how far: another query is refused, or continues where the table ends."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gateway_spark.errors import SparkFault
from gateway_spark.job import Job
from gateway_spark.tables import read
from pyspark.errors import StreamingQueryException

from tests.spark.conftest import Log
from tests.spark.queries import LocalQueries, Queries

pytestmark = [pytest.mark.spec("SAFE-85"), pytest.mark.timeout(600)]
# a Delta table takes twice the time
formats = pytest.mark.parametrize(
    "format", ["parquet", pytest.param("delta", marks=pytest.mark.area(name="spark_more"))]
)


@pytest.fixture
def queries(spark: Any, log: Log, tmp_path: Path) -> Queries:
    return LocalQueries(spark, log, tmp_path)


@formats
def test_a_renamed_trigger_continues_its_table_only_if_told_and_has_each_event_once(
    queries: Queries, tmp_path: Path, format: str
) -> None:
    old = queries.job("old", format=format)
    refused = f"{old.table}_quarantine"
    queries.send('{"n": 1}', '{"n": "bad"}', '{"n": 3}')
    queries.run(old)
    queries.send('{"n": 4}', '{"n": "bad"}')
    new = queries.job("new", format=format)
    id = json.loads((tmp_path / "old/checkpoint/metadata").read_text())["id"]
    with pytest.raises(SparkFault, match=rf"belongs to the query {id} of trigger old .*a new query of trigger new"):
        queries.run(new)
    assert queries.ids(old) == [1, 3]

    # the batch reaches the table, and is cut before the quarantine table has it
    adopting = replace(new, adopt=True)
    aside = tmp_path / "aside"

    def put_in_the_way() -> None:
        shutil.move(refused, aside)
        Path(refused).write_text("in the way")

    with pytest.raises(StreamingQueryException):
        queries.run(adopting, put_in_the_way)
    Path(refused).unlink()
    shutil.move(aside, refused)
    assert queries.ids(old) == [1, 3, 4]
    with pytest.raises(SparkFault, match=r"of trigger new .*of trigger old"):
        queries.run(old)

    # its checkpoint is lost as well
    shutil.rmtree(tmp_path / "new")
    queries.send('{"n": 6}')
    with pytest.raises(SparkFault, match="belongs to the query"):
        queries.run(new)
    assert "it now belongs to trigger new" in queries.run(adopting)[0]
    queries.send('{"n": "bad"}', '{"n": 8}')
    assert queries.run(new) == [], "what it has taken over, it keeps"
    assert queries.ids(old) == [1, 3, 4, 6, 8]
    assert queries.ids(old, refused) == [2, 5, 7]


@pytest.mark.area(name="spark_more")
@formats
def test_a_take_over_that_fails_before_its_first_batch_begins_again(queries: Queries, format: str) -> None:
    old = queries.job("old", format=format, partition_by=["type"])
    new = replace(queries.job("new", format=format, partition_by=["type"]), adopt=True)
    queries.send('{"n": 1}', '{"n": 2}')
    queries.run(old)
    queries.send('{"n": 3}')
    (place,) = Path(old.table).rglob("type=made")
    aside = queries.folder / "aside"

    def put_in_the_way() -> None:
        shutil.move(place, aside)
        place.write_text("in the way")

    with pytest.raises(StreamingQueryException):
        queries.run(new, put_in_the_way)
    place.unlink()
    shutil.move(aside, place)
    queries.run(new)
    queries.run(new)
    assert queries.ids(new) == [1, 2, 3]


@formats
@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"*": "n INT"}, id="with a schema"),
        pytest.param({}, id="without", marks=pytest.mark.area(name="spark_more")),
    ],
)
def test_a_query_stops_at_its_next_batch_once_another_has_its_table(
    queries: Queries, format: str, schema: dict[str, str]
) -> None:
    old = queries.job("old", format=format, data_schema=schema)
    new = replace(queries.job("new", format=format, data_schema=schema), adopt=True)
    queries.send('{"n": 1}')
    running = queries.make(old)
    running.start()
    try:
        running.drain()
        taking = queries.make(new)
        queries.send('{"n": 2}')  # the old one still writes
        running.drain()
        taking.start()
        with pytest.raises(StreamingQueryException, match=r"got more rows of the query .* while it was taken over"):
            taking.drain()
        taking.stop()
        queries.send('{"n": 3}')
        running.drain()
        queries.run(new)  # it takes the table over with the rows that came meanwhile
        queries.send('{"n": 4}')
        with pytest.raises(StreamingQueryException, match=r"of trigger new"):
            running.drain()
    finally:
        running.stop()
    queries.run(new)
    assert queries.ids(old) == [1, 2, 3, 4]


@pytest.mark.area(name="spark_more")
@formats
def test_a_deleted_table_is_not_begun_anew_unnoticed(queries: Queries, format: str) -> None:
    job = queries.job("one", format=format)
    queries.send('{"n": 1}')
    queries.run(job)
    shutil.rmtree(job.table)
    queries.send('{"n": 2}')
    with pytest.raises(SparkFault, match=r"is missing, but its checkpoint .* exists"):
        queries.run(job)
    assert "starts again" in queries.run(replace(job, adopt=True))[0]
    queries.send('{"n": 3}')
    queries.run(job)
    assert queries.ids(job) == [2, 3]


@formats
def test_a_table_that_is_behind_its_checkpoint_is_noticed(queries: Queries, tmp_path: Path, format: str) -> None:
    job = queries.job("one", format=format)
    queries.send('{"n": 1}')
    queries.run(job)
    shutil.copytree(job.table, tmp_path / "backup")
    queries.send('{"n": 2}')
    queries.run(job)
    shutil.rmtree(job.table)
    shutil.move(tmp_path / "backup", job.table)
    with pytest.raises(SparkFault, match=r"ends at 2 of shard 0, but its checkpoint .* is at 3 of shard 0"):
        queries.run(job)
    shutil.rmtree(job.checkpoint)
    queries.run(replace(job, adopt=True))
    assert queries.ids(job) == [1, 2]


@pytest.mark.area(name="spark_more")
@formats
def test_tables_by_type_are_taken_over_with_their_names_and_inferred_types(
    queries: Queries, tmp_path: Path, format: str
) -> None:
    table = str(tmp_path / "tables" / "{type}")
    options = {"format": format, "table": table, "data_schema": {"*": "infer"}}
    old, new = queries.job("old", **options), queries.job("new", **options)
    queries.send('{"n": 1.5}', type="a/b")
    queries.send('{"m": 1}', type="c")
    queries.run(old)
    queries.send('{"m": 2}', "no object", type="c")
    queries.run(old)
    queries.send('{"n": 3}', type="a/b")  # alone it would be a BIGINT
    with pytest.raises(SparkFault, match=r"of trigger old .*of trigger new"):
        queries.run(new)
    queries.run(replace(new, adopt=True))
    queries.send('{"m": 4}', "no object", type="c")
    queries.run(new)
    assert queries.ids(new, table.replace("{type}", "a%2Fb")) == [1, 5]
    assert queries.ids(new, table.replace("{type}", "c")) == [2, 3, 6]
    assert queries.ids(new, table.replace("{type}", "c_quarantine")) == [4, 7]
    shutil.rmtree(table.replace("{type}", "c"))
    with pytest.raises(SparkFault, match="/c is missing"):
        queries.run(new)


@pytest.mark.area(name="spark_more")
def test_a_table_moves_with_its_log_and_takes_all_of_another_log(queries: Queries, tmp_path: Path, spark: Any) -> None:
    from tests.spark.test_spark_log_went_back import append

    job = queries.job("one", format="delta", data_schema={})

    def of(log: Path, trigger: str) -> Job:
        options = {**job.options, "location": str(log)}
        return replace(queries.job(trigger), options=options, format="delta", data_schema={}, adopt=True)

    def found() -> list[str]:
        return sorted(r.id for r in read(spark, "delta", job.table).select("id").collect())

    append(tmp_path / "first", "a1", "a2")
    queries.run(of(tmp_path / "first", "one"))
    shutil.copytree(tmp_path / "first", tmp_path / "moved")
    append(tmp_path / "moved", "a3")
    queries.run(of(tmp_path / "moved", "two"))
    assert found() == ["a1", "a2", "a3"]
    append(tmp_path / "other", "b1", "b2", "b3", "b4", "b5")
    notes = queries.run(of(tmp_path / "other", "three"))
    assert "the log is not the one of the query" in notes[0]
    assert found() == ["a1", "a2", "a3", "b1", "b2", "b3", "b4", "b5"]


@pytest.mark.area(name="spark_more")
@formats
def test_a_table_of_an_earlier_version_goes_on_with_its_query(queries: Queries, format: str) -> None:
    job = queries.job("one", format=format)
    queries.send('{"n": 1}', '{"n": "bad"}', '{"n": 3}')
    queries.run(job)
    queries.forget(job)
    queries.send('{"n": 4}')
    other = queries.job("other", format=format)
    with pytest.raises(SparkFault, match=r"belongs to .*a new query of trigger other"):
        queries.run(other)
    assert "recorded no owner: it now belongs to trigger one" in queries.run(job)[0]
    assert queries.ids(job) == [1, 3, 4]

    queries.forget(job)
    queries.send('{"n": 5}', '{"n": "bad"}')
    assert "it gets the events that its rows lack" in queries.run(replace(other, adopt=True))[0]
    queries.send('{"n": 7}')
    queries.run(other)
    assert queries.ids(job) == [1, 3, 4, 5, 7]
    assert queries.ids(job, f"{job.table}_quarantine") == [2, 6]
