"""A streaming query from its start to its end, and what it tells on the way: the same in the gateway's own process and
in a job that was submitted. Needs nothing but PySpark."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from .batch import Batches
    from .job import Job

POLL_S = 0.1
_PYTHON_ERROR = re.compile(r"^\s*((?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception|Refused|Fault)): (.+)", re.MULTILINE)


def start(spark: SparkSession, job: Job, batches: Batches) -> StreamingQuery:
    """Starts the job's query in a session that is ready for it."""
    return writer(spark, job, batches).trigger(processingTime=f"{job.interval_ms} milliseconds").start()


def writer(spark: SparkSession, job: Job, batches: Batches) -> DataStreamWriter:
    """The job's query but for its trigger."""
    made = batches.stream(spark).writeStream.foreachBatch(batches.write).queryName(job.name)
    return made.option("checkpointLocation", job.checkpoint)


class Counts(Protocol):
    """What a query's own progress does not tell; see `Batches`."""

    quarantined: int
    rows: dict[int, int]


class Progress:
    """What a query has done, batch by batch."""

    def __init__(self, query: StreamingQuery, batches: Counts) -> None:
        self._query = query
        self._batches = batches
        self._seen = ""  # when the last batch that was told began
        self._number = -1

    def new(self) -> Iterator[dict[str, Any]]:
        """The facts of each batch that has ended since the last call, in order; see `facts`. A query without events has
        one now and then, of no rows."""
        last = self._query.lastProgress
        if last is None or last.timestamp <= self._seen:
            return
        # all that Spark remembers is slow to get: only where batches were shorter than the time between two calls
        skipped = last.batchId > self._number + 1
        found = self._query.recentProgress if skipped else [last]
        for progress in found:
            if progress.timestamp > self._seen and progress.sources:
                # a trigger that found nothing bears the number of the batch to come
                self._seen, self._number = progress.timestamp, progress.batchId - (not progress.numInputRows)
                rows = self._batches.rows.get(progress.batchId)
                yield {**facts(json.loads(progress.json), rows), "quarantined": self._batches.quarantined}


def facts(progress: dict[str, Any], counted: int | None = None) -> dict[str, Any]:
    """What a batch's progress says. Spark makes it known after the commit of the batch. `counted` are its rows, where
    that is known: Spark counts them again each time they are read.

    `batch` is its number, `rows` how many came in, `rows_per_s` its speed, `batch_s` how long it took and `parts` how
    long each part of that (seconds); `ends` is the next position of each shard or partition, `latest` where the
    channel's ended when the batch was planned; `state_rows` how many rows the query remembers (for duplicates),
    `late` how many came too late for it."""
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


def offsets(found: Any) -> dict[str, int]:
    """{"shard or partition": position} of what a source gives: Kafka's are by topic, and a job has one. Empty where
    there is none."""
    value = json.loads(found) if isinstance(found, str) else found
    if not isinstance(value, dict):
        return {}
    if any(isinstance(v, int) for v in value.values()):
        return {s: p for s, p in value.items() if isinstance(p, int)}  # a log's: beside them are its epochs
    inner = [v for name, v in value.items() if isinstance(v, dict)]
    return inner[0] if inner else {}


def finish(query: StreamingQuery, wait_s: float) -> None:
    """Lets the batch under way end, for a while, and stops the query."""
    end = time.monotonic() + wait_s
    last = query.lastProgress
    while query.status["isTriggerActive"] and time.monotonic() < end:
        now = query.lastProgress
        if now is not None and (last is None or now.timestamp != last.timestamp):
            break
        time.sleep(POLL_S / 2)
    query.stop()


def one_line(error: BaseException) -> str:
    """An error for people: its first line, and the Python error in a worker that caused it where there is one."""
    text = str(error).strip() or type(error).__name__
    first = text.splitlines()[0].strip()
    causes = [f"{kind}: {said}" for kind, said in _PYTHON_ERROR.findall(text)]
    shown = f"{first} ({causes[-1]})" if causes and causes[-1] not in first else first
    return shown[:1000]
