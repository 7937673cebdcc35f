"""Reads what Spark keeps in a query's checkpoint, wherever that is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .job import KAFKA, Job
from .source.offsets import of_source as offsets
from .tables.jvm import jvm_class
from .tables.mark import Mark, Owner
from .tables.owner import local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class CheckpointFiles:
    """The files of a checkpoint; a folder on this machine is read without Spark."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._spark = spark
        self._at = checkpoint
        self._local = local_path(checkpoint)

    def query(self) -> str:
        """The id of the query, or "" if it never started."""
        text = self.read("metadata")
        return str(json.loads(text)["id"]) if text else ""

    def last(self, folder: str) -> int:
        """The last batch in `offsets` (planned) or `commits` (done), or -1."""
        return max((int(name) for name in self._names(folder) if name.isdigit()), default=-1)

    def offset(self, batch: int) -> Any:
        """The offset that a batch ends at, or None."""
        text = self.read(f"offsets/{batch}")
        # a version, the settings of the batch, and a line for each source, of which there is one
        lines = text.splitlines() if text else []
        return json.loads(lines[2]) if len(lines) > 2 else None

    def read(self, name: str) -> str | None:
        """The text of a file, or None if there is none."""
        if self._local is not None:
            try:
                return Path(self._local, name).read_text("utf-8")
            except FileNotFoundError:
                return None
        files, path = self._remote(name)
        if not files.exists(path):
            return None
        stream = files.open(path)
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def _names(self, folder: str) -> list[str]:
        if self._local is not None:
            path = self._local / folder
            return [p.name for p in path.iterdir()] if path.is_dir() else []
        files, path = self._remote(folder)
        return [str(f.getPath().getName()) for f in files.listStatus(path)] if files.exists(path) else []

    def _remote(self, name: str) -> tuple[Any, Any]:
        path = jvm_class(self._spark, "org.apache.hadoop.fs.Path")(self._at, name)
        session: Any = self._spark._jsparkSession
        return path.getFileSystem(session.sessionState().newHadoopConf()), path


class Marks:
    """What each batch of a query records in its tables."""

    def __init__(self, spark: SparkSession, job: Job, before: tuple[str, ...]) -> None:
        self._files = CheckpointFiles(spark, job.checkpoint)
        self._job = job
        self._before = before
        self._ends: dict[int, Any] = {}  # batch -> offset

    def of(self, batch: int, query: str) -> Mark:
        """The mark of a batch of this query."""
        end = self._offset(batch)
        first = self._offset(batch - 1) if batch else start_of(self._job, self._files)
        self._ends = {batch: end}
        return Mark(positions(first), positions(end), owner(self._job, query, self._before, epochs_of(end)))

    def _offset(self, batch: int) -> Any:
        return self._ends[batch] if batch in self._ends else self._files.offset(batch)


def owner(job: Job, query: str, before: tuple[str, ...] = (), epochs: Mapping[str, str] | None = None) -> Owner:
    """A job's query as the owner of tables."""
    channel = f"{job.channel} {job.channel_id or job.options.get('location') or job.options.get('subscribe', '')}"
    return Owner(query, job.name, channel.strip(), job.checkpoint, before=before, epochs=dict(epochs or {}))


def start_of(job: Job, files: CheckpointFiles) -> Any:
    """The offset that a query starts at."""
    if job.channel == KAFKA and (text := files.read("sources/0/0")):  # Spark has resolved "latest"
        return json.loads(text.splitlines()[-1])
    text = job.options.get("startingOffsets", "")
    return json.loads(text) if text.startswith("{") else None


def positions(offset: Any) -> dict[str, int]:
    """The positions in an offset; those that Kafka's clients have words for are left out."""
    return {shard: at for shard, at in offsets(offset).items() if shard.isdigit() and at >= 0}


def epochs_of(offset: Any) -> dict[str, str]:
    """The log's epochs in an offset."""
    found = offset.get("epochs") if isinstance(offset, dict) else None
    return {str(s): str(text) for s, text in found.items()} if isinstance(found, dict) else {}
