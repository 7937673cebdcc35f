"""The data source `tidegate`, as a batch and as a stream."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def read(spark: Any, log: Any, **options: str) -> Any:
    return spark.read.format("tidegate").option("location", str(log.folder)).options(**options).load()


def ids(frame: Any) -> list[str]:
    return sorted(row.id for row in frame.select("id").collect())


def test_every_column_has_its_value_and_type(spark: Any, log: Any, event: Callable[..., Any]) -> None:
    log.append(
        event(
            "a",
            b'{"x": 1}',
            subject="s",
            time="2026-01-02T03:04:05.123456+02:00",
            datacontenttype="application/json",
            dataschema="http://x/",
            partitionkey="k",
            count=7,
            urgent=True,
            key=b"\x00k",
            received_ns=1_700_000_000_123_456_789,
        )
    )
    (row,) = read(spark, log).collect()
    utc = datetime.UTC
    assert row.asDict() == {
        "specversion": "1.0",
        "id": "a",
        "source": "/test",
        "type": "made",
        "subject": "s",
        "time": datetime.datetime(2026, 1, 2, 1, 4, 5, 123456, utc).astimezone().replace(tzinfo=None),
        "datacontenttype": "application/json",
        "dataschema": "http://x/",
        "extensions": {"partitionkey": "k", "count": "7", "urgent": "true"},
        "data": b'{"x": 1}',
        "data_text": '{"x": 1}',
        "key": b"\x00k",
        "shard": 0,
        "position": 1,
        "received": datetime.datetime(2023, 11, 14, 22, 13, 20, 123456, utc).astimezone().replace(tzinfo=None),
        "trace_id": None,
    }


def test_data_is_null_empty_or_bytes_and_text_only_where_json(spark: Any, log: Any, event: Callable[..., Any]) -> None:
    log.append(
        event("none", None, datacontenttype="application/json"),
        event("empty", b"", datacontenttype="application/json"),
        event("json", '{"é": 1}'.encode(), datacontenttype="application/vnd.x+json; charset=utf-8"),
        event("marked", b"[1]", json_data=True),
        event("plain", b"text", datacontenttype="text/plain"),
        event("broken", b"\xff\xfe", datacontenttype="application/json"),
        event("untyped", b"{}"),
    )
    found = {r.id: (r.data, r.data_text) for r in read(spark, log).collect()}
    assert found == {
        "none": (None, None),
        "empty": (b"", ""),
        "json": ('{"é": 1}'.encode(), '{"é": 1}'),
        "marked": (b"[1]", "[1]"),
        "plain": (b"text", None),
        "broken": (b"\xff\xfe", None),
        "untyped": (b"{}", None),
    }


def test_each_position_once_over_shards_and_tasks(spark: Any, log: Any, event: Callable[..., Any]) -> None:
    for shard, count in ((0, 250), (1, 3), (7, 120)):
        log.append(*(event(f"{shard}-{n}") for n in range(count)), shard=shard)
    frame = read(spark, log, rowsPerPartition="100")
    assert frame.rdd.getNumPartitions() == 3 + 1 + 2
    found = sorted((r.shard, r.position, r.id) for r in frame.select("shard", "position", "id").collect())
    assert found == [(s, n + 1, f"{s}-{n}") for s, count in ((0, 250), (1, 3), (7, 120)) for n in range(count)]


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        pytest.param({"filters": '[{"exact": {"type": "late"}}]'}, ["b", "c"], id="exact"),
        pytest.param({"filters": '[{"exact": {"type": "late"}}, {"prefix": {"subject": "N"}}]'}, ["c"], id="all of"),
        pytest.param({"filters": '[{"not": {"exact": {"type": "late"}}}]'}, ["a"], id="nested"),
        pytest.param({"attributes": '{"type": "late", "subject": ""}'}, ["c"], id="attributes"),
        pytest.param(
            {"filters": '[{"exact": {"id": "a"}}]', "attributes": '{"type": "late"}'}, ["a"], id="filters win"
        ),
        pytest.param({"filters": "[]", "attributes": "{}"}, ["a", "b", "c"], id="none"),
    ],
)
def test_filters_are_those_of_triggers(
    spark: Any, log: Any, event: Callable[..., Any], options: dict[str, str], kept: list[str]
) -> None:
    log.append(event("a", type="early"), event("b", type="late"), event("c", type="late", subject="N1"))
    assert ids(read(spark, log, **options)) == kept


def test_offsets_bound_what_is_read(spark: Any, log: Any, event: Callable[..., Any]) -> None:
    log.append(*(event(str(n)) for n in range(1, 6)))
    log.append(event("other"), shard=2)
    assert ids(read(spark, log, startingOffsets='{"0": 4}')) == ["4", "5", "other"]
    assert ids(read(spark, log, startingOffsets='{"0": 2}', endingOffsets='{"0": 3, "2": 1}')) == ["2"]
    assert ids(read(spark, log, startingOffsets="latest")) == []


def test_a_schema_of_ones_own_takes_its_columns_only(spark: Any, log: Any, event: Callable[..., Any]) -> None:
    log.append(event("a"))
    source = spark.read.format("tidegate").schema("position bigint, id string").option("location", str(log.folder))
    assert [row.asDict() for row in source.load().collect()] == [{"position": 1, "id": "a"}]


def test_an_empty_log_has_the_columns_and_no_rows(spark: Any, log: Any) -> None:
    frame = read(spark, log)
    assert frame.count() == 0
    assert frame.columns[:4] == ["specversion", "id", "source", "type"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffsets": "soon"}, "startingOffsets"),
        ({"rowsPerPartition": "0"}, "rowsPerPartition"),
        ({"location": ""}, "location"),
    ],
)
def test_a_wrong_option_is_named(spark: Any, log: Any, options: dict[str, str], said: str) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match=said):
        read(spark, log, **options).collect()


def test_a_stream_takes_what_is_new_and_goes_on_from_its_checkpoint(
    spark: Any, log: Any, event: Callable[..., Any], tmp_path: Path
) -> None:
    def run() -> list[int]:
        stream = spark.readStream.format("tidegate").option("location", str(log.folder))
        writer = stream.option("maxEventsPerTrigger", "4").load().writeStream.format("parquet")
        query = (
            writer.option("checkpointLocation", str(tmp_path / "c"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "t"))
        )
        assert query.awaitTermination(60)
        sizes = [p.numInputRows for p in query.recentProgress if p.numInputRows]
        ends = json.loads(query.lastProgress.sources[0].endOffset)
        assert ends == {"0": log_end[0], **({"1": log_end[1]} if log_end[1] > 1 else {})}
        return sizes

    log.append(*(event(f"a{n}") for n in range(10)))
    log_end = [11, 1]
    assert run() == [4, 4, 2]
    log.append(*(event(f"b{n}") for n in range(3)))
    log.append(event("c"), shard=1)
    log_end = [14, 2]
    assert sum(run()) == 4
    table = spark.read.parquet(str(tmp_path / "t"))
    assert ids(table) == sorted([*(f"a{n}" for n in range(10)), *(f"b{n}" for n in range(3)), "c"])


def test_a_stream_refuses_a_log_that_was_replaced(
    spark: Any, log: Any, event: Callable[..., Any], tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    def start() -> Any:
        stream = spark.readStream.format("tidegate").option("location", str(log.folder)).load()
        writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
        return writer.trigger(availableNow=True).start()

    log.append(event("a"), event("b"))
    assert start().awaitTermination(60)
    log.close()
    for file in log.folder.iterdir():
        file.unlink()
    log.append(event("new"))
    with pytest.raises(StreamingQueryException, match="not the one that was read before"):
        start().awaitTermination(60)
