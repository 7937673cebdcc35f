"""The reader for the embedded log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..job import Job
from ..tables.table import FAULT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def events(job: Job, spark: SparkSession) -> DataFrame:
    """See `readers.events`. The log contains only events."""
    from pyspark.sql import functions as f

    from ..datasource import register
    from ..source.compatible import LIMITS

    register(spark)
    more = {"checkpoint": job.checkpoint, **({} if LIMITS else resume(job, spark))}
    read = spark.readStream.format("tidegate").options(**job.options, **more).load()
    return read.withColumn(FAULT, f.lit(None).cast("string"))


def resume(job: Job, spark: SparkSession) -> dict[str, str]:
    """The option that says where the query's next new batch starts: at the end of the last planned one."""
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    folder = jvm.org.apache.hadoop.fs.Path(job.checkpoint, "offsets")
    files = folder.getFileSystem(session.sessionState().newHadoopConf())
    none = {"resumeOffsets": "{}"}
    if not files.exists(folder):
        return none
    names = [str(found.getPath().getName()) for found in files.listStatus(folder)]
    last = max((int(name) for name in names if name.isdigit()), default=-1)
    if last < 0:
        return none
    stream = files.open(jvm.org.apache.hadoop.fs.Path(folder, str(last)))
    try:
        lines = bytes(stream.readAllBytes()).decode().splitlines()
    finally:
        stream.close()
    # a version, the settings of the batch, and a line for each source, of which there is one
    return {"resumeOffsets": json.dumps(json.loads(lines[2]))}
