"""Runs a session up to its first written batch, so that the JVM records the classes it loads. Arguments: a new folder,
and the files for the class names and for the class path."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from gateway_java import java

from .batch import Batches
from .job import Job
from .launch import JVM_OPTIONS
from .query import session
from .rows import stream
from .session_conf import conf_of
from .source.schema import DDL


def main(folder: Path, names: Path, path: Path) -> None:
    places = {name: str(folder / name) for name in ("source", "table", "checkpoint", "home")}
    job = Job({}, places["table"], places["checkpoint"], places["home"], data_schema={"*": "a INT"})
    conf = {**conf_of(job), JVM_OPTIONS: " ".join((f"-XX:DumpLoadedClassList={names}", *java.QUICK))}
    spark = session(conf=conf)
    events = spark.createDataFrame([], DDL).selectExpr("*", "string(null) AS fault")
    one = spark.sql("SELECT '1.0' AS specversion, '1' AS id, '{}' AS data_text, binary('{}') AS data")
    events.unionByName(one, allowMissingColumns=True).write.parquet(places["source"])
    read = spark.readStream.schema(events.schema).parquet(places["source"])
    query = stream(read, job).writeStream.foreachBatch(Batches(job).write)
    query.option("checkpointLocation", job.checkpoint).trigger(availableNow=True).start().awaitTermination()
    jvm: Any = spark._jvm
    path.write_text(jvm.java.lang.System.getProperty("java.class.path"))
    process = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    spark.stop()
    process.stdin.close()  # the JVM writes the names when it ends
    process.wait()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
