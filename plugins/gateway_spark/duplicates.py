"""Events that come twice: dropped on the stream, before its batches, by Spark's state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import SparkFault
from .tables import FAULT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .job import Job

_ARRIVED = "_arrived"
_ODD = "_odd"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CONF = {
    # keeps what it remembers outside of the JVM's heap, and writes what changed of it, not all
    _PROVIDER: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # else there is a batch without rows after each batch, only to forget what is old
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


def dropped(events: DataFrame, job: Job) -> DataFrame:
    """The stream without the events whose `source` and `id` were there within `deduplicate_s` seconds, by the start
    times of the batches, which Spark notes in its checkpoint: a batch that comes again drops the same events. No event
    is ever late for this. Rows that are no event are all kept."""
    from pyspark.sql import functions as f

    assert job.deduplicate_s is not None
    spark = events.sparkSession
    for name, value in CONF.items():
        if name not in job.conf:
            spark.conf.set(name, value)
    # Spark remembers a key until the watermark is the same delay past it again: half on each side
    delay_ms = max(1, round(job.deduplicate_s * 500))
    odd = f.when(
        f.col(FAULT).isNotNull() | f.col("source").isNull() | f.col("id").isNull(),
        f.concat_ws(":", "shard", "position"),
    )
    arrived = events.withColumn(_ARRIVED, f.current_timestamp()).withColumn(_ODD, odd)
    once = arrived.withWatermark(_ARRIVED, f"{delay_ms} milliseconds")
    return once.dropDuplicatesWithinWatermark(["source", "id", _ODD]).drop(_ARRIVED, _ODD)


def check(spark: object, job: Job) -> None:
    """Raises `SparkFault` where `deduplicate_s` was set or taken away since the checkpoint began: Spark can't go on."""
    files: dict[str, bool] = {}
    path_of = spark._jvm.org.apache.hadoop.fs.Path  # type: ignore[attr-defined]
    for name in ("offsets", "state"):
        path = path_of(job.checkpoint, name)
        conf = spark._jsparkSession.sessionState().newHadoopConf()  # type: ignore[attr-defined]
        files[name] = path.getFileSystem(conf).exists(path)
    if files["offsets"] and files["state"] != (job.deduplicate_s is not None):
        change = "taken away" if files["state"] else "set"
        raise SparkFault(
            f"deduplicate_s was {change} after the table was begun with the checkpoint {job.checkpoint}: put it back, "
            "or choose another path and checkpoint"
        )
