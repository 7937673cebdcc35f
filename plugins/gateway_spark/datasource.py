"""The PySpark data source `tidegate`: reads a broker's log, as a batch or as a stream, and writes to its ingress.

    from gateway_spark import register
    register(spark)
    spark.read.format("tidegate").option("location", "tidegate-data/log/default").load()
    spark.readStream.format("tidegate").option("location", …).load()
    df.write.format("tidegate").option("url", "http://127.0.0.1:8080/").mode("append").save()
    df.writeStream.format("tidegate").option("url", …).option("checkpointLocation", …).start()

Options for reading:

`location`            the broker's log folder (required).
`filters`             JSON list of filters as in a trigger's `filters`: only events that match all of them.
`attributes`          JSON object of attributes as in a trigger's `filter`; not asked where there are `filters`.
`startingOffsets`     "earliest" (default), "latest", or JSON {"0": 17}: the first position of each shard; shards that
                      are not named begin at their first. For streams it counts only where there is no checkpoint.
`endingOffsets`       batch only: "latest" (default) or JSON: the position after the last, for each shard.
`maxEventsPerTrigger` stream only: the most events (before filters) that one micro-batch takes from the log. Spark 4.1
                      does not ask sources for it: there a batch takes all there is, but for the queries of a sink.
`rowsPerPartition`    how many events one task reads, 50000 where absent.

Columns that are read: `gateway_spark.source.schema.DDL`; a reader with a schema of its own (`.schema("id string, data
binary")`) gets those of its columns only. Each position of the log is given exactly once.

Options for writing:

`url`                 the ingress, `http://` or `https://` (required). User and password in it are basic authentication.
`batchSize`           the most events in a request, 500 where absent. Requests stay below 512 KiB, and smaller still
                      where the ingress says so; an ingress that takes no batches gets one event at a time.
`maxRetries`          how often a request is sent again when there is no answer, or one of 408, 425, 429, 5xx; 10 where
                      absent. The waits are those of the gateway's deliveries, `Retry-After` is heeded up to 5 minutes.
`timeout`             the longest wait for an answer, in seconds, 30 where absent.
`token`               sent as `Authorization: Bearer`. `header.NAME` sets any other header field.
`caFile`              authorities to trust (PEM) instead of the system's; `insecure` = true trusts anyone: for tests.
`certFile`, `keyFile` a client certificate (PEM).

Columns that are written: `id`, `source` and `type` are required; `specversion` (1.0 where absent), `subject`, `time`
(timestamp or text), `datacontenttype`, `dataschema`; `extensions`, a map; `data`: bytes, text, or a structure, map or
array, which goes as JSON; `data_text`, JSON, where there is no `data`. Columns that tables have besides are left out;
any other is an error. Each event is accepted at least once: a task or a micro-batch that is repeated sends its rows
again, so give them ids that stay the same (`deduplicate_s` of a table then drops the copies).
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
    """Makes the format `tidegate` known to a session: `read`, `readStream`, `write`, `writeStream`."""
    spark.dataSource.register(TidegateSource)


class TidegateSource(DataSource):
    """The log of a Tidegate broker, and its ingress. See the module for the options."""

    # each door imports its own: an executor that writes needs nothing of what reading a log takes

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
