"""Iceberg tables: not yet, for want of a connector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..errors import SparkFault
from ..job import Job

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

MISSING = (
    "Iceberg has no connector for Spark 4.2 yet: its newest, for Spark 4.1, does not load there "
    "(org.apache.iceberg.spark.source.SparkView needs Spark's View to be an interface); use delta or parquet"
)


class IcebergTable:
    """Raises `SparkFault`."""

    def __init__(self, job: Job, spark: SparkSession, place: str) -> None:
        self.place = place
        raise SparkFault(MISSING)

    def append(self, rows: DataFrame, batch: int, measures: Mapping[str, Column]) -> dict[str, int] | None:
        raise NotImplementedError

    def schema(self) -> StructType | None:
        raise NotImplementedError


def read(spark: SparkSession, place: str) -> DataFrame | None:
    raise SparkFault(MISSING)
