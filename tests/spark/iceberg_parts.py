"""What Iceberg tables do, in a real session of PySpark 4.1: run by `test_spark_iceberg.py` in an environment of its
own. Prints one JSON object: what was found, by part."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gateway_spark.errors import SparkFault
from gateway_spark.job import Job
from gateway_spark.maintenance import MaintenanceRequest, TableRef, maintenance_of
from gateway_spark.query import session
from gateway_spark.tables import read, table
from pyspark.sql import functions as f

Found = dict[str, Any]


class Parts:
    """The parts, each over a folder of its own."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self._spark = spark
        self._folder = folder

    def once(self) -> Found:
        plan = self._job("once")
        found: Found = {"none": self._said(lambda: read(self._spark, "iceberg", plan.table))}
        target = table(plan, self._spark, plan.table)
        found["schema before"] = target.schema()
        found["appended"] = [self._append(target, self._rows(n), n) for n in range(3)]
        found["again"] = self._append(target, self._rows(2), 2)
        again = table(plan, self._spark, plan.table)  # as after a restart
        found["restarted"] = [self._append(again, self._rows(n), n) for n in (1, 2, 3)]
        found["only bad"] = self._append(again, self._rows(4, 0), 4)
        found["empty"] = self._append(again, self._spark.createDataFrame([], self._columns()), 5)
        found["after empty"] = self._append(table(plan, self._spark, plan.table), self._rows(5), 5)
        self._query("q2")  # another checkpoint, whose numbers start over
        found["other query"] = self._append(table(plan, self._spark, plan.table), self._rows(1), 1)
        found["batches"] = self._batches(plan.table)
        return found

    def evolution(self) -> Found:
        plan = self._job("evolution", partition_by=["batch"], cluster_by=["id", "data.a"])
        target = table(plan, self._spark, plan.table)
        data = "id bigint, batch int, data struct<a: smallint{}>"
        self._append(target, self._rows(0, columns=data.format(""), extra=((1,),)), 0)
        wide = data.format(", bc: array<struct<x: string>>")
        self._append(target, self._rows(1, columns=wide, extra=((2, [("t",)]),)), 1)
        self._append(table(plan, self._spark, plan.table), self._rows(2), 2)  # one that has no data
        self._append(target, self._rows(3, columns=data.format(""), extra=((3,),)), 3)
        other = self._rows(4).selectExpr("id", "string(batch) batch", "fault")
        rows = read(self._spark, "iceberg", plan.table)
        return {
            "conflict": self._said(lambda: self._append(table(plan, self._spark, plan.table), other, 4)),
            "data": {r["batch"]: r["data"] and r["data"].asDict(recursive=True) for r in rows.collect()},
            "folders": sorted(p.name for p in (Path(plan.table) / "data").iterdir()),
            "backwards": self._sorted(plan),
        }

    def expired(self) -> Found:
        """Snapshots with a batch's number expire after other commits."""
        plan = self._job("expired")
        target = table(plan, self._spark, plan.table)
        for n in range(2):
            self._append(target, self._rows(n), n)
        offsets = Path(plan.checkpoint, "offsets")
        offsets.mkdir(parents=True)
        (offsets / "1").write_text("")  # batch 1 was under way
        os.utime(offsets / "1", (0, 0))
        self._query("q2")
        self._append(table(plan, self._spark, plan.table), self._rows(0), 0)
        self._query("q1")
        jvm, at = self._spark._jvm, plan.table
        iceberg = jvm.org.apache.iceberg.hadoop.HadoopTables(self._spark._jsparkSession.sessionState().newHadoopConf())
        iceberg.load(at).expireSnapshots().expireOlderThan(jvm.System.currentTimeMillis()).retainLast(1).commit()

        def again() -> Any:
            return self._append(table(plan, self._spark, at), self._rows(1), 1)

        found: Found = {"unknown": self._said(again)}
        iceberg.load(at).updateProperties().set("tidegate.batch.q1", "1").commit()
        found["has it"] = again()
        iceberg.load(at).updateProperties().remove("tidegate.batch.q1").set("tidegate.lacks.q1", "1").commit()
        found["lacks it"] = again()
        iceberg.load(at).updateProperties().remove("tidegate.lacks.q1").commit()
        (offsets / "2").write_text("")  # it began after all the snapshots that there are
        found["new one"] = self._append(table(plan, self._spark, at), self._rows(2), 2)
        return found

    def catalog(self) -> Found:
        place = "catalog://lake.db.flights"
        plan = self._job("catalog", table=place)
        for n in range(2):
            self._append(table(plan, self._spark, place), self._rows(n), n)
        again = self._append(table(plan, self._spark, place), self._rows(1), 1)
        wide = self._rows(2, columns="id bigint, batch int, more string", extra=("x",))
        self._append(table(plan, self._spark, place), wide, 2)
        maintenance = maintenance_of(self._spark, TableRef(place, "iceberg"))
        return {
            "again": again,
            "columns": read(self._spark, "iceberg", "lake.db.flights").columns,
            "batches": self._batches(place),
            "compacted": maintenance.compact(MaintenanceRequest(1 << 20)).files_removed,
        }

    def maintenance(self) -> Found:
        plan = self._job("maintenance", cluster_by=["id"])
        start = datetime(2026, 1, 1, tzinfo=UTC)
        for n in range(4):
            rows = self._rows(n).withColumn("received", f.lit(start + n * timedelta(days=1)))
            self._append(table(plan, self._spark, plan.table), rows.select("id", "batch", "received", "fault"), n)
        maintenance = maintenance_of(self._spark, TableRef(plan.table, "iceberg"))
        request = MaintenanceRequest(1 << 20)
        dry = maintenance.compact(MaintenanceRequest(1 << 20, dry_run=True))
        done = maintenance.compact(request)
        old = MaintenanceRequest(column="received", before=start + timedelta(days=1, hours=1))
        deleted = maintenance.retain(old)
        state = maintenance.found()
        assert state is not None
        return {
            "dry": dry.files_removed,
            "compacted": [done.files_removed, done.files_added],
            "deleted": deleted.rows_deleted,
            "rows": state.rows,
            "files": state.files,
            "goes on": self._append(table(plan, self._spark, plan.table), self._rows(4), 4),
            "knows": self._append(table(plan, self._spark, plan.table), self._rows(4), 4),
            "no column": self._said(lambda: maintenance.retain(MaintenanceRequest(column="none", before=start))),
            "nowhere": maintenance_of(self._spark, TableRef(f"{plan.table}_none", "iceberg")).found(),
        }

    # -- what they share ---------------------------------------------------------------------------------------------

    def _job(self, name: str, **more: Any) -> Job:
        self._query("q1")
        folder = self._folder / name
        more = {"table": str(folder / "table"), **more}
        return Job({}, checkpoint=str(folder / "checkpoint"), home=str(folder / "home"), format="iceberg", **more)

    def _query(self, name: str) -> None:
        self._spark.sparkContext.setLocalProperty("sql.streaming.queryId", name)

    def _columns(self) -> str:
        return "id bigint, batch int, fault string"

    def _rows(self, batch: int, n: int = 3, columns: str = "id bigint, batch int", extra: tuple[Any, ...] = ()) -> Any:
        """Rows of a batch, backwards, and a bad one among them."""
        made = [(i, batch, *extra, None) for i in reversed(range(n))]
        return self._spark.createDataFrame([*made, (99, batch, *extra, "bad")], f"{columns}, fault string").coalesce(1)

    def _append(self, target: Any, rows: Any, batch: int) -> Any:
        return target.write(rows, batch, {"all": f.count(f.lit(1)), "bad": f.count("fault")})

    def _batches(self, place: str) -> Mapping[int, int]:
        grouped = read(self._spark, "iceberg", place).groupBy("batch").count()
        return {r["batch"]: r["count"] for r in grouped.collect()}

    def _sorted(self, plan: Job) -> list[int]:
        (file,) = (Path(plan.table) / "data" / "batch=0").glob("*.parquet")
        return [r["id"] for r in self._spark.read.parquet(str(file)).collect()]

    def _said(self, do: Callable[[], Any]) -> str:
        try:
            do()
        except SparkFault as e:
            return str(e)
        return ""


def streamed(spark: Any, place: str) -> Found:
    """The rows of a table that a query has filled, and those of its quarantine table."""
    rows = read(spark, "iceberg", place)
    raw = "data_raw" if "data_raw" in rows.columns else "data"
    refused = read(spark, "iceberg", f"{place}_quarantine").collect()
    return {
        "rows": [[r["id"], bytes(r[raw]).decode()] for r in rows.collect()],
        "refused": [[r["id"], bytes(r["data"]).decode(), r["reason"]] for r in refused],
        "type": rows.schema["data"].dataType.simpleString() if raw == "data_raw" else "",
        "partitions": sorted(p.name for p in (Path(place) / "data").iterdir()),
    }


def main() -> None:
    out, folder, streams, conf = os.dup(1), Path(sys.argv[1]), sys.argv[2].split(","), json.loads(sys.argv[3])
    os.dup2(2, 1)  # what Spark prints is not what was found
    lake = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".warehouse": str(folder / "lake")}
    conf |= {f"spark.sql.catalog.lake{key}": value for key, value in lake.items()}
    spark = session(conf=conf, iceberg=True)
    parts = Parts(spark, folder)
    found: Found = {"streamed": {place: streamed(spark, place) for place in streams if place}}
    for part in (parts.once, parts.evolution, parts.expired, parts.catalog, parts.maintenance):
        found[part.__name__] = part()
    spark.stop()
    os.write(out, json.dumps(found).encode())


if __name__ == "__main__":
    main()
