"""Tables through Spark Connect (`master: sc://HOST:PORT`). The server has none of our Python code, so Spark's own sinks
write: one query fills the table, another one the quarantine table. Each has a checkpoint and takes each batch once."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .data import types as data_types
from .errors import SparkFault
from .job import KAFKA, Job
from .naming import TYPE, quarantine_of
from .query_run import POLL_S
from .readers import events
from .rows import rejected, shaped
from .tables.table import FAULT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SCHEME = "sc://"
FORMATS = ("delta", "parquet")
ALL = "*"


def is_remote(master: str) -> bool:
    """Whether a master is a Spark Connect server."""
    return master.startswith(SCHEME)


def fault(format: str, table: str, schemas: Mapping[str, str], others: Mapping[str, bool]) -> str:
    """Why a table can't be filled through Spark Connect, or "". `others` maps further unsupported options to whether
    they are set."""
    cant = [name for name, is_set in others.items() if is_set]
    if format not in FORMATS:
        cant.append(f"`format: {format}`")
    if TYPE in table:
        cant.append(f"`{TYPE}` in `path`")
    if any(name != ALL or ddl == "infer" for name, ddl in schemas.items()):
        cant.append("a `data_schema` that is inferred or by type")
    if not cant:
        return ""
    return (
        f"Spark Connect does not support {', '.join(cant)}: it needs our code in Spark's driver, which the server does "
        "not have; remove it, or name another `master` (spark://…, yarn, k8s://…)"
    )


def check(job: Job) -> None:
    """Raises `SparkFault` if this job can't run through Spark Connect."""
    others = {"`deduplicate_s`": job.deduplicate_s is not None, "`cluster_by`": bool(job.cluster_by)}
    if job.channel != KAFKA:
        raise SparkFault(
            "a Spark Connect server can't read the log on this machine: use the channel kafka for the broker, or name "
            "another `master`"
        )
    if found := fault(job.format, job.table, job.data_schema, others):
        raise SparkFault(found)


def session(job: Job) -> SparkSession:
    """A session on the server. Raises `SparkFault` if the client library is missing or the server does not answer."""
    from pyspark.sql import SparkSession

    try:
        builder = SparkSession.builder.remote(job.master)
        for name, value in {"spark.sql.session.timeZone": "UTC", **job.conf}.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()
    except ImportError as e:
        raise SparkFault(f"Spark Connect needs an extra of PySpark: install pyspark[connect] ({e})") from e
    except Exception as e:
        raise SparkFault(f"no Spark Connect server answers at {job.master}: {str(e).splitlines()[0]}") from e


@dataclass
class QueryPair:
    """The two queries of a job; `quarantined` and `rows` are as in `Batches`."""

    main: StreamingQuery
    quarantine: StreamingQuery
    quarantined: int = 0
    rows: dict[int, int] = field(default_factory=dict)
    _batch: int = -1

    def look(self) -> None:
        """Counts the rows of the quarantine table; raises the error of its query if it has ended."""
        if not self.quarantine.isActive and (error := self.quarantine.exception()) is not None:
            raise error
        last = self.quarantine.lastProgress
        if last is not None and last.batchId != self._batch and last.sink.numOutputRows > 0:
            self._batch = last.batchId
            self.quarantined += last.sink.numOutputRows

    def stop(self) -> None:
        """Stops both at once: an incomplete batch is written after the next start."""
        for query in (self.main, self.quarantine):
            query.stop()


def start(spark: SparkSession, job: Job) -> QueryPair:
    """Starts both queries. They keep running on the server after we are gone; the next start replaces them."""
    from pyspark.sql import functions as f

    check(job)
    job = _from_beginning(spark, job)
    ddl = job.data_schema.get(ALL)
    of = data_types.parse(ddl) if ddl else None
    source = events(job, spark)
    bad = rejected(source, job, of).drop(FAULT)
    location = quarantine_of(job.table, job.quarantine, "")
    quarantine = _started(bad, job, location, "_quarantine", [])
    # its checkpoint must record its start before the progress of the table moves the channel's offsets
    while quarantine.isActive and quarantine.lastProgress is None:
        time.sleep(POLL_S)
    good = shaped(source, job, of).where(f.col(FAULT).isNull()).drop(FAULT)
    return QueryPair(_started(good, job, job.table, "", job.partition_by), quarantine)


def _from_beginning(spark: SparkSession, job: Job) -> Job:
    """A job that fills a table that is not there from the beginning of the topic, if its trigger says so, wherever the
    group is; if there is a checkpoint, that decides all the same."""
    from pyspark.errors import AnalysisException

    given = job.options.get("startingOffsets", "")
    if not job.from_start or not given.startswith("{"):
        return job
    try:
        _ = spark.read.format(job.format).load(job.table).schema
    except AnalysisException:  # there is no table
        # -2 is Kafka's word for the beginning
        start = {topic: dict.fromkeys(parts, -2) for topic, parts in json.loads(given).items()}
        return replace(job, options={**job.options, "startingOffsets": json.dumps(start)})
    return job


def _started(rows: DataFrame, job: Job, location: str, suffix: str, partition_by: list[str]) -> StreamingQuery:
    writer = rows.writeStream.format(job.format).queryName(job.name + suffix).outputMode("append")
    writer = writer.option("checkpointLocation", job.checkpoint + suffix).option("path", location)
    if job.format == "delta":
        writer = writer.option("mergeSchema", "true")
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    return writer.trigger(processingTime=f"{job.interval_ms} milliseconds").start()
