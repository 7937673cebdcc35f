"""Options of the sink `spark`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from gateway_core.contract.component import Config

from .connect import fault, is_remote
from .connectors import missing
from .data import json_schema
from .data import types as data_types
from .data.schemas import ALL, INFER
from .naming import TYPE
from .rows import DAY, HOUR, RAW
from .source.schema import DDL
from .tables.owner import CATALOG, location_of

COLUMNS = [f["name"] for f in data_types.fields(data_types.parse(DDL))]


Names = str | dict[str, str] | None


def _schemas_are(option: Names) -> Names:
    _each(option, lambda text: None if text == INFER else data_types.parse(text))
    return option


def _files_are(option: Names) -> Names:
    _each(option, json_schema.load)
    return option


def _each(option: Names, check: Callable[[str], object]) -> None:
    for event_type, text in _by_type(option).items():
        try:
            check(text)
        except ValueError as e:
            raise ValueError(str(e) if event_type == ALL else f"{event_type}: {e}") from None


class SparkSinkConfig(Config):
    """Streams the broker's log into a table with a Spark Structured Streaming query: each event that matches the
    trigger's filter is in the table exactly once, even after crashes. Read a `parquet` table with Spark, whose
    `_spark_metadata` log lists the valid files: other tools also see files of incomplete batches."""

    reads_channel: ClassVar[bool] = True  # for channels that no sink can read, which say so in `tidegate check`

    path: str
    """The table: a folder (relative to the gateway's working directory), a URI that Spark can write (`s3a://…`), or the
    name of an Iceberg table in a catalog that `conf` defines (`lake.flights.departures`). A table belongs to one
    trigger. With `{type}` in the path, each event type has its own table; characters that file names can't have are
    percent-encoded."""
    format: Literal["parquet", "delta", "iceberg"] = "parquet"
    """`delta` and `iceberg` download their jars at the first start, which needs the network. `iceberg` needs PySpark
    4.1: there is no connector for Spark 4.2 yet."""
    data_schema: Annotated[Names, AfterValidator(_schemas_are)] = None
    """The structure of JSON data, as Spark DDL (`dest STRING, delay DOUBLE NOT NULL`) or `infer`: column `data` then
    has that structure, and the bytes are in `data_raw`. With `{type}` in the path, a map gives each event type its own
    schema (`"*"` for all others). Without a schema, `data` holds the bytes. Events whose data does not match go to the
    quarantine table."""
    json_schema: Annotated[Names, AfterValidator(_files_are)] = None
    """A file with a JSON Schema, in place of `data_schema`; a map gives event types their own. It is read when the
    gateway starts."""
    evolve: bool = True
    """Whether `infer` adds new fields to the table. If false, they are only in `data_raw`."""
    infer_sample: Annotated[int, Field(ge=1)] = 1000
    """The minimum number of events with JSON objects that `infer` examines before it considers the schema complete;
    with `evolve`, it examines all events."""
    columns: Annotated[list[str], Field(min_length=1)] | None = None
    """The columns of the table: those of a log (see the data source), `data_raw`, `date` and `hour`. By default all
    columns of the log."""
    partition_by: list[str] = []
    """Columns by whose values the table is divided into folders. `date` is the day (UTC) of the event's time, or of its
    arrival if it has no time; `hour` is the hour of that day."""
    cluster_by: list[str] = []
    """Columns by which similar rows are stored together: Delta's liquid clustering, Iceberg's sort order; each file of
    a parquet table is sorted."""
    late_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """The watermark of `time`, in seconds: an event that arrives later than this after its time goes to the quarantine
    table. Without it, no event is late."""
    deduplicate_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Drops an event if one with the same `source` and `id` was read within this many seconds before it, by the start
    times of the query's batches; Spark remembers the ids that long. Without it, the table has every event that the
    broker accepted. It can't be added or removed once the table exists."""
    quarantine: str | None = None
    """The table for rejected events, with the reason; by default `<path>_quarantine`."""
    max_tables: Annotated[int, Field(ge=1)] = 100
    """The most tables that `{type}` may create; events of further types go to the quarantine table."""
    master: str = "local[2]"
    """Where Spark runs: `local[N]` for N threads on this machine, `spark://host:7077`, `yarn`, `k8s://…`, or
    `sc://host:15002` (Spark Connect)."""
    runs: Literal["gateway", "submitted"] = "gateway"
    """What runs the query: this gateway, or `tidegate spark submit` on a cluster (then the gateway only watches it)."""
    trigger_interval_s: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = 0.5
    """The time between the starts of two micro-batches, in seconds; 0 for no pause. Each batch with events writes at
    least one file."""
    max_events_per_batch: Annotated[int, Field(ge=1)] = 200_000
    """The most events (before the filter) that one micro-batch reads from the log."""
    fail_on_data_loss: bool = True
    """What happens if Kafka has deleted events before they were read: the query stops with an error until an operator
    acts, or (false) it continues with the remaining events."""
    adopt: bool = False
    """Whether to take over a table that another query fills: after the trigger was renamed, the checkpoint was lost or
    the data directory has moved. The query then starts where the table ends, so that each event stays in it once.
    Without it, such a table stops the query, and status names both."""
    checkpoint: str | None = None
    """The folder of Spark's checkpoint, by default below the data directory. It belongs to the table and its quarantine
    table: delete all or none; with `start: earliest` they are then filled again. If only the checkpoint is lost,
    `adopt` continues the table."""
    driver_memory: Annotated[str, Field(pattern=r"^[1-9][0-9]*[kmgKMG]$")] = "1g"
    """The memory of Spark's JVM: `512m`, `2g`."""
    ui: bool = True
    """Whether Spark's web interface runs, on loopback; `tidegate status` shows its address."""
    packages: dict[Literal["delta", "iceberg", "kafka"], list[str]] = {}
    """Other versions of Spark's connectors than the tested ones, as `organisation:name:revision`."""
    conf: dict[str, str] = {}
    """Additional Spark settings, by name (`spark.sql.parquet.compression.codec: zstd`)."""
    restart_delay_s: Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)] = 1.0
    """The delay before Spark is restarted after a crash, in seconds; doubled with each further crash until a batch is
    written."""
    restart_delay_max_s: Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)] = 30.0
    """The maximum delay before a restart, in seconds."""
    stop_timeout_s: Annotated[float, Field(ge=0, le=600, allow_inf_nan=False)] = 10.0
    """How long a stop waits for the current batch, in seconds. An incomplete batch is written after the next start."""

    @model_validator(mode="after")
    def _fits_together(self) -> SparkSinkConfig:
        by_type = TYPE in self.path
        if not by_type and TYPE in (self.quarantine or ""):
            raise ValueError(f"`quarantine` contains {TYPE} but `path` does not")
        if self.quarantine == self.path:
            raise ValueError("`quarantine` must not be the table itself")
        if is_remote(self.master):
            _check_remote(self)
        elif self.format not in self.packages and (why := missing(self.format)):
            raise ValueError(why)
        if by_type and location_of(self.path, self.format, self.conf).startswith(CATALOG):
            raise ValueError(f"a table name in a catalog can't contain {TYPE}: use a folder")
        for event_type in schemas(self):
            if event_type != ALL and not by_type:
                raise ValueError(
                    f"a schema for the type {event_type} needs one table for each type: put {TYPE} in `path`"
                )
        made = [*COLUMNS, RAW, DAY, HOUR]
        for option, names in (("columns", self.columns or []), ("partition_by", self.partition_by)):
            for name in names:
                if name not in made:
                    raise ValueError(f"`{option}`: there is no column {name!r}: choose from {', '.join(made)}")
        if RAW in (self.columns or []) and not schemas(self):
            raise ValueError("`columns`: there is no data_raw without a schema for the data: use `data`")
        return self


def _check_remote(config: SparkSinkConfig) -> None:
    if config.runs == "submitted":
        raise ValueError("a query can't be submitted to a Spark Connect server: remove `runs`")
    others = {"`deduplicate_s`": config.deduplicate_s is not None, "`cluster_by`": bool(config.cluster_by)}
    if found := fault(config.format, config.path, schemas(config), others):
        raise ValueError(found)


def schemas(config: SparkSinkConfig) -> dict[str, str]:
    """Event type ("*" for all others) -> Spark DDL or "infer". Raises `ValueError` if a type has two schemas, or a file
    can no longer be read."""
    given, files = _by_type(config.data_schema), _by_type(config.json_schema)
    if twice := sorted(given.keys() & files.keys()):
        of = "" if twice[0] == ALL else f" for {twice[0]}"
        raise ValueError(f"set either `data_schema` or `json_schema`{of}")
    return {**given, **{event_type: json_schema.ddl(path) for event_type, path in files.items()}}


def _by_type(option: Names) -> dict[str, str]:
    return {ALL: option} if isinstance(option, str) else (option or {})
