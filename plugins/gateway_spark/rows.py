"""The rows of a table: made of events, and judged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .errors import SparkFault
from .job import Job
from .tables import FAULT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DAY = "date"  # the derived column that `partition_by` may name


def local_path(place: str) -> Path | None:
    """The path of a place on this machine; None for any other URI."""
    if place.startswith("file:"):
        return Path("/" + place.removeprefix("file:").lstrip("/"))
    return None if "://" in place else Path(place)


def shaped(events: DataFrame, job: Job) -> DataFrame:
    """The table's rows from events, with the column `fault` behind: null where the row can be in the table."""
    from pyspark.sql import functions as f

    schema = job.data_schema.get("*")
    if schema:
        # `data` stays where it was among the columns, with what was there right behind
        typed = f.from_json(f.col("data_text"), schema).alias("data")
        columns = [[typed, f.col("data").alias("data_raw")] if c == "data" else [f.col(c)] for c in events.columns]
        events = events.select([c for pair in columns for c in pair])
    if DAY in job.partition_by or DAY in (job.columns or ()):
        events = events.withColumn(DAY, f.to_date(f.coalesce(f.col("time"), f.col("received"))))
    if job.columns:
        events = events.select(*dict.fromkeys([*job.columns, *job.partition_by, FAULT]))
    return events


def check_owner(job: Job) -> None:
    """Raises `SparkFault` where table and checkpoint don't belong together: Spark numbers its batches, and would take
    the batches of a new checkpoint for ones that an old table already has, and lose them."""
    table, checkpoint = local_path(job.table), local_path(job.checkpoint)
    if job.format != "parquet" or table is None or checkpoint is None:
        return  # Delta remembers the query beside the batch; remote places are the user's to look after
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
