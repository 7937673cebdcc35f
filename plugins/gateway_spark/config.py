"""Options of the sink `spark`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gateway_core.component import Config


class SparkSinkConfig(Config):
    """A table that a Spark Structured Streaming query fills from the broker's log: each event that the trigger's filter
    lets through is in it exactly once, whatever crashes. A `parquet` table is to be read with Spark, whose
    `_spark_metadata` log says which of the files count: other tools also see files of a batch that was cut short."""

    path: str
    """The table: a folder, relative to where the gateway was started, or a URI that Spark can write (`s3a://…`). One
    table belongs to one trigger."""
    format: Literal["parquet", "delta"] = "parquet"
    """`delta` fetches Delta Lake's jars when it first starts, which takes the network."""
    data_schema: Annotated[str, Field(min_length=1)] | None = None
    """What JSON data looks like, as Spark DDL (`dest STRING, delay DOUBLE`): column `data` then is that structure (null
    where the data is no such JSON), and the bytes are in `data_raw`. Without it `data` holds the bytes."""
    columns: Annotated[list[str], Field(min_length=1)] | None = None
    """Which columns the table has; all where absent."""
    partition_by: list[str] = []
    """Columns by whose values the table is laid out in folders. `date` stands for the day (UTC) of the event's time, or
    of its arrival where it has none."""
    master: str = "local[2]"
    """Where Spark runs: `local[N]` for N threads on this machine."""
    trigger_interval_s: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = 0.5
    """The pause between the starts of two micro-batches, in seconds; 0 for none. Each batch with events writes at least
    one file."""
    max_events_per_batch: Annotated[int, Field(ge=1)] = 200_000
    """The most events (before the filter) that one micro-batch takes from the log."""
    checkpoint: str | None = None
    """Where Spark keeps its position, by default below the data directory. It belongs to the table: delete both or
    none."""
    driver_memory: Annotated[str, Field(pattern=r"^[1-9][0-9]*[kmgKMG]$")] = "1g"
    """Memory of Spark's JVM: `512m`, `2g`."""
    conf: dict[str, str] = {}
    """Other Spark settings, by their names (`spark.sql.parquet.compression.codec: zstd`)."""
    restart_delay_s: Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)] = 1.0
    """The wait before Spark is started again after a crash, in seconds; doubled for each crash that follows before a
    batch was written."""
    restart_delay_max_s: Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)] = 30.0
    """The longest wait before a restart, in seconds."""
    stop_timeout_s: Annotated[float, Field(ge=0, le=600, allow_inf_nan=False)] = 10.0
    """How long a stop waits for the batch under way, in seconds. What is cut short is written after the next start."""
