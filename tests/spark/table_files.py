"""Tables read without Spark, by their own logs: what of their files counts, says `_spark_metadata` or `_delta_log`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq

Rows = list[dict[str, Any]]


def rows(table: Path, format: str, columns: list[str]) -> Rows:
    """The rows of a table without partitions; none where there is no table."""
    files = {"parquet": parquet_files, "delta": delta_files}[format](table)
    return [row for file in files for row in pq.ParquetFile(file).read(columns=columns).to_pylist()]


def parquet_files(table: Path) -> list[Path]:
    """The files that count in a table of Spark's file sink: those that a batch's metadata has added."""
    log = table / "_spark_metadata"
    if not log.is_dir():
        return []
    batches = {int(p.name.split(".")[0]): p for p in log.iterdir() if p.name[0].isdigit() and "." not in p.name}
    compact = {int(p.name.split(".")[0]): p for p in log.iterdir() if p.name.endswith(".compact") and p.name[0] != "."}
    last = max(compact, default=-1)  # has all that was before it
    logs = [*([compact[last]] if compact else []), *(batches[n] for n in sorted(batches) if n > last)]
    entries = [json.loads(line) for file in logs for line in file.read_text().splitlines()[1:]]
    assert {entry["action"] for entry in entries} <= {"add"}
    return [Path(unquote(urlsplit(entry["path"]).path)) for entry in entries]


def delta_files(table: Path) -> list[Path]:
    """The files that count in a Delta table: added by a commit and not removed by a later one."""
    found: dict[str, None] = {}
    for file in sorted((table / "_delta_log").glob("[0-9]*.json")):
        for line in file.read_text().splitlines():
            action = json.loads(line)
            if "add" in action:
                found[unquote(action["add"]["path"])] = None
            elif "remove" in action:
                found.pop(unquote(action["remove"]["path"]))
    return [table / path for path in found]
