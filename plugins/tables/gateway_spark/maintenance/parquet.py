"""Maintenance of parquet tables on this machine. Nothing else may write meanwhile; readers may read.

New files are written under names that readers ignore; then the table's log is exchanged for one that lists them in
place of the old ones. After a crash at any point, the table has the old files or the new ones; leftovers are deleted
the next time.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway_core.contract.errors import StartError

from ..errors import SparkFault
from ..processes import Lock
from ..tables.jvm import SmallFiles
from ..tables.owner import local_path
from ..tables.parquet import BATCH, METADATA, ParquetTable
from ..tables.parquet import read as read_table
from .model import MaintenanceRequest, MaintenanceResult, TableRef, TableStats, histogram
from .sinklog import DataFile, SinkLog, local_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_SCRATCH = "_tidegate_new"
_PATIENCE_S = 1.0
_SMALL = 0.75  # files above this fraction of the target size are left alone


class ParquetMaintenance:
    """See `TableMaintenance`."""

    def __init__(self, spark: SparkSession, ref: TableRef) -> None:
        self._spark = spark
        self._ref = ref
        self._folder = local_path(ref.path)

    def found(self) -> TableStats | None:
        """See `TableMaintenance`."""
        rows = read_table(self._spark, self._ref.path)
        if rows is None:
            return None
        from ..tables.parquet import metadata

        sizes = [int(e.size()) for e in metadata(self._spark, self._ref.path).allFiles()]
        return TableStats(self._ref.path, "parquet", rows.count(), len(sizes), sum(sizes), histogram(sizes))

    def compact(self, request: MaintenanceRequest) -> MaintenanceResult:
        """See `TableMaintenance`."""
        with self._alone() as log:
            small = _small(self._table(), log.files, request.target_bytes)
            return self._rewrite(log, small, [], None, request)

    def retain(self, request: MaintenanceRequest) -> MaintenanceResult:
        """See `TableMaintenance`."""
        from pyspark.sql import functions as f

        with self._alone() as log:
            old, mixed = self._old(log.files, request)
            at = f.col(request.column)
            groups: dict[Path, list[DataFile]] = {}
            for file in mixed:
                groups.setdefault(file.local.parent, []).append(file)
            return self._rewrite(log, groups, old, at.isNull() | (at >= f.lit(request.before)), request)

    def _table(self) -> Path:
        if self._folder is None:
            raise SparkFault(
                f"the parquet table {self._ref.path} is not on this machine, where its log could be exchanged in "
                "one step: use delta for tables in object stores"
            )
        return self._folder

    @contextmanager
    def _alone(self) -> Iterator[SinkLog]:
        """Holds the locks that the writer of this table would hold."""
        table = self._table()
        if not (table / METADATA).is_dir():
            raise SparkFault(f"there is no parquet table at {table}: it has no {METADATA}")
        noted = SmallFiles(self._spark, str(table)).load(BATCH) or {}
        checkpoint = local_path(self._ref.checkpoint or noted.get("checkpoint", ""))
        paths = [table / "_tidegate.lock"]
        if checkpoint is not None and checkpoint.name and checkpoint.parent.is_dir():
            paths.append(checkpoint.with_name(checkpoint.name + ".lock"))
        locks: list[Lock] = []
        try:
            for path in paths:
                lock = _locked(Lock(path), table)
                locks.append(lock)
            log = SinkLog(self._spark, table)
            log.clean()
            shutil.rmtree(table / _SCRATCH, ignore_errors=True)
            yield log
        finally:
            for lock in locks:
                lock.release()

    def _rewrite(
        self,
        log: SinkLog,
        groups: dict[Path, list[DataFile]],
        gone: Sequence[DataFile],
        condition: Column | None,
        request: MaintenanceRequest,
    ) -> MaintenanceResult:
        """Replaces groups of files, each of one folder, by new ones with the rows for which the condition holds; drops
        the files of `gone`."""
        replaced = [file for group in groups.values() for file in group]
        before = self._count([*replaced, *gone])
        if request.dry_run or not (replaced or gone):
            kept = (
                self._where(self._read(replaced), condition).count() if replaced and condition is not None else before
            )
            deleted = before - kept if condition is not None else 0
            return MaintenanceResult(self._ref.path, "parquet", len(replaced) + len(gone), 0, deleted, request.dry_run)
        new = [f for folder, group in groups.items() for f in self._write(folder, group, condition, request)]
        request.report("rewritten")
        after = self._count(new)
        if condition is None and after != before:
            raise SparkFault(f"the new files of {self._ref.path} have {after} rows, not {before}: nothing changed")
        names = {f.path for f in (*replaced, *gone)}
        log.prepare([*(f for f in log.files if f.path not in names), *new])
        request.report("prepared")
        log.replace()
        request.report("replaced")
        SinkLog(self._spark, self._table()).clean()
        request.report("cleaned")
        return MaintenanceResult(self._ref.path, "parquet", len(names), len(new), before - after)

    def _write(
        self, folder: Path, group: list[DataFile], condition: Column | None, request: MaintenanceRequest
    ) -> list[DataFile]:
        scratch = self._table() / _SCRATCH / uuid.uuid4().hex
        count = max(1, -(-sum(f.size for f in group) // request.target_bytes))
        rows = self._where(self._read(group), condition)
        by = [c for c in self._ref.cluster_by if c.partition(".")[0] in rows.columns]
        if count > 1 and by:
            rows = rows.repartitionByRange(count, *by)
        elif count > 1:
            rows = rows.repartition(count)
        else:
            rows = rows.coalesce(1)
        rows = rows.sortWithinPartitions(*by) if by else rows
        rows.write.parquet(_named(scratch))
        made: list[DataFile] = []
        for file in sorted(scratch.glob("part-*.parquet")):
            if self._count([DataFile.of(file)]):
                target = folder / f"part-{len(made):05}-{uuid.uuid4()}-c000{''.join(file.suffixes)}"
                os.rename(file, target)
                made.append(DataFile.of(target))
        shutil.rmtree(scratch)
        return made

    def _read(self, files: Sequence[DataFile]) -> DataFrame:
        """The rows of files, without the columns that folders stand for."""
        from pyspark.sql.types import StructType

        schema = ParquetTable.columns(self._spark, self._ref.path)
        folders = {part.partition("=")[0] for f in files for part in f.local.relative_to(self._table()).parts[:-1]}
        stored = StructType([f for f in schema.fields if f.name not in folders])
        return self._spark.read.schema(stored).parquet(*[_named(f.local) for f in files])

    def _where(self, rows: DataFrame, condition: Column | None) -> DataFrame:
        return rows if condition is None else rows.where(condition)

    def _count(self, files: Sequence[DataFile]) -> int:
        import pyarrow.parquet as pq

        return sum(pq.read_metadata(f.local).num_rows for f in files)

    def _old(self, files: Sequence[DataFile], request: MaintenanceRequest) -> tuple[list[DataFile], list[DataFile]]:
        """The files with only old rows, and those with some."""
        from pyspark.sql import functions as f

        schema = ParquetTable.columns(self._spark, self._ref.path)
        if request.column not in schema.names:
            raise SparkFault(f"the table {self._ref.path} has no column {request.column!r}")
        if not files:
            return [], []
        rows = self._spark.read.schema(schema).option("basePath", _named(self._table()))
        old = f.count(f.when(f.col(request.column) < f.lit(request.before), 1)).alias("old")
        grouped = rows.parquet(*[_named(x.local) for x in files]).groupBy(f.col("_metadata.file_path").alias("path"))
        counts = {local_of(r["path"]): r for r in grouped.agg(old, f.count(f.lit(1)).alias("all")).collect()}
        whole: list[DataFile] = []
        some: list[DataFile] = []
        for file in files:
            row: Any = counts.get(file.local)
            if row is None or not row["old"]:
                continue
            (whole if row["old"] == row["all"] else some).append(file)
        return whole, some


def _named(path: Path) -> str:
    """A path in the form that Spark expects: not a URI, though it has a scheme."""
    return f"file:{path}"


def _small(table: Path, files: Sequence[DataFile], target: int) -> dict[Path, list[DataFile]]:
    """The small files of each folder that has more than one."""
    groups: dict[Path, list[DataFile]] = {}
    for file in files:
        if file.size < target * _SMALL:
            groups.setdefault(file.local.parent, []).append(file)
    return {folder: group for folder, group in sorted(groups.items()) if len(group) > 1}


def _locked(lock: Lock, table: Path) -> Lock:
    try:
        lock.acquire(_PATIENCE_S)
    except StartError as e:
        raise SparkFault(
            f"the table {table} is being written ({e}): stop the gateway or the submitted query first, and start it "
            "again afterwards; only delta and iceberg tables can be maintained while they are written"
        ) from e
    return lock
