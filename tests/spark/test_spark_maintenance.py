"""Maintenance loses and duplicates no row, even if it is interrupted, and writers continue afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from gateway_spark.errors import SparkFault
from gateway_spark.job import Job
from gateway_spark.maintenance import MaintenanceRequest, TableRef, maintenance_of
from gateway_spark.processes import Lock
from gateway_spark.tables import Table, read, table

pytestmark = [pytest.mark.timeout(300)]

DAY = timedelta(days=1)
START = datetime(2026, 1, 1, tzinfo=UTC)
CLI = [sys.executable, "-c", "from gateway_core.cli import main; main()", "spark"]


class Cut(BaseException):
    """Ends what is under way as a kill would: nothing is tidied up."""


@pytest.fixture(autouse=True)
def query(spark: Any) -> Any:
    spark.sparkContext.setLocalProperty("sql.streaming.queryId", "q1")
    yield
    spark.sparkContext.setLocalProperty("sql.streaming.queryId", None)


def job(tmp_path: Path, format: str, **more: Any) -> Job:
    place, checkpoint = str(tmp_path / "table"), str(tmp_path / "checkpoint")
    return Job({}, place, checkpoint, str(tmp_path / "home"), format=format, **more)


def append(spark: Any, target: Table, batch: int) -> bool:
    """Writes a batch of a row of each of two kinds, at the batch's day; the row of kind "b" has no time."""
    day = START + batch * DAY
    made = [(batch, "a b", day, day, None), (batch, "b", day, None, None)]
    columns = "id int, kind string, received timestamp, time timestamp, fault string"
    return target.write(spark.createDataFrame(made, columns).coalesce(1), batch, {}) is not None


def rows(spark: Any, format: str, place: str) -> Counter[tuple[int, str]]:
    return Counter((r["id"], r["kind"]) for r in read(spark, format, place).select("id", "kind").collect())


def expected(batches: Any) -> Counter[tuple[int, str]]:
    return Counter((n, kind) for n in batches for kind in ("a b", "b"))


@pytest.mark.parametrize("last", [3, pytest.param(14, marks=pytest.mark.full)])
@pytest.mark.area(name="spark_more")
def test_a_parquet_table_survives_each_cut_and_goes_on(spark: Any, tmp_path: Path, last: int) -> None:
    plan = job(tmp_path, "parquet", partition_by=["kind"] if last == 14 else [])
    target = table(plan, spark, plan.table)
    for batch in range(last + 1):
        append(spark, target, batch)
    here = TableRef(plan.table, "parquet", plan.checkpoint, ["received"])
    files = sum(1 for _ in Path(plan.table).rglob("part-*.parquet"))
    assert maintenance_of(spark, here).compact(MaintenanceRequest(dry_run=True)).files_removed == files
    for step in ("rewritten", "prepared", "replaced") if last == 14 else ("prepared",):

        def cut(now: str, step: str = step) -> None:
            if now == step:
                raise Cut

        with pytest.raises(Cut):
            maintenance_of(spark, here).compact(MaintenanceRequest(report=cut))
        assert rows(spark, "parquet", plan.table) == expected(range(last + 1)), step
        for batch in (last, last + 1, last + 2):  # the last one is repeated
            assert append(spark, table(plan, spark, plan.table), batch) == (batch > last)
        last += 2
    maintenance_of(spark, here).compact(MaintenanceRequest())
    found = maintenance_of(spark, here).found()
    assert found is not None
    assert (found.rows, found.files) == (2 * (last + 1), 2 if plan.partition_by else 1)
    assert sorted(p.name[:5] for p in Path(plan.table).rglob("*.parquet")) == ["part-"] * found.files
    target = table(plan, spark, plan.table)
    assert not append(spark, target, last)
    for batch in range(last + 1, last + 12):  # Spark compacts its own log
        assert append(spark, target, batch)
    assert rows(spark, "parquet", plan.table) == expected(range(last + 12))


@pytest.mark.parametrize("format", ["parquet", pytest.param("delta", marks=pytest.mark.full)])
@pytest.mark.area(name="spark_more")
def test_old_rows_are_deleted(spark: Any, tmp_path: Path, format: str) -> None:
    plan = job(tmp_path, format)
    place = f"{plan.table}_quarantine"
    here = TableRef(place, format)
    for batch in range(4):
        append(spark, table(plan, spark, place), batch)
    done = maintenance_of(spark, here).compact(MaintenanceRequest())
    assert (done.files_removed, done.files_added) == (4, 1)
    append(spark, table(plan, spark, place), 4)
    old = START + 2 * DAY
    assert (
        maintenance_of(spark, here).retain(MaintenanceRequest(column="received", before=old, dry_run=True)).rows_deleted
        == 4
    )
    assert rows(spark, format, place) == expected(range(5))
    assert maintenance_of(spark, here).retain(MaintenanceRequest(column="received", before=old)).rows_deleted == 4
    assert rows(spark, format, place) == expected(range(2, 5))
    with pytest.raises(SparkFault, match="no column 'tme'"):
        maintenance_of(spark, here).retain(MaintenanceRequest(column="tme", before=old))
    assert (
        maintenance_of(spark, here).retain(MaintenanceRequest(column="time", before=START + 9 * DAY)).rows_deleted == 3
    )
    assert rows(spark, format, place) == Counter((n, "b") for n in range(2, 5))  # these have no time
    assert not append(spark, table(plan, spark, place), 4)
    assert append(spark, table(plan, spark, place), 5)


def test_a_parquet_table_that_is_written_is_left_alone(spark: Any, tmp_path: Path) -> None:
    plan = job(tmp_path, "parquet")
    place = f"{plan.table}_quarantine"
    for batch in (3, 5):
        append(spark, table(plan, spark, place), batch)
    writer = Lock(tmp_path / "checkpoint.lock")  # as the gateway that writes this trigger's tables has
    writer.acquire()
    with pytest.raises(SparkFault, match=rf"is being written \(process {os.getpid()} .* stop the gateway"):
        maintenance_of(spark, TableRef(place, "parquet")).compact(MaintenanceRequest())
    writer.release()
    assert maintenance_of(spark, TableRef(place, "parquet")).compact(MaintenanceRequest()).files_removed == 2
    with pytest.raises(SparkFault, match="not on this machine"):
        maintenance_of(spark, TableRef("s3a://bucket/table", "parquet")).compact(MaintenanceRequest())
    with pytest.raises(SparkFault, match="Iceberg has no connector"):
        maintenance_of(spark, TableRef(place, "iceberg"))


@pytest.mark.full
def test_the_commands(spark: Any, tmp_path: Path) -> None:
    plan = job(tmp_path, "parquet")
    for place in (plan.table, f"{plan.table}_quarantine"):
        target = table(plan, spark, place)
        for batch in range(2):
            append(spark, target, batch)
    config = tmp_path / "tidegate.yaml"
    spark_options = f"{{path: {plan.table}, checkpoint: {plan.checkpoint}}}"
    config.write_text(f"brokers: {{default: {{}}}}\ntriggers: {{made: {{subscriber: {{spark: {spark_options}}}}}}}\n")
    of_trigger = ["made", "--config", str(config), "--data-dir", str(tmp_path)]
    shown = lines("compact", *of_trigger, "--json")
    assert [(s["table"], s["files_removed"], s["files_added"]) for s in shown] == [
        (plan.table, 2, 1),
        (f"{plan.table}_quarantine", 2, 1),
    ]
    shown = lines("retain", "--table", plan.table, "--older-than", "1d", "--json")
    assert [s["rows_deleted"] for s in shown] == [4 if datetime.now(UTC) > START + 3 * DAY else 0]
    for wrong in (["compact"], ["retain", "made"], ["retain", "--older-than", "3x", "--table", "t"]):
        assert run(*wrong).returncode == 2


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*CLI, *args], capture_output=True, text=True)


def lines(*args: str) -> list[dict[str, Any]]:
    ran = run(*args)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.full
def test_a_real_kill_during_compaction(spark: Any, tmp_path: Path) -> None:
    plan = job(tmp_path, "parquet")
    target = table(plan, spark, plan.table)
    for batch in range(12):
        append(spark, target, batch)
    process = subprocess.Popen([*CLI, "compact", "--table", plan.table], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    while "rewritten" not in (line := process.stderr.readline()):
        assert line
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert rows(spark, "parquet", plan.table) == expected(range(12))
    maintenance_of(spark, TableRef(plan.table, "parquet")).compact(MaintenanceRequest())
    assert not append(spark, table(plan, spark, plan.table), 11)
    assert append(spark, table(plan, spark, plan.table), 12)
    assert rows(spark, "parquet", plan.table) == expected(range(13))
