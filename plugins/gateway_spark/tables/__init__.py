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


class Table(Protocol):
    """One table of a job. Its batches are numbered as those of the streaming query."""

    place: str

    def append(self, rows: DataFrame, batch: int, measures: Mapping[str, Column]) -> dict[str, int] | None:
        """Writes the rows whose column `fault` is null, without that column, as the batch of this number, and makes the
        table where there is none yet. New columns, and new fields of structures, are added to a table that has others.
        Gives what `measures` (aggregates, found on the way) are over *all* rows; None where the table has this batch
        already: then nothing is read or written."""

    def schema(self) -> StructType | None:
        """The columns that the table has; None while there is no table."""


def table(job: Job, spark: SparkSession, place: str) -> Table:
    """The table at a place, in the job's format. `spark` is the session of the batch."""
    from .delta import DeltaTable
    from .parquet import ParquetTable

    match job.format:
        case "parquet":
            return ParquetTable(job, spark, place)
        case "delta":
            return DeltaTable(job, spark, place)
    raise SparkFault(f"no table format {job.format!r}")
