"""Parquet tables: the files that count are those in Spark's own `_spark_metadata`, the protocol of its file sink."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..job import Job
from . import FAULT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_SINK = "org.apache.spark.sql.execution.streaming.sinks.FileStreamSink"
_FORMAT = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"


class ParquetTable:
    """A `Table`. A batch counts once `_spark_metadata` has a file of its number."""

    def __init__(self, job: Job, spark: SparkSession, place: str) -> None:
        self.place = place
        self._job = job
        self._spark = spark

    def append(self, rows: DataFrame, batch: int, measures: Mapping[str, Column]) -> dict[str, int] | None:
        """See `Table`."""
        metadata = self._hadoop(f"{self.place}/_spark_metadata/{batch}")
        if metadata.getFileSystem(self._spark.sparkContext._jsc.hadoopConfiguration()).exists(metadata):
            return None
        measured = rows.observe("tidegate", *[c.alias(name) for name, c in measures.items()])
        good = measured.where(f"{FAULT} is null").drop(FAULT)
        self._sink(good).addBatch(batch, good._jdf)
        found = good._jdf.queryExecution().observedMetrics().apply("tidegate")
        return {name: found.getLong(n) for n, name in enumerate(measures)}

    def schema(self) -> StructType | None:
        raise NotImplementedError

    def _sink(self, rows: DataFrame) -> Any:
        jvm = self._spark._jvm
        assert jvm is not None
        made: Any = jvm
        for part in _SINK.split("."):
            made = getattr(made, part)
        gateway: Any = self._spark.sparkContext._gateway
        kind = jvm.java.lang.Class.forName(_FORMAT)
        none = gateway.new_array(jvm.java.lang.Class, 0), gateway.new_array(jvm.java.lang.Object, 0)
        parquet = kind.getDeclaredConstructor(none[0]).newInstance(none[1])
        names = jvm.PythonUtils.toSeq(self._job.partition_by)
        return made(rows.sparkSession._jsparkSession, self.place, parquet, names, jvm.PythonUtils.toScalaMap({}))

    def _hadoop(self, path: str) -> Any:
        assert self._spark._jvm is not None
        return self._spark._jvm.org.apache.hadoop.fs.Path(path)
