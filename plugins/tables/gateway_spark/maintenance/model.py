"""Maintenance of tables: the types that all table formats share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

ReportStep = Callable[[str], None]
"""Called after each step."""
SIZES = ("<1M", "<16M", "<128M", ">=128M")
_BOUNDS = (1 << 20, 1 << 24, 1 << 27)


@dataclass(frozen=True)
class TableRef:
    """A table to maintain. `checkpoint` is the checkpoint of the query that writes it, if known; `cluster_by` are the
    columns by which rows are sorted when files are merged."""

    path: str
    format: str
    checkpoint: str = ""
    cluster_by: Sequence[str] = ()


@dataclass(frozen=True)
class TableStats:
    """The size of a table. `sizes` counts files by their bytes (`SIZES`)."""

    table: str
    format: str
    rows: int
    files: int
    bytes: int
    sizes: dict[str, int]


@dataclass(frozen=True)
class MaintenanceResult:
    """The changes to a table, made or planned. `files_removed` and `files_added` count data files of the current table:
    Delta keeps the old ones for a week for readers of older versions, Iceberg for five days."""

    table: str
    format: str
    files_removed: int = 0
    files_added: int = 0
    rows_deleted: int = 0
    dry_run: bool = False


@dataclass(frozen=True)
class MaintenanceRequest:
    """Merges files smaller than `target_bytes`; or, if `column` is given, deletes rows whose value in it is before
    `before`."""

    target_bytes: int = 128 << 20
    column: str = ""
    before: datetime | None = None
    dry_run: bool = False
    report: ReportStep = field(default=lambda step: None)


class TableMaintenance(Protocol):
    """Maintenance of a table of one format. All methods raise `SparkFault` if they can't do it."""

    def found(self) -> TableStats | None:
        """The current table, or None if there is none."""

    def compact(self, request: MaintenanceRequest) -> MaintenanceResult:
        """Merges small files."""

    def retain(self, request: MaintenanceRequest) -> MaintenanceResult:
        """Deletes old rows."""


def histogram(sizes: Sequence[int]) -> dict[str, int]:
    """The number of files of each size."""
    counts = dict.fromkeys(SIZES, 0)
    for size in sizes:
        counts[SIZES[sum(size >= bound for bound in _BOUNDS)]] += 1
    return counts
