"""Converts events to the rows of a table, and finds their faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import duplicates
from .data import typed
from .data.schemas import Schemas
from .data.types import Type, fields, kind
from .job import Job
from .tables.table import FAULT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DAY = "date"  # the derived columns that `partition_by` and `columns` may name
HOUR = "hour"
REASON = "reason"
RAW = "data_raw"
_PARSED = "_parsed"


def stream(events: DataFrame, job: Job) -> DataFrame:
    """The stream before its batches: without duplicates, if configured. Raises `SparkFault` if the job does not fit the
    existing tables and checkpoint."""
    Schemas(events.sparkSession, job)
    duplicates.check(events.sparkSession, job)
    return events if job.deduplicate_s is None else duplicates.dropped(events, job)


def shaped(events: DataFrame, job: Job, of: Type | None = None) -> DataFrame:
    """The table's rows, followed by the column `fault`: null if the row can be in the table. `of` is the type of the
    data, or None if data are bytes."""
    rows = _with_faults(events, job, of)
    names = [n for n in events.columns if n != FAULT]
    columns = {n: rows[n] for n in names}
    if of is not None:
        # `data` stays where it was among the columns, with what was there right behind
        at = names.index("data")
        names[at : at + 1] = ["data", RAW] if _has_column(of) else [RAW]
        columns |= {"data": rows[_PARSED]["d"], RAW: rows["data"]}
    columns |= _derived(rows)
    wanted = job.columns or names
    if not (of is None or _has_column(of)):
        wanted = [n for n in wanted if n != "data"]
    chosen = dict.fromkeys([*wanted, *job.partition_by])
    return rows.select(*[columns[n].alias(n) for n in chosen], FAULT)


def known_good(rows: DataFrame) -> DataFrame:
    """Rows of `shaped` that are known to have no fault, without that column. The fault is evaluated in the first
    column, since that may raise: a filter would be a separate step, and evaluate it again."""
    from pyspark.sql import functions as f

    first, *others = [n for n in rows.columns if n != FAULT]
    return rows.select(f.when(rows[FAULT].isNull(), rows[first]).alias(first), *others)


def rejected(events: DataFrame, job: Job, of: Type | None = None) -> DataFrame:
    """The events that can't be in the table, unchanged, with the column `reason`."""
    from pyspark.sql import functions as f

    rows = _with_faults(events, job, of).where(f.col(FAULT).isNotNull())
    if of is not None:
        rows = rows.withColumn(FAULT, typed.reason(rows[_PARSED], rows["data_text"], rows[FAULT], of))
    return for_quarantine(rows.select(events.columns), rows[FAULT])


def for_quarantine(events: DataFrame, reason: Column) -> DataFrame:
    """These events as rows of a quarantine table."""
    from pyspark.sql import functions as f

    return events.withColumn(REASON, reason).withColumn(FAULT, f.lit(None).cast("string"))


def _has_column(of: Type) -> bool:
    """Whether there can be a column of this type: not before a field is known."""
    return kind(of) != "struct" or bool(fields(of))


def _with_faults(events: DataFrame, job: Job, of: Type | None) -> DataFrame:
    """The events with their faults and, if the data has a type, the parsed data."""
    from pyspark.sql import functions as f

    faults = [f.col(FAULT)]
    if job.late_s is not None:
        faults.append(_late(job.late_s))
    if of is not None:
        events = events.withColumn(_PARSED, typed.parsed(f.col("data_text"), of))
        faults.append(typed.fault(f.col(_PARSED), f.col("data_text"), f.col("data"), of))
    return events.withColumn(FAULT, f.coalesce(*faults)) if len(faults) > 1 else events


def _late(late_s: float) -> Column:
    """Why an event is late, or null; also null if one of its times is unknown."""
    from pyspark.sql import functions as f

    took_us = f.unix_micros("received") - f.unix_micros("time")
    words = f.lit(f"late: it arrived more than {late_s:g} s after its time")
    return f.when(took_us > round(late_s * 1e6), words)


def _derived(rows: DataFrame) -> dict[str, Column]:
    from pyspark.sql import functions as f

    when = f.coalesce(rows["time"], rows["received"])
    return {DAY: f.to_date(when), HOUR: f.hour(when)}
