"""How events come into Spark: from the embedded log by our data source, from a Kafka channel by Spark's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..job import KAFKA, Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def events(job: Job, spark: SparkSession) -> DataFrame:
    """The stream of events: the columns of `schema.DDL`, then `fault`: why a row is no event (its columns then hold
    what there is of it: place, key, bytes), null for events. Only events that the trigger's filter lets through; rows
    that are no event all come."""
    from . import kafka, log

    return kafka.events(job, spark) if job.road == KAFKA else log.events(job, spark)
