"""Drops duplicate events on the stream, before its batches, with Spark's state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import SparkFault
from .tables.table import FAULT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .job import Job

_ARRIVED = "_arrived"
_ODD = "_odd"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CONF = {
    # keeps the state outside of the JVM's heap, and writes only changes
    _PROVIDER: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # else each batch is followed by an empty one that only removes old state
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


def dropped(events: DataFrame, job: Job) -> DataFrame:
    """The stream without events whose `source` and `id` occurred within `deduplicate_s` seconds before, by the start
    times of the batches. Spark records these in its checkpoint, so a repeated batch drops the same events. No event is
    ever late for this. Rows that are not events are all kept."""
    from pyspark.sql import functions as f

    assert job.deduplicate_s is not None
    spark = events.sparkSession
    for name, value in CONF.items():
        if name not in job.conf:
            spark.conf.set(name, value)
    # Spark keeps a key until the watermark has passed it by the delay: half of the time on each side
    delay_ms = max(1, round(job.deduplicate_s * 500))
    odd = f.when(
        f.col(FAULT).isNotNull() | f.col("source").isNull() | f.col("id").isNull(),
        f.concat_ws(":", "shard", "position"),
    )
    arrived = events.withColumn(_ARRIVED, f.current_timestamp()).withColumn(_ODD, odd)
    once = arrived.withWatermark(_ARRIVED, f"{delay_ms} milliseconds")
    return once.dropDuplicatesWithinWatermark(["source", "id", _ODD]).drop(_ARRIVED, _ODD)


def check(spark: object, job: Job) -> None:
    """Raises `SparkFault` if `deduplicate_s` was added or removed after the checkpoint was created: Spark can't
    continue then."""
    files: dict[str, bool] = {}
    path_of = spark._jvm.org.apache.hadoop.fs.Path  # type: ignore[attr-defined]
    for name in ("offsets", "state"):
        path = path_of(job.checkpoint, name)
        conf = spark._jsparkSession.sessionState().newHadoopConf()  # type: ignore[attr-defined]
        files[name] = path.getFileSystem(conf).exists(path)
    if files["offsets"] and files["state"] != (job.deduplicate_s is not None):
        change = "removed" if files["state"] else "added"
        raise SparkFault(
            f"deduplicate_s was {change} after the table was created with the checkpoint {job.checkpoint}: undo that, "
            "or choose another path and checkpoint"
        )
