"""Features of Spark that only its JVM offers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .owner import local_path

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
    """Small files in a folder, replaced atomically. On this machine Python writes them: there, the way of Spark's that
    is quick (`session_conf`) does not replace a file, and says so in its log only."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._local = local_path(folder)
        if self._local is None:
            self._path = jvm_class(spark, "org.apache.hadoop.fs.Path")
            self._folder = self._path(folder)
            conf: Any = spark._jsparkSession
            self._files = jvm_class(spark, _MANAGER).create(self._folder, conf.sessionState().newHadoopConf())

    def exists(self, name: str) -> bool:
        """Whether there is a file or folder of this name."""
        if self._local is not None:
            return Path(self._local, name).exists()
        return bool(self._files.exists(self._path(self._folder, name)))

    def load(self, name: str) -> Any:
        """The JSON in the file, or None."""
        if not self.exists(name):
            return None
        if self._local is not None:
            return json.loads(Path(self._local, name).read_bytes())
        stream = self._files.open(self._path(self._folder, name))
        try:
            return json.loads(bytes(stream.readAllBytes()))
        finally:
            stream.close()

    def save(self, name: str, value: Any) -> None:
        """Replaces the file."""
        text = json.dumps(value).encode()
        if self._local is not None:
            self._local.mkdir(parents=True, exist_ok=True)
            new = self._local / f".{name}.new"
            new.write_bytes(text)
            # Hadoop keeps a checksum beside each file, but also reads files without one
            Path(self._local, f".{name}.crc").unlink(missing_ok=True)
            new.replace(self._local / name)
            return
        self._files.mkdirs(self._folder)
        stream = self._files.createAtomic(self._path(self._folder, name), True)
        stream.write(bytearray(text))
        stream.close()
