"""Parquet tables: the files that count are those in Spark's own `_spark_metadata`, the protocol of its file sink."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..data.types import Type
from ..errors import SparkFault
from ..job import Job
from . import taken
from .columns import grown, plain, struct_type
from .jvm import SmallFiles, measured, measurements, named, query_id

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

METADATA = "_spark_metadata"
SCHEMA = "_tidegate_schema"
BATCH = "_tidegate_batch"
_SINKS = "org.apache.spark.sql.execution.streaming.sinks"
_FORMAT = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"


class ParquetTable:
    """A `Table`. A batch counts once `_spark_metadata` has a file of its number.

    Spark's protocol has no gaps between numbers. The job's own table gets each batch of the query, and has its numbers.
    Any other table (quarantine, one per event type) gets some, and counts for itself: `_tidegate_batch` says, before
    the rows are written, which batch of which query its next number is. Column names and types are in
    `_tidegate_schema`, so that a reader need not look into each file.
    """

    def __init__(self, job: Job, spark: SparkSession, place: str) -> None:
        self.place = place
        self._job = job
        self._spark = spark
        self._files = SmallFiles(spark, place)
        self._own = place != job.table
        self._sink: Any = None
        self._last = -1  # the last number in the metadata, once there is a sink
        self._columns: Type | None = None
        self._seen: Any = None  # the schema of the rows that were written last, in the JVM

    def append(self, rows: DataFrame, batch: int, measures: Mapping[str, Column]) -> dict[str, int] | None:
        """See `Table`."""
        if self._sink is None:
            self._open()
        sink, number = self._sink, self._number(batch)
        if number is None:
            return None
        good = taken(measured(rows, measures))
        if self._job.cluster_by:
            good = good.sortWithinPartitions(*dict.fromkeys([*self._job.partition_by, *self._job.cluster_by]))
        self._grow(good._jdf.schema())
        self._sink = None  # after a failure all is looked at anew
        sink.addBatch(number, good._jdf)
        self._sink, self._last = sink, number
        return measurements(good, measures)

    def schema(self) -> StructType | None:
        """See `Table`."""
        columns = _columns(self._spark, self._files, self.place)
        return None if columns is None else struct_type(columns)

    @staticmethod
    def columns(spark: SparkSession, place: str) -> StructType:
        """The columns of a table that exists."""
        columns = _columns(spark, SmallFiles(spark, place), place)
        return struct_type(plain({"type": "struct", "fields": []}) if columns is None else columns)

    def _open(self) -> None:
        spark, jvm = self._spark, self._spark._jvm
        assert jvm is not None
        gateway: Any = spark.sparkContext._gateway
        nothing = gateway.new_array(jvm.java.lang.Class, 0), gateway.new_array(jvm.java.lang.Object, 0)
        parquet = jvm.java.lang.Class.forName(_FORMAT).getDeclaredConstructor(nothing[0]).newInstance(nothing[1])
        names, options = jvm.PythonUtils.toSeq(self._job.partition_by), jvm.PythonUtils.toScalaMap({})
        make = named(spark, f"{_SINKS}.FileStreamSink")
        self._sink = make(spark._jsparkSession, self.place, parquet, names, options)
        self._last = last_number(spark, self.place)
        self._columns = _columns(spark, self._files, self.place)

    def _number(self, batch: int) -> int | None:
        """The batch's number in this table; None where it has it."""
        if not self._own:
            if batch > self._last + 1:
                raise SparkFault(
                    f"the table {self.place} lacks batch {self._last + 1} but is to take {batch}: it does not belong "
                    f"to the checkpoint {self._job.checkpoint}; bring back the one that does, or delete the checkpoint"
                )
            return batch if batch > self._last else None
        query = query_id(self._spark, self._job.checkpoint)
        noted = self._files.load(BATCH) or {}
        if noted.get("query") == query and batch <= noted["batch"] and noted["number"] <= self._last:
            return None
        number = self._last + 1
        self._files.save(BATCH, {"query": query, "batch": batch, "number": number, "checkpoint": self._job.checkpoint})
        return number

    def _grow(self, jschema: Any) -> None:
        if self._seen is not None and self._seen.equals(jschema):
            return
        columns = plain({"type": "struct", "fields": []}) if self._columns is None else self._columns
        new = grown(self.place, columns, jschema)
        if new != self._columns or self._files.load(SCHEMA) is None:
            self._files.save(SCHEMA, new)
        self._columns, self._seen = new, jschema


def read(spark: SparkSession, place: str) -> DataFrame | None:
    """The rows of a table; None where there is none."""
    columns = _columns(spark, SmallFiles(spark, place), place)
    return None if columns is None else spark.read.schema(struct_type(columns)).parquet(place)


def last_number(spark: SparkSession, place: str) -> int:
    """The number of the last batch in a table's metadata, -1 where there is none."""
    found = metadata(spark, place).getLatestBatchId()
    return -1 if found.isEmpty() else int(found.get())


def metadata(spark: SparkSession, place: str) -> Any:
    """Spark's log of the files that count."""
    log = named(spark, f"{_SINKS}.FileStreamSinkLog")
    session: Any = spark._jsparkSession
    return log(log.VERSION(), session, f"{place}/{METADATA}", getattr(log, "$lessinit$greater$default$4")())


def _columns(spark: SparkSession, files: SmallFiles, place: str) -> Type | None:
    """A table's columns; without the file that has them (an earlier version wrote the table) from all its files."""
    if (known := files.load(SCHEMA)) is not None:
        return plain(known)
    if last_number(spark, place) < 0 or not len(metadata(spark, place).allFiles()):
        return None
    return plain(spark.read.option("mergeSchema", "true").parquet(place).schema.jsonValue())
