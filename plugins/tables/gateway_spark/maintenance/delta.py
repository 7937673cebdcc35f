"""Maintenance of Delta tables. It may run beside the writer: their commits don't conflict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import SparkFault
from ..tables.delta import is_table, quoted
from ..tables.jvm import jvm_class
from .model import MaintenanceRequest, MaintenanceResult, TableRef, TableStats, histogram

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SIZES = ("spark.databricks.delta.optimize.maxFileSize", "spark.databricks.delta.optimize.minFileSize")


class DeltaMaintenance:
    """See `TableMaintenance`. Each run also deletes files that no version of the last week uses."""

    def __init__(self, spark: SparkSession, ref: TableRef) -> None:
        self._spark = spark
        self._ref = ref
        self._name = f"delta.`{ref.path.replace('`', '``')}`"

    def found(self) -> TableStats | None:
        """See `TableMaintenance`."""
        if not is_table(self._spark, self._ref.path):
            return None
        sizes = self._sizes()
        rows = self._spark.read.format("delta").load(self._ref.path).count()
        return TableStats(self._ref.path, "delta", rows, len(sizes), sum(sizes), histogram(sizes))

    def compact(self, request: MaintenanceRequest) -> MaintenanceResult:
        """See `TableMaintenance`."""
        small = self._count_small(request)
        if request.dry_run:
            return MaintenanceResult(self._ref.path, "delta", small, dry_run=True)
        conf = self._spark.conf
        for name in _SIZES:
            conf.set(name, str(request.target_bytes))
        try:
            metrics = self._spark.sql(f"OPTIMIZE {self._name}").collect()[0]["metrics"]
        finally:
            for name in _SIZES:
                conf.unset(name)
        request.report("optimized")
        self._vacuum(request)
        return MaintenanceResult(self._ref.path, "delta", metrics["numFilesRemoved"], metrics["numFilesAdded"])

    def retain(self, request: MaintenanceRequest) -> MaintenanceResult:
        """See `TableMaintenance`."""
        from pyspark.sql import functions as f

        rows = self._spark.read.format("delta").load(self._ref.path)
        if request.column not in rows.columns:
            raise SparkFault(f"the table {self._ref.path} has no column {request.column!r}")
        condition = f.col(request.column) < f.lit(request.before)
        if request.dry_run:
            return MaintenanceResult(self._ref.path, "delta", rows_deleted=rows.where(condition).count(), dry_run=True)
        assert request.before is not None
        text = request.before.isoformat()
        done = self._spark.sql(
            f"DELETE FROM {self._name} WHERE {quoted(request.column)} < TIMESTAMP '{text}'"
        ).collect()
        request.report("deleted")
        last = self._spark.sql(f"DESCRIBE HISTORY {self._name} LIMIT 1").collect()[0]
        self._vacuum(request)
        metrics = last["operationMetrics"] if last["operation"] == "DELETE" else {}
        removed, added = (int(metrics.get(k, 0)) for k in ("numRemovedFiles", "numAddedFiles"))
        return MaintenanceResult(self._ref.path, "delta", removed, added, done[0][0])

    def _vacuum(self, request: MaintenanceRequest) -> None:
        self._spark.sql(f"VACUUM {self._name}").collect()
        request.report("vacuumed")

    def _count_small(self, request: MaintenanceRequest) -> int:
        small = sum(size < request.target_bytes for size in self._sizes())
        return small if small > 1 else 0

    def _sizes(self) -> list[int]:
        session: Any = self._spark._jsparkSession
        log = jvm_class(self._spark, "org.apache.spark.sql.delta.DeltaLog").forTable(session, self._ref.path)
        files = _frame(self._spark, log.startTransaction().snapshot().allFiles())
        return [row["size"] for row in files.select("size").collect()]


def _frame(spark: SparkSession, dataset: Any) -> DataFrame:
    from pyspark.sql import DataFrame

    return DataFrame(dataset.toDF(), spark)
