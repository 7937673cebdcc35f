"""The newest rows of a table, read without Spark: a glance for people, not a query.

Which files count is in the table's own log: Spark's `_spark_metadata` (Parquet) or `_delta_log` (Delta Lake's
`PROTOCOL.md`, "Delta Log Entries"). Only the newest part of the log and few files are read, and only on this machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ..naming import QUARANTINE, TYPE, quarantine_of
from .owner import CATALOG, local_path
from .parquet import METADATA

_DELTA_LOG = "_delta_log"
_MOST_LOG_FILES = 50
_MOST_LOG_BYTES = 4 * 1024 * 1024
_MOST_FILES = 10
_MOST_GROUP_BYTES = 64 * 1024 * 1024
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
    if format not in ("parquet", "delta") or location.startswith(CATALOG):
        raise ValueError(f"a table of the format {format} can only be read with Spark")
    folder = local_path(location)
    if folder is None:
        raise ValueError("the table is not on this machine: read it with Spark, where it is")
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise ValueError("pyarrow is not installed: pip install 'tidegate[spark]'") from None
    files = _parquet_files(folder) if format == "parquet" else _delta_files(folder)
    found: list[Mapping[str, Any]] = []
    columns: dict[str, None] = {}
    read = 0
    try:
        for file in files:
            if len(found) >= most or read >= _MOST_FILES:
                break
            with parquet.ParquetFile(file) as opened:
                columns.update(dict.fromkeys(opened.schema_arrow.names))
                found += _last_rows(opened, most - len(found))
            read += 1
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as e:
        raise ValueError(f"the table can't be read: {(str(e) or type(e).__name__).splitlines()[0]}") from None
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
        if size > _MOST_GROUP_BYTES:
            raise ValueError(f"its newest part has {size // (1024 * 1024)} MiB: use Spark")
        group = opened.read_row_group(number)
        count = min(most - len(rows), group.num_rows)
        rows += reversed(group.slice(group.num_rows - count).to_pylist())
    return rows


def _parquet_files(folder: Path) -> Iterator[Path]:
    """The files that count by Spark's log, the newest first."""
    known: set[Path] = set()
    for log in _newest(folder / METADATA):
        for line in reversed(_lines(log)):
            if '"path"' not in line:  # the version
                continue
            entry = json.loads(line)
            path = local_path(unquote(entry["path"]))
            if entry.get("action") != "add" or path is None or path in known:
                continue
            known.add(path)
            yield path


def _delta_files(folder: Path) -> Iterator[Path]:
    """The files that count by the newest commits, the newest first."""
    removed: set[str] = set()
    for log in _newest(folder / _DELTA_LOG, ".json"):
        actions = [json.loads(line) for line in _lines(log) if line.strip()]
        removed.update(action["remove"]["path"] for action in actions if "remove" in action)
        for action in reversed(actions):
            add = action.get("add")
            if add is None or add["path"] in removed:
                continue
            if add.get("deletionVector"):
                raise ValueError("it has deletion vectors: use Spark")
            removed.add(add["path"])  # a later entry replaces an earlier one of the same file
            yield folder / unquote(add["path"])


def _newest(folder: Path, suffix: str = "") -> list[Path]:
    """The newest files of a log, whose names are numbers."""
    if not folder.is_dir():
        return []

    def number(path: Path) -> int:
        name = path.name.removesuffix(suffix).removesuffix(".compact")
        return int(name) if path.name.endswith(suffix) and name.isdecimal() else -1

    return sorted((p for p in folder.iterdir() if number(p) >= 0), key=number, reverse=True)[:_MOST_LOG_FILES]


def _lines(file: Path) -> list[str]:
    """The lines of a file; the last ones if it is large."""
    with file.open("rb") as opened:
        size = opened.seek(0, 2)
        opened.seek(max(0, size - _MOST_LOG_BYTES))
        lines = opened.read().decode("utf-8", "replace").splitlines()
    return lines if size <= _MOST_LOG_BYTES else lines[1:]
