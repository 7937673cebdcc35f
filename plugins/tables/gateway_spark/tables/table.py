"""What all table formats have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from .mark import Extent, Mark, Owner

FAULT = "fault"
"""The column that says why a row can't be in the table; null otherwise."""


class Table(Protocol):
    """One table of a job. Its batches are numbered like those of the streaming query. An object serves one run of a
    query and must be kept for all its batches, since it remembers the last one."""

    location: str

    def append(
        self, rows: DataFrame, batch: int, measures: Mapping[str, Column], mark: Mark | None = None
    ) -> dict[str, int] | None:
        """Writes the rows whose column `fault` is null, without that column (all rows, if there is none), as the batch
        of this number; creates the table if necessary. Adds new columns, and new fields of structures, to an existing
        table. Returns the values of `measures` (aggregates, computed on the way) over *all* rows; or None if the table
        already has this batch: then nothing is read or written. Raises `SparkFault` if the rows don't fit this table,
        or it belongs to another query than the mark's.
        """

    def owner(self) -> Owner | None:
        """The owner that the table records; None if it does not exist, or no query or an earlier version wrote it."""

    def extent(self, query: str) -> Extent | None:
        """What the last batch of a query in this table covers; None if that is not recorded."""

    def writer(self, query: str, planned: int) -> str:
        """Which query has written batches here: `query` if it has (`planned` is its last planned batch), else another
        one, or "" if none has. For tables that record no owner."""

    def begin(self, query: str) -> None:
        """The next batch is the first one after those of other queries (`query` is ""), or the one after the last that
        an earlier version of this query wrote, which recorded less."""

    def schema(self) -> StructType | None:
        """The columns of the table, or None if it does not exist."""


def taken(rows: DataFrame) -> DataFrame:
    """The rows that a table stores, in its form."""
    return rows.where(f"{FAULT} is null").drop(FAULT) if FAULT in rows.columns else rows
