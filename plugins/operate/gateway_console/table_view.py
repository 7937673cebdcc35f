"""What the pages of tables show: the batches of a query, and rows of its tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Protocol, runtime_checkable

from gateway_api.roles import Role

from .config import HIDDEN, HideConfig
from .filters import short
from .sampler import Sample

MOST_CELL = 400
_DATA = ("data", "data_raw", "data_text", "key")
_REASON = "reason"
"""Why a row is in quarantine. It may quote the data."""


class Rows(Protocol):
    """Rows of a table, the newest first, from so many files."""

    @property
    def columns(self) -> Sequence[str]: ...

    @property
    def rows(self) -> Sequence[Mapping[str, Any]]: ...

    @property
    def files(self) -> int: ...


@runtime_checkable
class KeepsRows(Protocol):
    """A sink that reads the channel, and whose tables can be looked into without what fills them."""

    @property
    def format(self) -> str:
        """The format of its tables."""

    def tables(self) -> Mapping[str, str]:
        """Its tables: their locations by name. It blocks."""

    def newest_rows(self, table: str, most: int) -> Rows:
        """The newest rows of one. It blocks. Raises `ValueError` with the reason if they can't be read."""


class EventRow(Rows, Protocol):
    """The row of one event: in which table it is, and which batch wrote it, if that is known."""

    @property
    def table(self) -> str: ...

    @property
    def batch(self) -> int | None: ...


@runtime_checkable
class FindsRows(Protocol):
    """A sink that finds the row of an event in its tables."""

    def event_row(self, id: str, source: str, type: str) -> EventRow | None:
        """The row, None if it is not among the newest ones. It blocks. Raises `ValueError` with the reason if the
        tables can't be read."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a query that had rows. `at` is when it ended."""

    number: int
    at: str
    rows: int
    rows_per_s: float
    seconds: float | None


def batches(samples: Iterable[Sample], name: str) -> list[Batch]:
    """The batches of a trigger's query that the samples saw end, the newest first. Of several between two samples the
    last one is known, with the rows of all."""
    found: dict[int, Batch] = {}
    before: int | None = None
    for sample in samples:
        status = next((t for t in sample.status.triggers if t.name == name), None)
        if status is None or status.reader is None:
            continue
        details, rows = status.reader.details, status.reader.rows
        number, at = details.get("batch"), details.get("batch_at")
        if before is not None and number is not None and at and rows > before:
            speed, took = details.get("rows_per_s") or 0.0, details.get("batch_s")
            found[number] = Batch(number, at, rows - before, speed, took)
        before = rows
    return [found[number] for number in sorted(found, reverse=True)]


def parts(details: Mapping[str, Any]) -> list[tuple[str, float, float]]:
    """Where the time of the last batch went: the part, its seconds and its share of the longest."""
    known = {name: float(took) for name, took in (details.get("parts") or {}).items() if name != "triggerExecution"}
    longest = max(known.values(), default=0.0) or 1.0
    return [(name, took, took / longest) for name, took in sorted(known.items(), key=lambda part: -part[1])]


def cells(found: Rows, hides: HideConfig, role: Role | None) -> list[list[str]]:
    """The rows as text, cell by cell, without what is hidden from this role."""
    return [[_cell(name, row.get(name), hides, role) for name in found.columns] for row in found.rows]


def _cell(column: str, value: Any, hides: HideConfig, role: Role | None) -> str:
    if column in (*_DATA, _REASON) and hides.hides_data(role):
        return HIDDEN
    if hides.hides_attribute(column, role):
        return HIDDEN
    if column == "extensions" and value:
        value = {name: HIDDEN if hides.hides_attribute(name, role) else each for name, each in dict(value).items()}
    return short(_text(value), MOST_CELL)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value[:MOST_CELL].hex(" ")
    if isinstance(value, datetime | date):
        return str(value).removesuffix("+00:00")
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=_text)
