"""What all table formats have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from ..errors import SparkFault

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from .mark import Extent, Mark, Owner

FAULT = "fault"
"""The column that says why a row can't be in the table; null otherwise."""


class WriteMode(Enum):
    """How a batch changes a table."""

    APPEND = "append"
    """Its rows are added."""


class Table(Protocol):
    """One table of a job. Its batches are numbered like those of the streaming query. An object serves one run of a
    query and must be kept for all its batches, since it remembers the last one."""

    location: str

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
        """Writes the rows whose column `fault` is null, without that column (all rows, if there is none), as the batch
        of this number, in this mode; `keys` are the columns that identify a row, for modes that need them. Creates the
        table if necessary. Adds new columns, and new fields of structures, to an existing table. Returns the values of
        `measures` (aggregates, computed on the way) over *all* rows; or None if the table already has this batch: then
        nothing is read or written. Raises `SparkFault` if the rows don't fit this table, it belongs to another query
        than the mark's, or it can't be written in this mode.
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


def must_append(mode: WriteMode, keys: Sequence[str], location: str) -> None:
    """For tables that can only append. Raises `SparkFault`."""
    if mode is not WriteMode.APPEND:
        raise SparkFault(
            f"the table {location} can't be written in the mode {mode.value}: use {WriteMode.APPEND.value}"
        )
    if keys:
        raise SparkFault(f"rows are appended to {location}, which needs no keys: leave out {', '.join(keys)}")


def taken(rows: DataFrame) -> DataFrame:
    """The rows that a table stores, in its form."""
    return rows.where(f"{FAULT} is null").drop(FAULT) if FAULT in rows.columns else rows
