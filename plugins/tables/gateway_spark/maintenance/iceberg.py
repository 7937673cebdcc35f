"""Maintenance of Iceberg tables. It may run beside the writer: their commits don't conflict."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from ..errors import SparkFault
from ..tables.delta import quoted
from ..tables.iceberg_location import IcebergLocation
from .model import MaintenanceRequest, MaintenanceResult, TableRef, TableStats, histogram

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CATALOG = "org.apache.iceberg.spark.SparkCatalog"


class IcebergMaintenance:
    """See `TableMaintenance`. Each run also expires the snapshots that are older than the table's properties allow
    (five days by default) and deletes the files that only those use."""

    def __init__(self, spark: SparkSession, ref: TableRef) -> None:
        self._spark = spark
        self._ref = ref
        self._at = IcebergLocation(spark, ref.path)

    def found(self) -> TableStats | None:
        """See `TableMaintenance`."""
        if self._at.load() is None:
            return None
        sizes = self._sizes()
        return TableStats(self._ref.path, "iceberg", self._at.read().count(), len(sizes), sum(sizes), histogram(sizes))

    def compact(self, request: MaintenanceRequest) -> MaintenanceResult:
        """See `TableMaintenance`."""
        if request.dry_run:
            small = sum(size < request.target_bytes for size in self._sizes())
            return MaintenanceResult(self._ref.path, "iceberg", small if small > 1 else 0, dry_run=True)
        table = self._at.load()
        session: Any = self._spark._jsparkSession
        action = self._at.jvm.org.apache.iceberg.spark.actions.SparkActions.get(session).rewriteDataFiles(table)
        action = action.option("target-file-size-bytes", str(request.target_bytes)).option("min-input-files", "2")
        action = action.sort() if table.sortOrder().isSorted() else action.binPack()
        done = action.execute()
        request.report("rewritten")
        self._expire(request)
        removed, added = done.rewrittenDataFilesCount(), done.addedDataFilesCount()
        return MaintenanceResult(self._ref.path, "iceberg", removed, added)

    def retain(self, request: MaintenanceRequest) -> MaintenanceResult:
        """See `TableMaintenance`."""
        from pyspark.sql import functions as f

        rows = self._at.read()
        if request.column not in rows.columns:
            raise SparkFault(f"the table {self._ref.path} has no column {request.column!r}")
        assert request.before is not None
        old = rows.where(f.col(request.column) < f.lit(request.before)).count()
        if request.dry_run or not old:
            return MaintenanceResult(self._ref.path, "iceberg", rows_deleted=old, dry_run=request.dry_run)
        text = request.before.isoformat()
        self._spark.sql(f"DELETE FROM {self._sql_name()} WHERE {quoted(request.column)} < TIMESTAMP '{text}'")
        request.report("deleted")
        summary = self._at.load().currentSnapshot().summary()
        removed, added = (int(summary.get(key) or 0) for key in ("deleted-data-files", "added-data-files"))
        self._expire(request)
        return MaintenanceResult(self._ref.path, "iceberg", removed, added, old)

    def _expire(self, request: MaintenanceRequest) -> None:
        self._at.load().expireSnapshots().commit()
        request.report("expired")

    def _sizes(self) -> list[int]:
        files: DataFrame = self._at.read("files")
        return [row["file_size_in_bytes"] for row in files.where("content = 0").select("file_size_in_bytes").collect()]

    def _sql_name(self) -> str:
        """A name for SQL statements: a folder is a table in the catalog of its parent folder."""
        if self._at.name:
            return self._at.name
        parent, _, name = self._at.path.rstrip("/").rpartition("/")
        catalog = f"tidegate_{uuid.uuid4().hex}"
        for key, value in (("", _CATALOG), (".type", "hadoop"), (".warehouse", parent), (".cache-enabled", "false")):
            self._spark.conf.set(f"spark.sql.catalog.{catalog}{key}", value)
        return f"{catalog}.`{name.replace('`', '``')}`"
