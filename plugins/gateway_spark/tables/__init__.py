"""The tables at the end of a query: each takes each batch once, whatever crashes in between."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from ..errors import SparkFault
from ..job import Job

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

FAULT = "fault"
"""The column that says why a row can't be in the table; null in rows that can."""
FORMATS = ("parquet", "delta", "iceberg")


class Table(Protocol):
    """One table of a job. Its batches are numbered as those of the streaming query. An object serves one run of a
    query; it is to be kept for all batches, for it remembers which one was the last."""

    place: str

    def append(self, rows: DataFrame, batch: int, measures: Mapping[str, Column]) -> dict[str, int] | None:
        """Writes the rows whose column `fault` is null, without that column (all, where there is no such column), as
        the batch of this number, and makes the table where there is none yet. New columns, and new fields of
        structures, are added to a table that has others. Gives what `measures` (aggregates, found on the way) are over
        *all* rows; None where the table has this batch already: then nothing is read or written. Raises `SparkFault`
        where the rows can't be in this table."""

    def schema(self) -> StructType | None:
        """The columns that the table has; None while there is no table."""


def taken(rows: DataFrame) -> DataFrame:
    """The rows that a table takes, as it takes them."""
    return rows.where(f"{FAULT} is null").drop(FAULT) if FAULT in rows.columns else rows


class Tables:
    """The tables of one run of a query, each made once."""

    def __init__(self) -> None:
        self._made: dict[str, Table] = {}

    def at(self, job: Job, spark: SparkSession, place: str) -> Table:
        """The table at a place, in the job's format. `spark` is the session of the batch."""
        if place not in self._made:
            self._made[place] = table(job, spark, place)
        return self._made[place]


def table(job: Job, spark: SparkSession, place: str) -> Table:
    """The table at a place, in the job's format. `spark` is the session of the batch."""
    match job.format:
        case "parquet":
            from .parquet import ParquetTable

            return ParquetTable(job, spark, place)
        case "delta":
            from .delta import DeltaTable

            return DeltaTable(job, spark, place)
        case "iceberg":
            from .iceberg import IcebergTable

            return IcebergTable(job, spark, place)
    raise SparkFault(f"no table format {job.format!r}: there are {', '.join(FORMATS)}")


def read(spark: SparkSession, format: str, place: str) -> DataFrame:
    """The rows of a table, with all columns and fields that it ever had. Raises `SparkFault` where there is none."""
    rows = None
    match format:
        case "parquet":
            from .parquet import read as read_parquet

            rows = read_parquet(spark, place)
        case "delta":
            from .delta import read as read_delta

            rows = read_delta(spark, place)
        case "iceberg":
            from .iceberg import read as read_iceberg

            rows = read_iceberg(spark, place)
        case _:
            raise SparkFault(f"no table format {format!r}: there are {', '.join(FORMATS)}")
    if rows is None:
        raise SparkFault(f"there is no {format} table at {place}")
    return rows
