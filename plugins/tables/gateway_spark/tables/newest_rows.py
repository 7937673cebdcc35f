"""The newest rows of a table, read without Spark: a glance for people, not a query. Only few files are read, and only
on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from glob import escape
from itertools import islice
from pathlib import Path
from typing import Any

from ..naming import QUARANTINE, TYPE, quarantine_of
from .owner import local_path
from .table_files import open_files

_MOST_FILES = 10
MOST_GROUP_BYTES = 64 * 1024 * 1024
_MOST_TABLES = 200
_ORDER = ("received", "position")


@dataclass(frozen=True, slots=True)
class NewestRows:
    """Rows by column, the newest first, and how many files they are from."""

    columns: list[str]
    rows: list[Mapping[str, Any]]
    files: int


def tables(location: str, quarantine: str) -> dict[str, str]:
    """The tables of a sink: their locations by name. Those per event type (`{type}`) are named as their folders."""
    rejected = quarantine_of(location, quarantine, TYPE)
    if TYPE not in location:
        return {"table": location, "quarantine": rejected}
    if local_path(location) is None:
        return {}
    found = {path.name: str(path) for each in (location, rejected) for path in _folders(each)}
    return dict(sorted(found.items())[:_MOST_TABLES])


def _folders(pattern: str) -> Iterator[Path]:
    before, _, after = pattern.partition(TYPE)
    folder, name = Path(before + "x").parent, (Path(before + "x").name.removesuffix("x"))
    if "/" in after or not folder.is_dir():
        return
    for path in folder.glob(f"{escape(name)}*{escape(after)}"):
        if path.is_dir() and (after or not path.name.endswith(QUARANTINE)):
            yield path


def newest(location: str, format: str, most: int) -> NewestRows:
    """Up to `most` rows of the files that were committed last. It blocks: call it in a thread. Raises `ValueError` with
    the reason if the table can't be read this way."""
    found: list[Mapping[str, Any]] = []
    columns: dict[str, None] = {}
    read = 0
    with open_files(location, format) as files:
        for opened, _ in islice(files, _MOST_FILES):
            columns.update(dict.fromkeys(opened.schema_arrow.names))
            found += _last_rows(opened, most - len(found))
            read += 1
            if len(found) >= most:
                break
    order = [name for name in _ORDER if name in columns]
    if order:
        found.sort(key=lambda row: [(row.get(name) is not None, row.get(name)) for name in order], reverse=True)
    return NewestRows(list(columns), found, read)


def _last_rows(opened: Any, most: int) -> list[Mapping[str, Any]]:
    """Up to `most` of the last rows of an open Parquet file, the last one first."""
    rows: list[Mapping[str, Any]] = []
    for number in reversed(range(opened.metadata.num_row_groups)):
        if len(rows) >= most:
            break
        size = opened.metadata.row_group(number).total_byte_size
        if size > MOST_GROUP_BYTES:
            raise ValueError(f"its newest part has {size // (1024 * 1024)} MiB: use Spark")
        group = opened.read_row_group(number)
        count = min(most - len(rows), group.num_rows)
        rows += reversed(group.slice(group.num_rows - count).to_pylist())
    return rows
