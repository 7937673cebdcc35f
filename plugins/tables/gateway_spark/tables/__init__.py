"""The tables that queries write: each takes each batch exactly once, even after crashes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import SparkFault
from ..job import Job
from .table import FAULT, Table, WriteMode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["FAULT", "FORMATS", "Table", "Tables", "WriteMode", "read", "table"]

FORMATS = ("parquet", "delta", "iceberg")


class Tables:
    """The tables of one run of a query, each created once."""

    def __init__(self) -> None:
        self._made: dict[str, Table] = {}

    def at(self, job: Job, spark: SparkSession, location: str) -> Table:
        """The table at a location, in the job's format. `spark` is the session of the batch."""
        if location not in self._made:
            self._made[location] = table(job, spark, location)
        return self._made[location]


def table(job: Job, spark: SparkSession, location: str) -> Table:
    """The table at a location, in the job's format. `spark` is the session of the batch."""
    match job.format:
        case "parquet":
            from .parquet import ParquetTable

            return ParquetTable(job, spark, location)
        case "delta":
            from .delta import DeltaTable

            return DeltaTable(job, spark, location)
        case "iceberg":
            from .iceberg import IcebergTable

            return IcebergTable(job, spark, location)
    raise SparkFault(f"unknown table format {job.format!r}: there are {', '.join(FORMATS)}")


def read(spark: SparkSession, format: str, location: str) -> DataFrame:
    """The rows of a table, with all columns and fields that it ever had. Raises `SparkFault` if there is none."""
    rows = None
    match format:
        case "parquet":
            from .parquet import read as read_parquet

            rows = read_parquet(spark, location)
        case "delta":
            from .delta import read as read_delta

            rows = read_delta(spark, location)
        case "iceberg":
            from .iceberg import read as read_iceberg

            rows = read_iceberg(spark, location)
        case _:
            raise SparkFault(f"unknown table format {format!r}: there are {', '.join(FORMATS)}")
    if rows is None:
        raise SparkFault(f"there is no {format} table at {location}")
    return rows
