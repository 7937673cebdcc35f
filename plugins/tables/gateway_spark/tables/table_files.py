"""The files of a table that count, read from its own log without Spark: `_spark_metadata` (Parquet), or `_delta_log`
(Delta Lake's `PROTOCOL.md`, "Delta Log Entries"). Only the newest part of the log, and only on this machine."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from .owner import CATALOG, local_path
from .parquet import METADATA

_DELTA_LOG = "_delta_log"
_MOST_LOG_FILES = 50
_MOST_LOG_BYTES = 4 * 1024 * 1024


class TableFile(NamedTuple):
    """A file of a table, and the number of the batch that wrote it, None if the log no longer says that."""

    path: Path
    batch: int | None


@contextmanager
def open_files(location: str, format: str) -> Iterator[Iterator[tuple[Any, int | None]]]:
    """The files that count, the newest first, each as an open `ParquetFile` until the next one, with its batch as in
    `TableFile`. Raises `ValueError` with the reason if the table, or what is read inside, can't be read this way."""
    if format not in ("parquet", "delta") or location.startswith(CATALOG):
        raise ValueError(f"a table of the format {format} can only be read with Spark")
    folder = local_path(location)
    if folder is None:
        raise ValueError("the table is not on this machine: read it with Spark, where it is")
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise ValueError("pyarrow is not installed: pip install 'tidegate[spark]'") from None

    def opened() -> Generator[tuple[Any, int | None], None, None]:
        for file in _parquet_files(folder) if format == "parquet" else _delta_files(folder):
            with parquet.ParquetFile(file.path) as one:
                yield one, file.batch

    try:
        with closing(opened()) as files:
            yield files
    except (OSError, ValueError, KeyError, TypeError, ArrowException) as e:
        raise ValueError(f"the table can't be read: {(str(e) or type(e).__name__).splitlines()[0]}") from None


def _parquet_files(folder: Path) -> Iterator[TableFile]:
    known: set[Path] = set()
    for log in _newest(folder / METADATA):
        batch = None if log.suffix else int(log.name)  # a compacted file has those of many batches
        for line in reversed(_lines(log)):
            if '"path"' not in line:  # the version
                continue
            entry = json.loads(line)
            path = local_path(unquote(entry["path"]))
            if entry.get("action") != "add" or path is None or path in known:
                continue
            known.add(path)
            yield TableFile(path, batch)


def _delta_files(folder: Path) -> Iterator[TableFile]:
    removed: set[str] = set()
    for log in _newest(folder / _DELTA_LOG, ".json"):
        actions = [json.loads(line) for line in _lines(log) if line.strip()]
        removed.update(action["remove"]["path"] for action in actions if "remove" in action)
        batch = next((int(action["txn"]["version"]) for action in actions if "txn" in action), None)
        for action in reversed(actions):
            add = action.get("add")
            if add is None or add["path"] in removed:
                continue
            if add.get("deletionVector"):
                raise ValueError("it has deletion vectors: use Spark")
            removed.add(add["path"])  # a later entry replaces an earlier one of the same file
            yield TableFile(folder / unquote(add["path"]), batch)


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
