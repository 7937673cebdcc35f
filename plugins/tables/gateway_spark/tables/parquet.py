"""Parquet tables: the valid files are those in Spark's own `_spark_metadata`, the protocol of its file sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..data.types import Type
from ..job import Job
from . import numbers
from .columns import grown, plain, struct_type
from .jvm import SmallFiles, jvm_class, measured, measurements, query_id
from .mark import Extent, Mark, Owner, owner_of
from .table import WriteMode, must_append, taken

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

METADATA = "_spark_metadata"
SCHEMA = "_tidegate_schema"
BATCH = "_tidegate_batch"
_SINKS = "org.apache.spark.sql.execution.streaming.sinks"
_FORMAT = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"


class ParquetTable:
    """A `Table`. A batch is valid once `_spark_metadata` has a file with its number.

    Spark's protocol allows no gaps between numbers. A table may get only some batches of the query (quarantine, one per
    event type), or have some of an earlier query, so it has its own numbers: before the rows are written,
    `_tidegate_batch` records which batch of which query has the next number, with its mark, and what it said of the
    number before. Column names and types are in `_tidegate_schema`, so that readers need not open each file.
    """

    def __init__(self, job: Job, spark: SparkSession, location: str) -> None:
        self.location = location
        self._job = job
        self._spark = spark
        self._files = SmallFiles(spark, location)
        self._gets_all = location == job.table
        self._sink: Any = None
        self._last = -1  # the last number in the metadata, once there is a sink
        self._columns: Type | None = None
        self._seen: Any = None  # the schema of the rows that were written last, in the JVM

    def write(
        self,
        rows: DataFrame,
        batch: int,
        measures: Mapping[str, Column],
        mark: Mark | None = None,
        *,
        mode: WriteMode = WriteMode.APPEND,
        keys: Sequence[str] = (),
    ) -> dict[str, int] | None:
        """See `Table`."""
        must_append(mode, keys, self.location)
        if self._sink is None:
            self._open()
        sink, number = self._sink, self._number(batch, mark)
        if number is None:
            return None
        good = taken(measured(rows, measures))
        if self._job.cluster_by:
            good = good.sortWithinPartitions(*dict.fromkeys([*self._job.partition_by, *self._job.cluster_by]))
        self._grow(good._jdf.schema())
        self._sink = None  # after a failure everything is loaded again
        sink.addBatch(number, good._jdf)
        self._sink, self._last = sink, number
        return measurements(good, measures)

    def schema(self) -> StructType | None:
        """See `Table`."""
        columns = _columns(self._spark, self._files, self.location)
        return None if columns is None else struct_type(columns)

    @staticmethod
    def columns(spark: SparkSession, location: str) -> StructType:
        """The columns of an existing table."""
        columns = _columns(spark, SmallFiles(spark, location), location)
        return struct_type(plain({"type": "struct", "fields": []}) if columns is None else columns)

    def _open(self) -> None:
        spark, jvm = self._spark, self._spark._jvm
        assert jvm is not None
        gateway: Any = spark.sparkContext._gateway
        nothing = gateway.new_array(jvm.java.lang.Class, 0), gateway.new_array(jvm.java.lang.Object, 0)
        parquet = jvm.java.lang.Class.forName(_FORMAT).getDeclaredConstructor(nothing[0]).newInstance(nothing[1])
        names, options = jvm.PythonUtils.toSeq(self._job.partition_by), jvm.PythonUtils.toScalaMap({})
        make = jvm_class(spark, f"{_SINKS}.FileStreamSink")
        self._sink = make(spark._jsparkSession, self.location, parquet, names, options)
        self._last = last_number(spark, self.location)
        self._columns = _columns(spark, self._files, self.location)

    def owner(self) -> Owner | None:
        """See `Table`."""
        return owner_of((self._note() or {}).get("owner"))

    def extent(self, query: str) -> Extent | None:
        """See `Table`."""
        note = self._note() or {}
        return (note["first"], note["end"]) if note.get("query") == query and "end" in note else None

    def writer(self, query: str, planned: int) -> str:
        """See `Table`."""
        last, note = last_number(self._spark, self.location), self._note()
        if note is not None:
            return str(note["query"])
        if not self._gets_all:  # its note comes before its rows
            return ""
        return "" if last < 0 else query if last <= planned else "another query"

    def begin(self, query: str) -> None:
        """See `Table`."""
        if query and self._note() is not None:
            return
        last = last_number(self._spark, self.location)
        note = {"query": query, "batch": last if query else -1, "number": last, "checkpoint": self._job.checkpoint}
        self._files.save(BATCH, note)

    def _note(self) -> dict[str, Any] | None:
        """The note of the last batch that is in the table."""
        note: dict[str, Any] | None = self._files.load(BATCH)
        if note is None or note["number"] <= last_number(self._spark, self.location):
            return note
        return note.get("before")

    def _number(self, batch: int, mark: Mark | None) -> int | None:
        """The batch's number in this table, or None if the table already has it. Notes it."""
        checkpoint, query = self._job.checkpoint, query_id(self._spark, self._job.checkpoint)
        noted = self._files.load(BATCH)
        if noted is not None and noted["number"] > self._last:
            # a batch that was cut off; or another query has written here since
            self._last = last_number(self._spark, self.location)
            if noted["number"] > self._last:
                noted = noted.get("before")
        if mark is not None and mark.owner is not None:
            mark.owner.check(owner_of((noted or {}).get("owner")), self.location)
        if noted is None and self._gets_all:  # it is new, or an earlier version wrote it
            number = numbers.of_query(batch, self._last, self.location, checkpoint)
        else:
            number = numbers.of_table(batch, self._last, query, noted)
            if self._gets_all and noted is not None and noted["query"] == query and batch > noted["batch"] + 1:
                raise numbers.gap(noted["batch"] + 1, batch, self.location, checkpoint)
        if number is not None:
            note = {"query": query, "batch": batch, "number": number, "checkpoint": checkpoint}
            if mark is not None:
                note |= {"first": dict(mark.first), "end": dict(mark.end)}
                note |= {"owner": asdict(mark.owner)} if mark.owner else {}
            before = {name: value for name, value in (noted or {}).items() if name != "before"}
            self._files.save(BATCH, {**note, **({"before": before} if before else {})})
        return number

    def _grow(self, jschema: Any) -> None:
        if self._seen is not None and self._seen.equals(jschema):
            return
        columns = plain({"type": "struct", "fields": []}) if self._columns is None else self._columns
        new = grown(self.location, columns, jschema)
        if new != self._columns or self._files.load(SCHEMA) is None:
            self._files.save(SCHEMA, new)
        self._columns, self._seen = new, jschema


def read(spark: SparkSession, location: str) -> DataFrame | None:
    """The rows of a table, or None if there is none."""
    columns = _columns(spark, SmallFiles(spark, location), location)
    return None if columns is None else spark.read.schema(struct_type(columns)).parquet(location)


def last_number(spark: SparkSession, location: str) -> int:
    """The number of the last batch in a table's metadata, or -1."""
    found = metadata(spark, location).getLatestBatchId()
    return -1 if found.isEmpty() else int(found.get())


def metadata(spark: SparkSession, location: str) -> Any:
    """Spark's log of valid files."""
    log = jvm_class(spark, f"{_SINKS}.FileStreamSinkLog")
    session: Any = spark._jsparkSession
    return log(log.VERSION(), session, f"{location}/{METADATA}", getattr(log, "$lessinit$greater$default$4")())


def _columns(spark: SparkSession, files: SmallFiles, location: str) -> Type | None:
    """A table's columns; if the file with them is missing (written by an earlier version), from all its files."""
    if (known := files.load(SCHEMA)) is not None:
        return plain(known)
    # Spark makes the folder of the metadata when it is asked for them
    if not files.exists(METADATA) or last_number(spark, location) < 0 or not len(metadata(spark, location).allFiles()):
        return None
    return plain(spark.read.option("mergeSchema", "true").parquet(location).schema.jsonValue())
