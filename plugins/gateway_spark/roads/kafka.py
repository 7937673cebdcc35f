"""The road from a Kafka channel: Spark reads the topic, and SQL makes columns of the CloudEvents in it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from ..job import Job
from ..tables import FAULT
from . import any_record, plain_record
from .columns import ATTRIBUTES, declares_json, timestamp, trace_id
from .filters_sql import wanted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

OURS = ("filters", "attributes")
"""The options that are not those of Spark's source."""
NOT_PLAIN = "tidegate reads this batch once more: it has a record that the quick way does not take"
_SAMPLE = 1000
_PLACE = ("key", "partition", "offset", "timestamp")


def records(job: Job, spark: SparkSession) -> DataFrame:
    """The stream of the topic's records, as Spark's source gives them."""
    options = {name: value for name, value in job.options.items() if name not in OURS}
    return spark.readStream.format("kafka").options(**options).option("includeHeaders", "true").load()


def rows(records: DataFrame, filters: str = "", attributes: str = "") -> DataFrame:
    """The columns of `schema.DDL`, and `fault`, of records as Spark's Kafka source gives them (with headers). `filters`
    and `attributes` are JSON, as in a job's options."""
    from pyspark.sql import functions as f

    # `other` is evaluated only for records that are not plain; in one step with what uses it there would be a copy of
    # it in each of those
    other = f.when(~plain_record.is_plain(), any_record.columns(f.col("headers"), f.col("value")))
    read = records.select(
        *_PLACE,
        "value",
        *(plain_record.attribute(name).alias(name) for name in ATTRIBUTES),
        plain_record.extensions().alias("extensions"),
        plain_record.moment().alias("moment"),
        plain_record.header_trace().alias("header_trace"),
        other.alias("other"),
    )
    is_plain = f.col("other").isNull()

    def of_either(name: str) -> Column:
        plain = f.lit(None).cast("string") if name == FAULT else f.col(name)
        return f.when(is_plain, plain).otherwise(f.col("other")[name])

    merged = read.select(
        *_PLACE,
        *(of_either(name).alias(name) for name in (*ATTRIBUTES, "extensions", FAULT)),
        f.when(is_plain, f.col("value")).otherwise(f.col("other.data")).alias("data"),
        f.coalesce(f.col("other.json"), f.lit(False)).alias("json"),
        f.when(is_plain, f.col("moment")).otherwise(timestamp(f.col("other.time"))).alias("moment"),
        "header_trace",
    )
    for condition in wanted(filters, attributes):
        merged = merged.where(f.col(FAULT).isNotNull() | condition)
    found = {name: f.col(name) for name in (*ATTRIBUTES, "extensions", FAULT, "data", "json", "moment", "header_trace")}
    return merged.select(*_columns({**found, "extension_trace": f.col("extensions")["traceparent"]}))


class PlainRows:
    """The same rows as those of `rows` where all records are plain; a record that is not makes Spark's job fail, with
    the words `NOT_PLAIN`. All is one step, and planned in a third of the time."""

    def __init__(self, filters: str = "", attributes: str = "") -> None:
        from pyspark.sql import functions as f

        is_plain = plain_record.is_plain()
        found = {
            **{name: plain_record.attribute(name) for name in ATTRIBUTES},
            "extensions": plain_record.extensions(),
            FAULT: f.when(~is_plain, f.raise_error(f.lit(NOT_PLAIN)).cast("string")),
            "data": f.col("value"),
            "json": f.lit(False),
            "moment": plain_record.moment(),
            "header_trace": plain_record.header_trace(),
            "extension_trace": plain_record.extension_trace(),
        }
        conditions = wanted(filters, attributes, plain_record.attribute)
        # one that is not plain passes, to fail where its fault is asked for
        self._conditions = [f.when(is_plain, reduce(and_, conditions)).otherwise(f.lit(True))] if conditions else []
        self._columns = _columns(found)

    def of(self, records: DataFrame) -> DataFrame:
        """The rows of these records."""
        for condition in self._conditions:
            records = records.where(condition)
        return records.select(*self._columns)


def seem_plain(records: DataFrame) -> bool:
    """Whether there is no other record among some of these."""
    return records.limit(_SAMPLE).where(~plain_record.is_plain()).isEmpty()


def _columns(found: Mapping[str, Column]) -> list[Column]:
    from pyspark.sql import functions as f

    text = found["data"].cast("string")
    is_json = declares_json(found["datacontenttype"]) | found["json"]
    # a trace context with a space is none
    header = f.when(~found["header_trace"].contains(" "), found["header_trace"])
    made = {
        **found,
        "time": found["moment"],
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
