"""Delta tables: a commit carries the query's id and the batch's number (`txnAppId`, `txnVersion`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..job import Job
from . import FAULT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

QUERY_ID = "sql.streaming.queryId"  # a local property of the thread that runs a streaming query


class DeltaTable:
    """A `Table`."""

    def __init__(self, job: Job, spark: SparkSession, place: str) -> None:
        self.place = place
        self._job = job
        self._spark = spark

    def append(self, rows: DataFrame, batch: int, measures: Mapping[str, Column]) -> dict[str, int] | None:
        """See `Table`."""
        from pyspark.sql import Observation

        seen = Observation()
        measured = rows.observe(seen, *[c.alias(name) for name, c in measures.items()])
        writer = measured.where(f"{FAULT} is null").drop(FAULT).write.format("delta").mode("append")
        # the id of the query that Spark's own Delta sink would use, so that a table that it has begun goes on
        query = self._spark.sparkContext.getLocalProperty(QUERY_ID)
        writer = writer.option("txnAppId", str(query)).option("txnVersion", batch).option("mergeSchema", "true")
        if self._job.partition_by:
            writer = writer.partitionBy(*self._job.partition_by)
        writer.save(self.place)
        return dict(seen.get)

    def schema(self) -> StructType | None:
        raise NotImplementedError
