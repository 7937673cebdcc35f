"""The log of Spark's file sink (`_spark_metadata`): reads it with Spark, and writes it in the same format.

Format (Spark's `CompactibleFileStreamLog`): a file for each batch number, with `v1` and then one line of JSON for each
file that the batch added. Every K-th one (numbers K-1, 2K-1, …) is called `<number>.compact` and has all lines since
the start. Readers use the last such file and those after it, which must all exist; they find K from the names of the
last two.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from ..tables.parquet import METADATA, last_number, metadata
from .exchange import exchange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEW = "_tidegate_metadata"
_VERSION = "v1"


@dataclass(frozen=True)
class DataFile:
    """A valid data file: a line of the log."""

    path: str
    size: int
    isDir: bool
    modificationTime: int
    blockReplication: int
    blockSize: int
    action: str = "add"

    @property
    def local(self) -> Path:
        return local_of(self.path)

    @classmethod
    def of(cls, file: Path) -> DataFile:
        """The line for a file on this machine."""
        stat = file.stat()
        return cls(file.as_uri(), stat.st_size, False, stat.st_mtime_ns // 1_000_000, 1, 32 << 20)


class SinkLog:
    """The log of one table on this machine."""

    def __init__(self, spark: SparkSession, table: Path) -> None:
        self._table = table
        log = metadata(spark, str(table))
        self.last = last_number(spark, str(table))
        self._interval = int(log.compactInterval()) if self.last >= 0 else 0
        entries = log.allFiles() if self.last >= 0 else []
        names = ("path", "size", "isDir", "modificationTime", "blockReplication", "blockSize", "action")
        self.files = [DataFile(**{n: getattr(e, n)() for n in names}) for e in entries]

    def prepare(self, files: Iterable[DataFile]) -> None:
        """Writes a new log beside it, which lists exactly these files and continues with the same number."""
        folder = self._table / NEW
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        lines = [json.dumps(asdict(f), separators=(",", ":")) for f in files]
        whole = (self.last + 1) // self._interval * self._interval - 1  # the last number with the complete list
        if whole < 0:
            _write(folder / "0", lines)
            whole = 0
        else:
            for number in (whole - self._interval, whole):  # two of them, so that readers find the interval
                if number > 0:
                    _write(folder / f"{number}.compact", lines)
        for number in range(whole + 1, self.last + 1):
            _write(folder / str(number), [])

    def replace(self) -> None:
        """Puts the prepared log in place atomically."""
        exchange(self._table / NEW, self._table / METADATA)

    def clean(self) -> int:
        """Deletes what is no longer valid: the other log, and data files that this one does not list, including those
        of interrupted batches and maintenance. Returns the number of data files. Nothing else may write meanwhile."""
        shutil.rmtree(self._table / NEW, ignore_errors=True)
        keep = {f.local for f in self.files}
        gone = [p for p in self._table.rglob("part-*.parquet") if p not in keep]
        for file in gone:
            file.unlink()
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        return len(gone)


def local_of(uri: str) -> Path:
    """The path that a `file:` URI stands for."""
    return Path(unquote(urlsplit(uri).path))


def _write(file: Path, lines: list[str]) -> None:
    file.write_text("\n".join([_VERSION, *lines]))
