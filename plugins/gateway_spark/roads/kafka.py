"""The road from a Kafka channel: Spark reads the topic, and SQL makes columns of the CloudEvents in it."""

from __future__ import annotations

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


def events(job: Job, spark: SparkSession) -> DataFrame:
    """See `roads.events`."""
    options = {name: value for name, value in job.options.items() if name not in OURS}
    records = spark.readStream.format("kafka").options(**options).option("includeHeaders", "true").load()
    return rows(records, job.options.get("filters", ""), job.options.get("attributes", ""))


def rows(records: DataFrame, filters: str = "", attributes: str = "") -> DataFrame:
    """The columns of `schema.DDL`, and `fault`, of records as Spark's Kafka source gives them (with headers). `filters`
    and `attributes` are JSON, as in a job's options."""
    from pyspark.sql import functions as f

    # Two steps, because Spark interprets functions of one's own on arrays and maps, and does not compile what is in one
    # step with them: all of `any_record` is in the first, and only evaluated for records that are not plain.
    other = f.when(~f.col("plain"), any_record.columns(f.col("headers"), f.col("value"))).alias("other")
    read = plain_record.looked_up(records).select("*", other)
    chosen = (*ATTRIBUTES, "extensions", FAULT)
    merged = read.select(
        *("key", "value", "partition", "offset", "timestamp", "traceparent", "plain", "other"),
        *(_of_either(name).alias(name) for name in chosen),
        f.when(f.col("plain"), f.col("value")).otherwise(f.col("other.data")).alias("data"),
    )
    for condition in wanted(filters, attributes):
        merged = merged.where(f.col(FAULT).isNotNull() | condition)
    return merged.select(*_columns())


def _of_either(name: str) -> Column:
    from pyspark.sql import functions as f

    plain = f.lit(None).cast("string") if name == FAULT else f.col(name)
    return f.when(f.col("plain"), plain).otherwise(f.col("other")[name])


def _columns() -> list[Column]:
    from pyspark.sql import functions as f

    text = f.col("data").cast("string")
    is_json = declares_json(f.col("datacontenttype")) | f.coalesce(f.col("other.json"), f.lit(False))
    plain_time = f.when(~f.col("time").startswith("0000"), f.col("time").try_cast("timestamp"))
    made = {
        "time": f.when(f.col("plain"), plain_time).otherwise(timestamp(f.col("time"))),
        "data_text": f.when(is_json & f.is_valid_utf8(text), text),
        "shard": f.col("partition"),
        "position": f.col("offset"),
        "received": f.when(f.col("timestamp") >= f.lit(0).cast("timestamp"), f.col("timestamp")),
        "trace_id": f.coalesce(trace_id(_header_trace()), trace_id(f.col("extensions")["traceparent"])),
    }
    return [made.get(name, f.col(name)).alias(name) for name in COLUMNS]


def _header_trace() -> Column:
    """The trace context of the headers; one with a space is none."""
    from pyspark.sql import functions as f

    return f.when(~f.col("traceparent").contains(" "), f.col("traceparent"))


COLUMNS = (
    *("specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema", "extensions"),
    *("data", "data_text", "key", "shard", "position", "received", "trace_id", FAULT),
)
