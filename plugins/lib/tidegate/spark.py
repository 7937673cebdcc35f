"""Tidegate from PySpark: events as DataFrames, and DataFrames as events.

    from tidegate import spark as tide

    spark = tide.session()
    flights = tide.table(spark, "tables/flights")                     # what a Spark sink has written
    events = tide.events(spark, "tidegate-data/log/default")          # straight from a broker's log
    live = tide.stream(spark, "tidegate-data/log/default", data_schema="carrier STRING, dep_delay INT")

    alarms = tide.to_events(late, source="/alarms", type="flight.alarm", id="flight_id")
    alarms.write.format("tidegate").option("url", "http://127.0.0.1:8080/").mode("append").save()

The columns of events are those of the table (docs/howto/read-the-table.md). All of it needs `tidegate[spark]`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gateway_spark import register
from gateway_spark.query import session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["events", "from_kafka", "register", "session", "stream", "table", "to_events", "typed"]

FAULT = "fault"


def events(
    spark: SparkSession,
    location: str,
    *,
    data_schema: str | None = None,
    filter: Mapping[str, str] | None = None,
    filters: Sequence[Mapping[str, Any]] | None = None,
    **options: str | int,
) -> DataFrame:
    """The events in a broker's log now. `location` is its folder, `<data_dir>/log/<broker>`; `filter` and `filters` are
    as in a trigger; `options` are those of the data source, such as `startingOffsets`. `data_schema` is for `typed`."""
    frame = _source(spark, spark.read, location, filter, filters, options)
    return frame if data_schema is None else typed(frame, data_schema)


def stream(
    spark: SparkSession,
    location: str,
    *,
    data_schema: str | None = None,
    filter: Mapping[str, str] | None = None,
    filters: Sequence[Mapping[str, Any]] | None = None,
    **options: str | int,
) -> DataFrame:
    """As `events`, for a streaming DataFrame: what is in the log, then what comes."""
    frame = _source(spark, spark.readStream, location, filter, filters, options)
    return frame if data_schema is None else typed(frame, data_schema)


def from_kafka(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    *,
    streaming: bool = False,
    data_schema: str | None = None,
    **options: str | int,
) -> DataFrame:
    """The CloudEvents of a Kafka topic, by Spark's own Kafka source: all that are there now, or a stream of them.
    `bootstrap` is HOST:PORT, `topic` is `tidegate.<broker>` for a channel; `options` are those of Spark's source, such
    as `startingOffsets`. `fault` says why a record is no event, and is null for events: its other columns then hold
    what there is. The session needs the connector: `session(kafka=True)`."""
    from gateway_spark.readers.kafka import AnyRows

    reader = spark.readStream if streaming else spark.read
    chosen = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest", **options}
    frame = AnyRows().of(reader.format("kafka").options(**chosen).option("includeHeaders", "true").load())
    return frame if data_schema is None else typed(frame, data_schema)


def table(spark: SparkSession, path: str, format: str = "parquet") -> DataFrame:
    """The rows of a table that a Spark sink has written: "parquet", "delta" or "iceberg". Raises `SparkFault` where
    there is none."""
    from gateway_spark.tables import read

    return read(spark, format, path)


def typed(events: DataFrame, data_schema: str) -> DataFrame:
    """Events, of a batch or a stream, with their JSON data as a structure in `data`; the bytes are in `data_raw`.
    `data_schema` is Spark DDL, such as `carrier STRING, dep_delay INT`. `fault` says why data does not fit the schema,
    and is null where it does: a Spark sink would put such events into the quarantine table. Raises `ValueError` where
    the DDL is none."""
    from gateway_spark.data.types import parse
    from gateway_spark.job import Job
    from gateway_spark.rows import shaped
    from pyspark.sql import functions as f

    checked = events if FAULT in events.columns else events.withColumn(FAULT, f.lit(None).cast("string"))
    return shaped(checked, Job({}, "", "", ""), parse(data_schema))


def to_events(
    df: DataFrame,
    source: str | Column,
    type: str | Column,
    *,
    id: str | Column | None = None,
    subject: str | Column | None = None,
    time: str | Column | None = None,
    data: Sequence[str] | None = None,
    extensions: Mapping[str, str | Column] | None = None,
) -> DataFrame:
    """A DataFrame of any columns as events, to be written with `format("tidegate")`.

    `source` and `type` are texts for all events, or columns. `id`, `subject`, `time` and `extensions` (by attribute)
    name columns, or are such. `data` names the columns that the JSON data has; without it all that are not named else.

    Ids should follow from the rows, so that an event that is sent twice is seen to be one. Without `id` each row gets a
    random one, which lasts as long as this DataFrame and its partitions: for a batch it does. Raises `ValueError` for a
    stream without `id`: a restart would give the same rows other ids."""
    from pyspark.sql import functions as f

    if id is None and df.isStreaming:
        raise ValueError("a stream of events needs `id`: the same rows must get the same ids after a restart")
    named = {
        "id": id,
        "subject": subject,
        "time": time,
        **{f"extensions.{n}": c for n, c in (extensions or {}).items()},
    }
    used = {column for column in named.values() if isinstance(column, str)}
    columns = {
        "id": f.expr("uuid()") if id is None else _column(id).cast("string"),
        "source": f.lit(source) if isinstance(source, str) else source,
        "type": f.lit(type) if isinstance(type, str) else type,
    }
    if subject is not None:
        columns["subject"] = _column(subject).cast("string")
    if time is not None:
        columns["time"] = _column(time)
    if extensions:
        pairs = [c for name, of in extensions.items() for c in (f.lit(name), _column(of).cast("string"))]
        columns["extensions"] = f.create_map(*pairs)
    body = list(data) if data is not None else [c for c in df.columns if c not in used]
    if body:
        columns["datacontenttype"] = f.lit("application/json")
        columns["data"] = f.struct(*[df[c] for c in body])
    return df.select(*[column.alias(name) for name, column in columns.items()])


def _column(of: str | Column) -> Column:
    from pyspark.sql import functions as f

    return f.col(of) if isinstance(of, str) else of


def _source(
    spark: SparkSession,
    reader: Any,
    location: str,
    filter: Mapping[str, str] | None,
    filters: Sequence[Mapping[str, Any]] | None,
    options: Mapping[str, str | int],
) -> DataFrame:
    register(spark)
    chosen = {"location": location, **options}
    if filter is not None:
        chosen["attributes"] = json.dumps(dict(filter))
    if filters is not None:
        chosen["filters"] = json.dumps(list(filters))
    frame: DataFrame = reader.format("tidegate").options(**chosen).load()
    return frame
