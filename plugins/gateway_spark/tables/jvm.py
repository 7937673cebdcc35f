"""Features of Spark that only its JVM offers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager"
_NAME = "tidegate"
_QUERY_ID = "sql.streaming.queryId"  # a local property of the thread that runs a streaming query


def jvm_class(spark: SparkSession, name: str) -> Any:
    """A class of the JVM."""
    found: Any = spark._jvm
    for part in name.split("."):
        found = getattr(found, part)
    return found


def query_id(spark: SparkSession, default: str) -> str:
    """The id of the calling streaming query, from the query's checkpoint."""
    return str(spark.sparkContext.getLocalProperty(_QUERY_ID) or default)


def measured(rows: DataFrame, measures: Mapping[str, Column]) -> DataFrame:
    """The same rows, with these aggregates computed on the way."""
    return rows.observe(_NAME, *[c.alias(name) for name, c in measures.items()]) if measures else rows


def measurements(rows: DataFrame, measures: Mapping[str, Column]) -> dict[str, int]:
    """The aggregates, after rows made from `measured` ones were written."""
    if not measures:
        return {}
    found = rows._jdf.queryExecution().observedMetrics().get(_NAME)
    if found.isEmpty():  # the plan had no rows from the start
        return dict.fromkeys(measures, 0)
    return {name: found.get().getLong(n) for n, name in enumerate(measures)}


class SmallFiles:
    """Small files in a folder, written atomically, like those of a checkpoint."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._path = jvm_class(spark, "org.apache.hadoop.fs.Path")
        self._folder = self._path(folder)
        conf: Any = spark._jsparkSession
        self._files = jvm_class(spark, _MANAGER).create(self._folder, conf.sessionState().newHadoopConf())

    def load(self, name: str) -> Any:
        """The JSON in the file, or None."""
        path = self._path(self._folder, name)
        if not self._files.exists(path):
            return None
        stream = self._files.open(path)
        try:
            return json.loads(bytes(stream.readAllBytes()))
        finally:
            stream.close()

    def save(self, name: str, value: Any) -> None:
        """Replaces the file."""
        self._files.mkdirs(self._folder)
        stream = self._files.createAtomic(self._path(self._folder, name), True)
        stream.write(bytearray(json.dumps(value).encode()))
        stream.close()
