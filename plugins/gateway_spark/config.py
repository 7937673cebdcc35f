"""Options of the sink `spark`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gateway_core.component import Config

Schema = Annotated[str, Field(min_length=1)]


class SparkSinkConfig(Config):
    """A table that a Spark Structured Streaming query fills from the broker's log: each event that the trigger's filter
    lets through is in it exactly once, whatever crashes. A `parquet` table is to be read with Spark, whose
    `_spark_metadata` log says which of the files count: other tools also see files of a batch that was cut short."""

    path: str
    """The table: a folder, relative to where the gateway was started, or a URI that Spark can write (`s3a://…`). One
    table belongs to one trigger. With `{type}` in it there is a table for each event type; what of the type can't be in
    a file's name is percent-encoded."""
    format: Literal["parquet", "delta", "iceberg"] = "parquet"
    """`delta` and `iceberg` fetch their jars when they first start, which takes the network."""
    data_schema: Schema | dict[str, Schema] | None = None
    """What JSON data looks like, as Spark DDL (`dest STRING, delay DOUBLE`) or `infer`: column `data` then is that
    structure, and the bytes are in `data_raw`. A map gives each event type its own (`"*"` for all others). Without it
    `data` holds the bytes. Events whose data does not fit go to the quarantine table."""
    json_schema: str | dict[str, str] | None = None
    """A file with a JSON Schema, in place of `data_schema`; a map gives each event type its own."""
    evolve: bool = True
    """Whether `infer` adds fields that come later to the table. Without it they are in `data_raw` only."""
    infer_sample: Annotated[int, Field(ge=1)] = 1000
    """How many events `infer` looks at before it takes the schema for complete; with `evolve` it looks at all."""
    columns: Annotated[list[str], Field(min_length=1)] | None = None
    """Which columns the table has; all where absent."""
    partition_by: list[str] = []
    """Columns by whose values the table is laid out in folders. `date` stands for the day (UTC) of the event's time, or
    of its arrival where it has none; `hour` for its hour."""
    cluster_by: list[str] = []
    """Columns by whose values rows that are alike lie together: Delta's liquid clustering, Iceberg's sort order; in a
    parquet table each file is sorted."""
    late_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """The watermark of `time`, in seconds: an event that arrives later than that after its time goes to the quarantine
    table. Without it none is late."""
    deduplicate_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Drops an event whose `source` and `id` were there within so many seconds before it, by the clock of the query.
    Without it the table has each event that the broker accepted."""
    quarantine: str | None = None
    """The table for events that can't be in their table, with the reason; `<path>_quarantine` where absent."""
    max_tables: Annotated[int, Field(ge=1)] = 100
    """The most tables that `{type}` may make; events of further types go to the quarantine table."""
    master: str = "local[2]"
    """Where Spark runs: `local[N]` for N threads on this machine, `spark://host:7077`, `yarn`, `k8s://…`, or
    `sc://host:15002` (Spark Connect)."""
    runs: Literal["gateway", "submitted"] = "gateway"
    """Who runs the query: this gateway, or `tidegate spark submit` on a cluster (then the gateway leaves it alone)."""
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
    ui: bool = True
    """Whether Spark's web interface runs, on loopback; its address is in `tidegate status`."""
    packages: dict[Literal["delta", "iceberg", "kafka"], list[str]] = {}
    """Other versions of Spark's connectors than the tested ones, as `organisation:name:revision`."""
    conf: dict[str, str] = {}
    """Other Spark settings, by their names (`spark.sql.parquet.compression.codec: zstd`)."""
    restart_delay_s: Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)] = 1.0
    """The wait before Spark is started again after a crash, in seconds; doubled for each crash that follows before a
    batch was written."""
    restart_delay_max_s: Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)] = 30.0
    """The longest wait before a restart, in seconds."""
    stop_timeout_s: Annotated[float, Field(ge=0, le=600, allow_inf_nan=False)] = 10.0
    """How long a stop waits for the batch under way, in seconds. What is cut short is written after the next start."""


def schemas(config: SparkSinkConfig) -> dict[str, str]:
    """Event type ("*" for all others) -> Spark DDL or "infer"."""
    if config.data_schema is None:
        return {}
    return config.data_schema if isinstance(config.data_schema, dict) else {"*": config.data_schema}
