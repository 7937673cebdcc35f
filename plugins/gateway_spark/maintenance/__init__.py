"""Care for tables: small files merged, old rows deleted, what is there shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from ..errors import SparkFault

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Say = Callable[[str], None]
"""Is told of each step, once it is done."""
SIZES = ("<1M", "<16M", "<128M", ">=128M")
_BOUNDS = (1 << 20, 1 << 24, 1 << 27)


@dataclass(frozen=True)
class Place:
    """A table to be cared for. `checkpoint` is that of the query which writes it, where it is known; `cluster_by`
    are the columns that rows are sorted by when files are merged."""

    path: str
    format: str
    checkpoint: str = ""
    cluster_by: Sequence[str] = ()


@dataclass(frozen=True)
class Found:
    """A table as it is. `sizes` counts files by their bytes (`SIZES`)."""

    table: str
    format: str
    rows: int
    files: int
    bytes: int
    sizes: dict[str, int]


@dataclass(frozen=True)
class Done:
    """What was done to a table, or would be. `files_removed` and `files_added` count data files of the table as it is
    seen now: Delta keeps the old ones for readers of older versions for a week, Iceberg for five days."""

    table: str
    format: str
    files_removed: int = 0
    files_added: int = 0
    rows_deleted: int = 0
    dry_run: bool = False


@dataclass(frozen=True)
class Wish:
    """What is to be done: files smaller than `target_bytes` are merged; or, where `column` is given, rows in which it
    is before `before` are deleted."""

    target_bytes: int = 128 << 20
    column: str = ""
    before: datetime | None = None
    dry_run: bool = False
    say: Say = field(default=lambda step: None)


class Care(Protocol):
    """What is done to a table of one format. All raise `SparkFault` where it can't be done."""

    def found(self) -> Found | None:
        """The table as it is; None where there is none."""

    def compact(self, wish: Wish) -> Done:
        """Merges small files."""

    def retain(self, wish: Wish) -> Done:
        """Deletes old rows."""


def care(spark: SparkSession, place: Place) -> Care:
    """What can be done to a table."""
    match place.format:
        case "parquet":
            from .parquet import ParquetCare

            return ParquetCare(spark, place)
        case "delta":
            from .delta import DeltaCare

            return DeltaCare(spark, place)
        case "iceberg":
            from .iceberg import IcebergCare

            return IcebergCare(spark, place)
    raise SparkFault(f"no table format {place.format!r}")


def histogram(sizes: Sequence[int]) -> dict[str, int]:
    """How many files there are of each size."""
    counts = dict.fromkeys(SIZES, 0)
    for size in sizes:
        counts[SIZES[sum(size >= bound for bound in _BOUNDS)]] += 1
    return counts
