"""The PySpark data source `tidegate`: reads a broker's log as a batch or a stream, and writes events to its ingress.

    from gateway_spark import register
    register(spark)
    spark.read.format("tidegate").option("location", "tidegate-data/log/default").load()
    spark.readStream.format("tidegate").option("location", …).load()
    df.write.format("tidegate").option("url", "http://127.0.0.1:8080/").mode("append").save()
    df.writeStream.format("tidegate").option("url", …).option("checkpointLocation", …).start()

Options for reading:

`location`            the broker's log folder (required).
`filters`             JSON list of filters as in a trigger's `filters`: only events that match all of them.
`attributes`          JSON object of attributes as in a trigger's `filter`; ignored if there are `filters`.
`startingOffsets`     "earliest" (default), "latest", or JSON {"0": 17}: the first position of each shard; shards that
                      are not named start at their beginning. Streams use it only without a checkpoint.
`endingOffsets`       batch only: "latest" (default) or JSON: the position after the last, for each shard.
`maxEventsPerTrigger` stream only: the most events (before filters) that one micro-batch reads from the log. Spark 4.1
                      does not support it: there, a batch reads everything, except in the queries of a sink.
`rowsPerPartition`    the number of events that one task reads, 50000 by default.

Columns that are read: `gateway_spark.source.schema.DDL`; a reader with its own schema (`.schema("id string, data
binary")`) gets only those columns. Each position of the log is read exactly once.

Options for writing:

`url`                 the ingress, `http://` or `https://` (required). User and password in it are sent as basic
authentication.
`batchSize`           the most events in a request, 500 by default. Requests stay below 512 KiB, or below the limit of
                      the ingress; an ingress that does not accept batches gets one event at a time.
`maxRetries`          how often a request is retried if there is no response, or one of 408, 425, 429, 5xx; 10 by
                      default. The delays are those of the gateway's deliveries; `Retry-After` is respected up to 5
                      minutes.
`timeout`             the time limit for a response, in seconds, 30 by default.
`token`               sent as `Authorization: Bearer`. `header.NAME` sets any other header field.
`caFile`              trusted authorities (PEM), in place of the system's; `insecure` = true trusts any server: for
tests.
`certFile`, `keyFile` a client certificate (PEM).

Columns that are written: `id`, `source` and `type` are required; `specversion` (1.0 by default), `subject`, `time`
(timestamp or text), `datacontenttype`, `dataschema`; `extensions`, a map; `data`: bytes, text, or a structure, map or
array, which is sent as JSON; `data_text`, JSON, if there is no `data`. Other columns of tables are skipped; any further
column is an error. Each event is accepted at least once: a repeated task or micro-batch sends its rows again, so give
them stable ids (`deduplicate_s` of a table then drops the copies).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "tidegate"


def register(spark: SparkSession) -> None:
    """Registers the format `tidegate` with a session: `read`, `readStream`, `write`, `writeStream`."""
    spark.dataSource.register(TidegateSource)


class TidegateSource(DataSource):
    """The log of a Tidegate broker, and its ingress. The module describes the options."""

    # each method imports what it needs: an executor that writes does not need what reading a log takes

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        from .source.schema import DDL

        return DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        from .source.reading import BatchReader, Reading

        return BatchReader(Reading(self.options, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from .source.reading import Reading, stream_reader

        return stream_reader(Reading(self.options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from .writer.writing import EventWriter, Writing

        return EventWriter(Writing(self.options, schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from .writer.writing import EventStreamWriter, Writing

        return EventStreamWriter(Writing(self.options, schema, overwrite))
