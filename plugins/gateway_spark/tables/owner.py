"""Whether a table and a checkpoint belong together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ..errors import SparkFault
from ..job import Job


def local_path(place: str) -> Path | None:
    """The path of a place on this machine; None for any other URI."""
    if place.startswith("file:"):
        return Path("/" + place.removeprefix("file:").lstrip("/"))
    return None if "://" in place else Path(place)


CATALOG = "catalog://"
"""Stands before the name of a table that a catalog knows, in jobs."""


def catalog_of(path: str, is_set: Callable[[str], bool]) -> str:
    """The catalog in `catalog.schema.table`, "" where it is no such name; `is_set` says whether there is a setting."""
    name = path.partition(".")[0]
    return name if "/" not in path and path.count(".") > 1 and is_set(f"spark.sql.catalog.{name}") else ""


def place_of(path: str, format: str = "parquet", conf: Mapping[str, str] | None = None) -> str:
    """The place of what a user names: an absolute path, a URI, or the name of an Iceberg table in a catalog of the
    settings `conf`."""
    if format == "iceberg" and catalog_of(path, (conf or {}).__contains__):
        return CATALOG + path
    local = local_path(path)
    return path if local is None else str(local.expanduser().absolute())


def check_owner(job: Job) -> None:
    """Raises `SparkFault` where table and checkpoint don't belong together: Spark numbers its batches, and would take
    the batches of a new checkpoint for ones that an old table already has, and lose them. Tables per event type, and
    those of other formats, keep the query's id beside the number; remote places are the user's to look after."""
    table, checkpoint = local_path(job.table), local_path(job.checkpoint)
    if job.format != "parquet" or "{type}" in job.table or table is None or checkpoint is None:
        return
    written, planned = _last_batch(table / "_spark_metadata"), _last_batch(checkpoint / "offsets")
    if written > planned:
        raise SparkFault(
            f"the table {table} was written with another checkpoint than {checkpoint}: "
            "choose another path, or move the table away"
        )
    if written < 0 and _last_batch(checkpoint / "commits") >= 0:
        raise SparkFault(
            f"the table {table} is gone but its checkpoint {checkpoint} is there: bring the table back, or delete the "
            "checkpoint to fill a new table with what the log still has"
        )


def _last_batch(folder: Path) -> int:
    try:
        names = [p.name.removesuffix(".compact") for p in folder.iterdir()]
    except OSError:
        return -1
    return max((int(n) for n in names if n.isdigit()), default=-1)
