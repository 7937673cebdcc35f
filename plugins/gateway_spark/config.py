"""Options of the sink `spark`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from gateway_core.component import Config

from .connect import fault, is_remote
from .connectors import missing
from .data import json_schema
from .data import types as data_types
from .data.schemas import ALL, INFER
from .naming import TYPE
from .rows import DAY, HOUR, RAW
from .source.schema import DDL
from .tables.owner import CATALOG, place_of

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
    """A table that a Spark Structured Streaming query fills from the broker's log: each event that the trigger's filter
    lets through is in it exactly once, whatever crashes. A `parquet` table is to be read with Spark, whose
    `_spark_metadata` log says which of the files count: other tools also see files of a batch that was cut short."""

    path: str
    """The table: a folder, relative to where the gateway was started, a URI that Spark can write (`s3a://…`), or the
    name of an Iceberg table in a catalog that `conf` sets (`lake.flights.departures`). One table belongs to one
    trigger. With `{type}` in it there is a table for each event type; what of the type can't be in a file's name is
    percent-encoded."""
    format: Literal["parquet", "delta", "iceberg"] = "parquet"
    """`delta` and `iceberg` fetch their jars when they first start, which takes the network. `iceberg` needs PySpark
    4.1: there is no connector for Spark 4.2 yet."""
    data_schema: Annotated[Names, AfterValidator(_schemas_are)] = None
    """What JSON data looks like, as Spark DDL (`dest STRING, delay DOUBLE NOT NULL`) or `infer`: column `data` then is
    that structure, and the bytes are in `data_raw`. With `{type}` in the path a map gives each event type its own
    (`"*"` for all others). Without it `data` holds the bytes. Events whose data does not fit go to the quarantine
    table."""
    json_schema: Annotated[Names, AfterValidator(_files_are)] = None
    """A file with a JSON Schema, in place of `data_schema`; a map gives event types their own. It is read when the
    gateway starts."""
    evolve: bool = True
    """Whether `infer` adds fields that come later to the table. Without it they are in `data_raw` only."""
    infer_sample: Annotated[int, Field(ge=1)] = 1000
    """How many events with JSON objects `infer` looks at, at least, before it takes the schema for complete; with
    `evolve` it looks at all."""
    columns: Annotated[list[str], Field(min_length=1)] | None = None
    """Which columns the table has, of those of a log (see the data source), `data_raw`, `date` and `hour`; all of the
    log's where absent."""
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
    """Drops an event whose `source` and `id` were there within so many seconds before it, by the times at which the
    query's batches began; Spark remembers them for so long. Without it the table has each event that the broker
    accepted. It can't be set or taken away once a table was begun."""
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
    fail_on_data_loss: bool = True
    """What happens where Kafka has deleted events that were not read yet: an error that holds the table back until
    somebody has seen it, or (false) the query goes on with what is there."""
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

    @model_validator(mode="after")
    def _fits_together(self) -> SparkSinkConfig:
        by_type = TYPE in self.path
        if not by_type and TYPE in (self.quarantine or ""):
            raise ValueError(f"`quarantine` has {TYPE} but `path` has not")
        if self.quarantine == self.path:
            raise ValueError("`quarantine` is the table itself")
        if is_remote(self.master):
            _check_remote(self)
        elif self.format not in self.packages and (why := missing(self.format)):
            raise ValueError(why)
        if by_type and place_of(self.path, self.format, self.conf).startswith(CATALOG):
            raise ValueError(f"a table's name in a catalog can't have {TYPE}: name a folder")
        for event_type in schemas(self):
            if event_type != ALL and not by_type:
                raise ValueError(
                    f"a schema for the type {event_type} needs a table for each type: put {TYPE} into `path`"
                )
        made = [*COLUMNS, RAW, DAY, HOUR]
        for option, names in (("columns", self.columns or []), ("partition_by", self.partition_by)):
            for name in names:
                if name not in made:
                    raise ValueError(f"`{option}`: there is no column {name!r}: choose of {', '.join(made)}")
        if RAW in (self.columns or []) and not schemas(self):
            raise ValueError("`columns`: without a schema for the data there is no data_raw: it is `data`")
        return self


def _check_remote(config: SparkSinkConfig) -> None:
    if config.runs == "submitted":
        raise ValueError("nothing is submitted to a Spark Connect server: leave `runs` out")
    others = {"`deduplicate_s`": config.deduplicate_s is not None, "`cluster_by`": bool(config.cluster_by)}
    if found := fault(config.format, config.path, schemas(config), others):
        raise ValueError(found)


def schemas(config: SparkSinkConfig) -> dict[str, str]:
    """Event type ("*" for all others) -> Spark DDL or "infer". Raises `ValueError` where a file or a type is there
    twice, or a file can't be read any more."""
    given, files = _by_type(config.data_schema), _by_type(config.json_schema)
    if twice := sorted(given.keys() & files.keys()):
        of = "" if twice[0] == ALL else f" for {twice[0]}"
        raise ValueError(f"set either `data_schema` or `json_schema`{of}")
    return {**given, **{event_type: json_schema.ddl(path) for event_type, path in files.items()}}


def _by_type(option: Names) -> dict[str, str]:
    return {ALL: option} if isinstance(option, str) else (option or {})
