"""Locations of tables, and whether a table and a checkpoint belong together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ..errors import SparkFault
from ..job import Job


def local_path(location: str) -> Path | None:
    """The path of a location on this machine, or None for any other URI."""
    if location.startswith("file:"):
        return Path("/" + location.removeprefix("file:").lstrip("/"))
    return None if "://" in location else Path(location)


CATALOG = "catalog://"
"""Precedes the name of a catalog table in jobs."""


def catalog_of(path: str, is_set: Callable[[str], bool]) -> str:
    """The catalog in `catalog.schema.table`, or ""; `is_set` says whether a setting exists."""
    name = path.partition(".")[0]
    return name if "/" not in path and path.count(".") > 1 and is_set(f"spark.sql.catalog.{name}") else ""


def location_of(path: str, format: str = "parquet", conf: Mapping[str, str] | None = None) -> str:
    """The location for a name from the user: an absolute path, a URI, or the name of an Iceberg table in a catalog of
    the settings `conf`."""
    if format == "iceberg" and catalog_of(path, (conf or {}).__contains__):
        return CATALOG + path
    local = local_path(path)
    return path if local is None else str(local.expanduser().absolute())


def check_owner(job: Job) -> None:
    """Raises `SparkFault` if a parquet table that an earlier version wrote does not belong to the checkpoint. That, and
    other tables, are checked once there is a Spark session (`claim`); this is soon, and costs no JVM."""
    table, checkpoint = local_path(job.table), local_path(job.checkpoint)
    if job.format != "parquet" or "{type}" in job.table or job.adopt or table is None or checkpoint is None:
        return
    written, planned = _last_batch(table / "_spark_metadata"), _last_batch(checkpoint / "offsets")
    if written > planned and not (table / "_tidegate_batch").exists():
        raise SparkFault(
            f"the table {table} was not written with the checkpoint {checkpoint}: set `adopt: true` to continue it, "
            "choose another path, or move the table away"
        )
    if written < 0 and _last_batch(checkpoint / "commits") >= 0:
        raise SparkFault(
            f"the table {table} is missing, but its checkpoint {checkpoint} exists: restore the table, or delete the "
            "checkpoint to fill a new table from the events that the log still has, or set `adopt: true` to begin a "
            "new table with the events from now on"
        )


def _last_batch(folder: Path) -> int:
    try:
        names = [p.name.removesuffix(".compact") for p in folder.iterdir()]
    except OSError:
        return -1
    return max((int(n) for n in names if n.isdigit()), default=-1)
