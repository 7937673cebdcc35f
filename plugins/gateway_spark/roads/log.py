"""The road from the embedded log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..job import Job
from ..tables import FAULT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def events(job: Job, spark: SparkSession) -> DataFrame:
    """See `roads.events`. The log holds nothing but events."""
    from pyspark.sql import functions as f

    from ..datasource import register

    register(spark)
    read = spark.readStream.format("tidegate").options(**job.options).load()
    return read.withColumn(FAULT, f.lit(None).cast("string"))
