"""The reader for Kafka channels: Spark reads the topic, and SQL converts its CloudEvents to columns."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from ..job import Job
from ..tables.table import FAULT
from . import any_record
from .columns import ATTRIBUTES, declares_json, timestamp, trace_id
from .filters_sql import wanted
from .plain_record import PlainRecord

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

OURS = ("filters", "attributes")
"""The options that do not belong to Spark's source."""
NOT_PLAIN = "tidegate reads this batch again: it has a record that needs the general reader"
_SAMPLE = 1000
_RECORD = ("key", "partition", "offset", "timestamp")


def records(job: Job, spark: SparkSession) -> DataFrame:
    """The stream of the topic's records, from Spark's source."""
    options = {name: value for name, value in job.options.items() if name not in OURS}
    return spark.readStream.format("kafka").options(**options).option("includeHeaders", "true").load()


class AnyRows:
    """The columns of `schema.DDL`, and `fault`, for any records of Spark's Kafka source (with headers). `filters` and
    `attributes` are JSON, as in a job's options."""

    def __init__(self, filters: str = "", attributes: str = "") -> None:
        from pyspark.sql import functions as f

        plain = PlainRecord()
        # `other` is evaluated only for records that are not plain; in one step with what uses it there would be a copy
        # of it in each of those
        other = f.when(~plain.is_plain, any_record.columns(f.col("headers"), f.col("value")))
        self._read: list[Column | str] = [
            *_RECORD,
            "value",
            *(plain.attribute(name).alias(name) for name in ATTRIBUTES),
            plain.extensions.alias("extensions"),
            plain.moment.alias("moment"),
            plain.header_trace.alias("header_trace"),
            other.alias("other"),
        ]
        is_plain = f.col("other").isNull()

        def of_either(name: str) -> Column:
            plain = f.lit(None).cast("string") if name == FAULT else f.col(name)
            return f.when(is_plain, plain).otherwise(f.col("other")[name])

        self._merged: list[Column | str] = [
            *_RECORD,
            *(of_either(name).alias(name) for name in (*ATTRIBUTES, "extensions", FAULT)),
            f.when(is_plain, f.col("value")).otherwise(f.col("other.data")).alias("data"),
            f.coalesce(f.col("other.json"), f.lit(False)).alias("json"),
            f.when(is_plain, f.col("moment")).otherwise(timestamp(f.col("other.time"))).alias("moment"),
            "header_trace",
        ]
        self._conditions = [f.col(FAULT).isNotNull() | condition for condition in wanted(filters, attributes)]
        names = (*ATTRIBUTES, "extensions", FAULT, "data", "json", "moment", "header_trace")
        found = {name: f.col(name) for name in names}
        self._columns = _columns({**found, "extension_trace": f.col("extensions")["traceparent"]})

    def of(self, records: DataFrame) -> DataFrame:
        """The rows of these records."""
        merged = records.select(*self._read).select(*self._merged)
        for condition in self._conditions:
            merged = merged.where(condition)
        return merged.select(*self._columns)


class PlainRows:
    """The same rows as those of `AnyRows` if all records are plain. A record that is not makes Spark's job fail with
    the text `NOT_PLAIN` when its fault is evaluated. Everything is one step, which is planned in a third of the time.
    """

    def __init__(self, filters: str = "", attributes: str = "") -> None:
        from pyspark.sql import functions as f

        plain = PlainRecord()
        found = {
            **{name: plain.attribute(name) for name in ATTRIBUTES},
            "extensions": plain.extensions,
            FAULT: f.when(~plain.is_plain, f.raise_error(f.lit(NOT_PLAIN)).cast("string")),
            "data": f.col("value"),
            "json": f.lit(False),
            "moment": plain.moment,
            "header_trace": plain.header_trace,
            "extension_trace": plain.extension_trace,
        }
        conditions = wanted(filters, attributes, plain.attribute)
        # other records pass, and fail when their fault is evaluated
        self._conditions = (
            [f.when(plain.is_plain, reduce(and_, conditions)).otherwise(f.lit(True))] if conditions else []
        )
        self._columns = _columns(found)
        self._is_plain = plain.is_plain

    def of(self, records: DataFrame) -> DataFrame:
        """The rows of these records."""
        for condition in self._conditions:
            records = records.where(condition)
        return records.select(*self._columns)

    def may_be(self, records: DataFrame) -> bool:
        """Whether the first records are all plain."""
        # the limit comes last: for rows after a limit, Spark generates different code each time, and compiles it
        # each time
        return all(row[0] for row in records.select(self._is_plain).head(_SAMPLE))


def _columns(found: Mapping[str, Column]) -> list[Column]:
    from pyspark.sql import functions as f

    text = found["data"].cast("string")
    is_json = declares_json(found["datacontenttype"]) | found["json"]
    # a trace context with a space is invalid
    header = f.when(~found["header_trace"].contains(" "), found["header_trace"])
    # microseconds are what the column has
    kept = f.create_map(f.lit("time"), found["time"])
    lacking = found["moment"].isNull() | found["time"].rlike(r"\.[0-9]{6}[0-9]*[1-9]")
    finer = found["time"].isNotNull() & lacking & ~f.map_contains_key(found["extensions"], "time")
    made = {
        **found,
        "time": found["moment"],
        "extensions": f.when(finer, f.map_concat(found["extensions"], kept)).otherwise(found["extensions"]),
        "data_text": f.when(is_json & f.is_valid_utf8(text), text),
        "shard": f.col("partition"),
        "position": f.col("offset"),
        "received": f.when(f.col("timestamp") >= f.lit(0).cast("timestamp"), f.col("timestamp")),
        "trace_id": f.coalesce(trace_id(header), trace_id(found["extension_trace"])),
    }
    return [made.get(name, f.col(name)).alias(name) for name in COLUMNS]


COLUMNS = (
    *("specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema", "extensions"),
    *("data", "data_text", "key", "shard", "position", "received", "trace_id", FAULT),
)
