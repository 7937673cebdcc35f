"""Care for Delta tables. It may run beside the writer: what both do are commits that don't touch each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import SparkFault
from ..tables.delta import is_table, quoted
from ..tables.jvm import named
from . import Done, Found, Place, Wish, histogram

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SIZES = ("spark.databricks.delta.optimize.maxFileSize", "spark.databricks.delta.optimize.minFileSize")


class DeltaCare:
    """See `Care`. Files that no version of the last week has are deleted each time."""

    def __init__(self, spark: SparkSession, place: Place) -> None:
        self._spark = spark
        self._place = place
        self._name = f"delta.`{place.path.replace('`', '``')}`"

    def found(self) -> Found | None:
        """See `Care`."""
        if not is_table(self._spark, self._place.path):
            return None
        sizes = self._sizes()
        rows = self._spark.read.format("delta").load(self._place.path).count()
        return Found(self._place.path, "delta", rows, len(sizes), sum(sizes), histogram(sizes))

    def compact(self, wish: Wish) -> Done:
        """See `Care`."""
        small = self._count_small(wish)
        if wish.dry_run:
            return Done(self._place.path, "delta", small, dry_run=True)
        conf = self._spark.conf
        for name in _SIZES:
            conf.set(name, str(wish.target_bytes))
        try:
            metrics = self._spark.sql(f"OPTIMIZE {self._name}").collect()[0]["metrics"]
        finally:
            for name in _SIZES:
                conf.unset(name)
        wish.say("optimized")
        self._vacuum(wish)
        return Done(self._place.path, "delta", metrics["numFilesRemoved"], metrics["numFilesAdded"])

    def retain(self, wish: Wish) -> Done:
        """See `Care`."""
        from pyspark.sql import functions as f

        rows = self._spark.read.format("delta").load(self._place.path)
        if wish.column not in rows.columns:
            raise SparkFault(f"the table {self._place.path} has no column {wish.column!r}")
        condition = f.col(wish.column) < f.lit(wish.before)
        if wish.dry_run:
            return Done(self._place.path, "delta", rows_deleted=rows.where(condition).count(), dry_run=True)
        assert wish.before is not None
        text = wish.before.isoformat()
        done = self._spark.sql(f"DELETE FROM {self._name} WHERE {quoted(wish.column)} < TIMESTAMP '{text}'").collect()
        wish.say("deleted")
        last = self._spark.sql(f"DESCRIBE HISTORY {self._name} LIMIT 1").collect()[0]
        self._vacuum(wish)
        metrics = last["operationMetrics"] if last["operation"] == "DELETE" else {}
        removed, added = (int(metrics.get(k, 0)) for k in ("numRemovedFiles", "numAddedFiles"))
        return Done(self._place.path, "delta", removed, added, done[0][0])

    def _vacuum(self, wish: Wish) -> None:
        self._spark.sql(f"VACUUM {self._name}").collect()
        wish.say("vacuumed")

    def _count_small(self, wish: Wish) -> int:
        small = sum(size < wish.target_bytes for size in self._sizes())
        return small if small > 1 else 0

    def _sizes(self) -> list[int]:
        session: Any = self._spark._jsparkSession
        log = named(self._spark, "org.apache.spark.sql.delta.DeltaLog").forTable(session, self._place.path)
        files = _frame(self._spark, log.startTransaction().snapshot().allFiles())
        return [row["size"] for row in files.select("size").collect()]


def _frame(spark: SparkSession, dataset: Any) -> DataFrame:
    from pyspark.sql import DataFrame

    return DataFrame(dataset.toDF(), spark)
