"""Locations of tables, and whether a table and a checkpoint belong together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ..errors import SparkFault
from ..job import Job
from ..naming import TYPE

LOCK = "_tidegate.lock"
"""The lock in the folder of a Parquet table."""


def local_path(location: str) -> Path | None:
    """The path of a location on this machine, or None for any other URI."""
    if location.startswith("file:"):
        return Path("/" + location.removeprefix("file:").lstrip("/"))
    return None if "://" in location else Path(location)


def has_files(location: str) -> bool:
    """Whether a location on this machine has anything of a table."""
    folder = local_path(location)
    try:
        return folder is not None and any(entry.name != LOCK for entry in folder.iterdir())
    except OSError:
        return False


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
    if job.format != "parquet" or TYPE in job.table or job.adopt or table is None or checkpoint is None:
        return
    written, planned = _last_batch(table / "_spark_metadata"), _last_batch(checkpoint / "offsets")
    if written > planned and not (table / "_tidegate_batch").exists():
        raise SparkFault(
            f"the table {table} was not written with the checkpoint {checkpoint}: set `adopt: true` to continue it, "
            "choose another path, or move the table away"
        )
    if written < 0 and _last_batch(checkpoint / "commits") >= 0:
        raise missing(job, job.table)


def missing(job: Job, place: str) -> SparkFault:
    """The fault of a table that is not there, although its checkpoint has filled it."""
    rest = (
        "all tables of the trigger, quarantine too," if TYPE in job.table else "its quarantine table if there is one,"
    )
    return SparkFault(
        f"the table {place} is missing, but its checkpoint {job.checkpoint} exists: restore the table; or delete the "
        f"checkpoint and {rest} and set `start: earliest` in the trigger, to fill a new table with the events that the "
        "channel still has; or set `adopt: true` to begin a new table with the events after those that the checkpoint "
        "has"
    )


def _last_batch(folder: Path) -> int:
    try:
        names = [p.name.removesuffix(".compact") for p in folder.iterdir()]
    except OSError:
        return -1
    return max((int(n) for n in names if n.isdigit()), default=-1)
