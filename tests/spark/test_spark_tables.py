"""Tables take each batch once, grow by columns, and are read back whole, on a real session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gateway_spark.errors import SparkFault
from gateway_spark.job import Job
from gateway_spark.tables import Table, Tables, WriteMode, read, table

Append = Callable[..., dict[str, int] | None]


@pytest.fixture
def query(spark: Any) -> Any:
    """Sets which streaming query seems to call."""

    def be(name: str) -> None:
        spark.sparkContext.setLocalProperty("sql.streaming.queryId", name)

    be("q1")
    yield be
    spark.sparkContext.setLocalProperty("sql.streaming.queryId", None)


def job(tmp_path: Path, format: str, **more: Any) -> Job:
    place, checkpoint = str(tmp_path / "table"), str(tmp_path / "checkpoint")
    return Job({}, place, checkpoint, str(tmp_path / "home"), format=format, **more)


def append(target: Table, rows: Any, batch: int) -> dict[str, int] | None:
    from pyspark.sql import functions as f

    return target.write(rows, batch, {"all": f.count(f.lit(1)), "bad": f.count("fault")})


def rows(spark: Any, batch: int, n: int = 3, columns: str = "id bigint, batch int", extra: tuple[Any, ...] = ()) -> Any:
    """Rows of a batch, and a bad one among them."""
    made = [(i, batch, *extra, None) for i in range(n)]
    return spark.createDataFrame([*made, (99, batch, *extra, "bad")], f"{columns}, fault string").coalesce(1)


def found(spark: Any, format: str, place: str) -> dict[int, int]:
    """How many rows of each batch there are."""
    return {r["batch"]: r["count"] for r in read(spark, format, place).groupBy("batch").count().collect()}


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_appended_rows_have_no_keys(spark: Any, tmp_path: Path, format: str) -> None:
    plan = job(tmp_path, format)
    with pytest.raises(SparkFault, match="leave out id"):
        Tables().at(plan, spark, plan.table).write(rows(spark, 0), 0, {}, mode=WriteMode.APPEND, keys=["id"])
    assert not (tmp_path / "table").exists()


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_a_table_takes_each_batch_once(spark: Any, query: Any, tmp_path: Path, format: str) -> None:
    plan = job(tmp_path, format)
    tables = Tables()
    last = 11 if format == "parquet" else 2  # Spark compacts its log of files at 9
    with pytest.raises(SparkFault, match="there is no"):
        read(spark, format, plan.table)
    assert table(plan, spark, plan.table).schema() is None
    for number in range(last + 1):
        assert append(tables.at(plan, spark, plan.table), rows(spark, number), number) == {"all": 4, "bad": 1}
    assert append(tables.at(plan, spark, plan.table), rows(spark, last), last) is None
    again = table(plan, spark, plan.table)  # as after a restart
    assert [append(again, rows(spark, n), n) for n in (last - 1, last)] == [None, None]
    assert append(again, rows(spark, last + 1), last + 1) == {"all": 4, "bad": 1}
    assert append(again, rows(spark, last + 2, 0), last + 2) == {"all": 1, "bad": 1}
    none = spark.createDataFrame([], "id bigint, batch int, fault string")
    assert append(again, none, last + 3) == {"all": 0, "bad": 0}
    assert found(spark, format, plan.table) == dict.fromkeys(range(last + 2), 3)
    schema = again.schema()
    assert schema is not None
    assert schema.names == ["id", "batch"]


def test_small_files_are_replaced_with_the_file_manager_of_a_gateway(spark: Any, tmp_path: Path) -> None:
    """What a query and its tables remember, in a session as a gateway has for folders on its machine."""
    from gateway_spark.data.schema_state import SchemaState, SchemaStateFile
    from gateway_spark.session_conf import conf_of
    from gateway_spark.tables.jvm import SmallFiles

    name = "spark.sql.streaming.checkpointFileManagerClass"
    spark.conf.set(name, conf_of(job(tmp_path, "parquet"))[name])
    try:
        files, state = SmallFiles(spark, str(tmp_path)), SchemaStateFile(spark, str(tmp_path))
        for n in (1, 2):
            files.save("a", {"n": n})
            state.save(SchemaState(batch=n))
            assert files.load("a") == {"n": n}
            assert state.load().batch == n
    finally:
        spark.conf.unset(name)


LEFT = {
    "parquet": ("_spark_metadata/.0.5c1f.tmp", "_spark_metadata/..0.5c1f.tmp.crc"),
    "delta": ("_delta_log/.00000000000000000000.json.b9c0.tmp", "_delta_log/_staged_commits/.none.crc"),
}
"""What is there after a kill while a table got its first commit."""


@pytest.mark.area(name="spark_more")
@pytest.mark.parametrize(
    ("format", "layout"),
    [
        pytest.param("parquet", {}, marks=pytest.mark.full),
        ("delta", {}),
        pytest.param("delta", {"partition_by": ["day"]}, marks=pytest.mark.full),
        pytest.param("delta", {"cluster_by": ["day"]}, marks=pytest.mark.full),
    ],
    ids=["parquet", "delta", "delta, partitioned", "delta, clustered"],
)
def test_a_table_begins_although_its_first_commit_was_cut_off(
    spark: Any, query: Any, tmp_path: Path, format: str, layout: dict[str, Any]
) -> None:
    plan = job(tmp_path, format, **layout)
    for name in LEFT[format]:
        file = Path(plan.table) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"{")
    target = table(plan, spark, plan.table)
    assert target.schema() is None
    given = [rows(spark, n, columns="id bigint, batch int, day string", extra=("monday",)) for n in (0, 1)]
    assert append(target, given[0], 0) == {"all": 4, "bad": 1}
    assert append(target, given[0], 0) is None
    assert append(table(plan, spark, plan.table), given[1], 1) == {"all": 4, "bad": 1}
    assert found(spark, format, plan.table) == {0: 3, 1: 3}
    if format == "delta":
        (facts,) = spark.sql(f"DESCRIBE DETAIL delta.`{plan.table}`").collect()
        assert (facts["partitionColumns"], facts["clusteringColumns"]) == (
            layout.get("partition_by", []),
            layout.get("cluster_by", []),
        )
        assert facts["properties"]["delta.checkpointInterval"] == "50"


@pytest.mark.area(name="spark_more")
@pytest.mark.parametrize("format", ["delta", pytest.param("parquet", marks=pytest.mark.full)])
def test_a_table_that_gets_few_batches_takes_each_once(spark: Any, query: Any, tmp_path: Path, format: str) -> None:
    plan = job(tmp_path, format)
    place = f"{plan.table}_quarantine"
    numbers = [57, 58, 60, 67, 70, 99, 100, 135, 136, 5000, 5001, 5009, 5010, 5019, 5020, 9000]
    numbers = numbers if format == "parquet" else numbers[::5]
    target = table(plan, spark, place)
    for n, number in enumerate(numbers):
        assert append(target, rows(spark, number), number) is not None
        assert append(target, rows(spark, number), number) is None
        if n % 5 == 0:
            target = table(plan, spark, place)
            assert append(target, rows(spark, number), number) is None
    assert found(spark, format, place) == dict.fromkeys(numbers, 3)
    query("q2")  # another checkpoint, whose numbers start over: other batches
    assert append(table(plan, spark, place), rows(spark, 1), 1) is not None
    assert found(spark, format, place) == dict.fromkeys([1, *numbers], 3)


@pytest.mark.area(name="spark_more")
@pytest.mark.parametrize("format", ["delta", pytest.param("parquet", marks=pytest.mark.full)])
def test_columns_and_fields_are_added(spark: Any, query: Any, tmp_path: Path, format: str) -> None:
    plan = job(tmp_path, format)
    target = table(plan, spark, plan.table)
    data = "id bigint, batch int, data struct<a: int{}>"
    append(target, rows(spark, 0), 0)
    append(target, rows(spark, 1, columns=data.format(""), extra=((1,),)), 1)
    append(target, rows(spark, 2, columns=data.format(", bc: array<struct<x: string>>"), extra=((2, [("t",)]),)), 2)
    append(table(plan, spark, plan.table), rows(spark, 3), 3)  # one that has fewer
    target = table(plan, spark, plan.table)
    with pytest.raises(SparkFault, match=r"column\.batch was INT and now is STRING"):
        append(target, rows(spark, 4).selectExpr("id", "string(batch) batch", "fault"), 4)
    assert append(target, rows(spark, 4), 4) is not None
    got = {r["batch"]: r["data"] for r in read(spark, format, plan.table).collect()}
    assert {n: d and d.asDict(recursive=True) for n, d in got.items()} == {
        0: None,
        1: {"a": 1, "bc": None},
        2: {"a": 2, "bc": [{"x": "t"}]},
        3: None,
        4: None,
    }


@pytest.mark.area(name="spark_more")
def test_layouts(spark: Any, query: Any, tmp_path: Path) -> None:
    for format in ("parquet", "delta"):
        plan = job(tmp_path / format, format, partition_by=["batch"], cluster_by=["id"])
        backwards = rows(spark, 7).orderBy("id", ascending=False).coalesce(1)
        append(table(plan, spark, plan.table), backwards, 0)
        assert (tmp_path / format / "table" / "batch=7").is_dir()
        assert [r["id"] for r in read(spark, format, plan.table).collect()] == [0, 1, 2]
    plan = job(tmp_path / "clustered", "delta", cluster_by=["id", "data.a"])
    made = rows(spark, 0, columns="id bigint, batch int, data struct<a: int>", extra=((1,),))
    append(table(plan, spark, plan.table), made, 0)
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{plan.table}`").collect()[0]
    assert detail["clusteringColumns"] == ["id", "data.a"]
    with pytest.raises(SparkFault, match=r"Iceberg has no connector for Spark 4\.2 yet; use PySpark 4\.1"):
        table(job(tmp_path, "iceberg"), spark, plan.table)
