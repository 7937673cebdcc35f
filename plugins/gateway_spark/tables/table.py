"""What all table formats have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

FAULT = "fault"
"""The column that says why a row can't be in the table; null otherwise."""


class Table(Protocol):
    """One table of a job. Its batches are numbered like those of the streaming query. An object serves one run of a
    query and must be kept for all its batches, since it remembers the last one."""

    location: str

    def append(self, rows: DataFrame, batch: int, measures: Mapping[str, Column]) -> dict[str, int] | None:
        """Writes the rows whose column `fault` is null, without that column (all rows, if there is none), as the batch
        of this number; creates the table if necessary. Adds new columns, and new fields of structures, to an existing
        table. Returns the values of `measures` (aggregates, computed on the way) over *all* rows; or None if the table
        already has this batch: then nothing is read or written. Raises `SparkFault` if the rows don't fit this table.
        """

    def schema(self) -> StructType | None:
        """The columns of the table, or None if it does not exist."""


def taken(rows: DataFrame) -> DataFrame:
    """The rows that a table stores, in its form."""
    return rows.where(f"{FAULT} is null").drop(FAULT) if FAULT in rows.columns else rows
