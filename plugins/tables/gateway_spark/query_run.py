"""Starts, follows and stops a streaming query: the same in the gateway's own process and in a submitted job. Needs only
PySpark."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from .source.offsets import of_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from .batch import Batches
    from .job import Job

POLL_S = 0.1
offsets = of_source
_PYTHON_ERROR = re.compile(r"^\s*((?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception|Refused|Fault)): (.+)", re.MULTILINE)


def start(spark: SparkSession, job: Job, batches: Batches) -> StreamingQuery:
    """Starts the job's query in a prepared session."""
    return writer(spark, job, batches).trigger(processingTime=f"{job.interval_ms} milliseconds").start()


def writer(spark: SparkSession, job: Job, batches: Batches) -> DataStreamWriter:
    """The job's query without its trigger."""
    made = batches.stream(spark).writeStream.foreachBatch(batches.write).queryName(job.name)
    return made.option("checkpointLocation", job.checkpoint)


class Counts(Protocol):
    """Counts that a query's own progress lacks; see `Batches`."""

    quarantined: int
    rows: dict[int, int]


class Progress:
    """The progress of a query, batch by batch."""

    def __init__(self, query: StreamingQuery, batches: Counts) -> None:
        self._query = query
        self._batches = batches
        self._seen = ""  # the start of the last reported batch
        self._number = -1

    def new(self) -> Iterator[dict[str, Any]]:
        """The facts of each batch that has ended since the last call, in order; see `facts`. A query without events
        reports an empty batch from time to time."""
        last = self._query.lastProgress
        if last is None or last.timestamp <= self._seen:
            return
        # Spark's full history is slow to get: used only if batches were shorter than the time between two calls
        skipped = last.batchId > self._number + 1
        found = self._query.recentProgress if skipped else [last]
        for progress in found:
            if progress.timestamp > self._seen and progress.sources:
                # a trigger without data has the number of the next batch
                self._seen, self._number = progress.timestamp, progress.batchId - (not progress.numInputRows)
                rows = self._batches.rows.get(progress.batchId)
                yield {**facts(json.loads(progress.json), rows), "quarantined": self._batches.quarantined}


def facts(progress: dict[str, Any], counted: int | None = None) -> dict[str, Any]:
    """The facts in a batch's progress, which Spark publishes after its commit. `counted` is the number of rows, if
    known: Spark counts rows again each time they are read.

    `batch` is its number, `rows` its rows, `rows_per_s` its speed, `batch_s` its duration and `parts` the duration of
    each part (seconds); `ends` is the next position of each shard or partition, `latest` the ends of the channel when
    the batch was planned; `state_rows` is the number of rows in the query's state (for duplicates), `late` the number
    that came too late for it.
    """
    source, states = progress["sources"][0], progress["stateOperators"]
    rows = source["numInputRows"] if counted is None else counted
    batch_s = progress["batchDuration"] / 1000
    return {
        "batch": progress["batchId"],
        "rows": rows,
        "rows_per_s": round(rows / max(batch_s, 0.001), 1),
        "batch_s": batch_s,
        "parts": {name: ms / 1000 for name, ms in progress["durationMs"].items()},
        "ends": offsets(source["endOffset"]),
        "latest": offsets(source["latestOffset"]),
        "state_rows": sum(s["numRowsTotal"] for s in states),
        "late": sum(s["numRowsDroppedByWatermark"] for s in states),
    }


def finish(query: StreamingQuery, wait_s: float) -> None:
    """Waits a limited time for the current batch, and stops the query."""
    end = time.monotonic() + wait_s
    last = query.lastProgress
    while query.status["isTriggerActive"] and time.monotonic() < end:
        now = query.lastProgress
        if now is not None and (last is None or now.timestamp != last.timestamp):
            break
        time.sleep(POLL_S / 2)
    query.stop()


def one_line(error: BaseException) -> str:
    """An error for people: its first line, and the Python error in a worker that caused it, if any."""
    text = str(error).strip() or type(error).__name__
    first = text.splitlines()[0].strip()
    causes = [f"{kind}: {said}" for kind, said in _PYTHON_ERROR.findall(text)]
    shown = f"{first} ({causes[-1]})" if causes and causes[-1] not in first else first
    return shown[:1000]
