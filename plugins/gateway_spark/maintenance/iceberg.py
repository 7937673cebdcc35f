"""Care for Iceberg tables. It may run beside the writer: what both do are commits that don't touch each other."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from ..errors import SparkFault
from ..tables.delta import quoted
from ..tables.iceberg_place import IcebergPlace
from . import Done, Found, Place, Wish, histogram

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CATALOG = "org.apache.iceberg.spark.SparkCatalog"


class IcebergCare:
    """See `Care`. Snapshots that are older than the table's properties say (five days, where they say nothing) are
    expired each time, and the files that only they have are deleted."""

    def __init__(self, spark: SparkSession, place: Place) -> None:
        self._spark = spark
        self._place = place
        self._at = IcebergPlace(spark, place.path)

    def found(self) -> Found | None:
        """See `Care`."""
        if self._at.load() is None:
            return None
        sizes = self._sizes()
        return Found(self._place.path, "iceberg", self._at.read().count(), len(sizes), sum(sizes), histogram(sizes))

    def compact(self, wish: Wish) -> Done:
        """See `Care`."""
        if wish.dry_run:
            small = sum(size < wish.target_bytes for size in self._sizes())
            return Done(self._place.path, "iceberg", small if small > 1 else 0, dry_run=True)
        table = self._at.load()
        session: Any = self._spark._jsparkSession
        action = self._at.jvm.org.apache.iceberg.spark.actions.SparkActions.get(session).rewriteDataFiles(table)
        action = action.option("target-file-size-bytes", str(wish.target_bytes)).option("min-input-files", "2")
        action = action.sort() if table.sortOrder().isSorted() else action.binPack()
        done = action.execute()
        wish.say("rewritten")
        self._expire(wish)
        removed, added = done.rewrittenDataFilesCount(), done.addedDataFilesCount()
        return Done(self._place.path, "iceberg", removed, added)

    def retain(self, wish: Wish) -> Done:
        """See `Care`."""
        from pyspark.sql import functions as f

        rows = self._at.read()
        if wish.column not in rows.columns:
            raise SparkFault(f"the table {self._place.path} has no column {wish.column!r}")
        assert wish.before is not None
        old = rows.where(f.col(wish.column) < f.lit(wish.before)).count()
        if wish.dry_run or not old:
            return Done(self._place.path, "iceberg", rows_deleted=old, dry_run=wish.dry_run)
        text = wish.before.isoformat()
        self._spark.sql(f"DELETE FROM {self._sql_name()} WHERE {quoted(wish.column)} < TIMESTAMP '{text}'")
        wish.say("deleted")
        summary = self._at.load().currentSnapshot().summary()
        removed, added = (int(summary.get(key) or 0) for key in ("deleted-data-files", "added-data-files"))
        self._expire(wish)
        return Done(self._place.path, "iceberg", removed, added, old)

    def _expire(self, wish: Wish) -> None:
        self._at.load().expireSnapshots().commit()
        wish.say("expired")

    def _sizes(self) -> list[int]:
        files: DataFrame = self._at.read("files")
        return [row["file_size_in_bytes"] for row in files.where("content = 0").select("file_size_in_bytes").collect()]

    def _sql_name(self) -> str:
        """A name for statements: a folder is a table of the catalog that its parent is."""
        if self._at.name:
            return self._at.name
        parent, _, name = self._at.path.rstrip("/").rpartition("/")
        catalog = f"tidegate_{uuid.uuid4().hex}"
        for key, value in (("", _CATALOG), (".type", "hadoop"), (".warehouse", parent), (".cache-enabled", "false")):
            self._spark.conf.set(f"spark.sql.catalog.{catalog}{key}", value)
        return f"{catalog}.`{name.replace('`', '``')}`"
