"""What a query remembers besides Spark's checkpoint: inferred schemas, and the names of its tables."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from .types import Type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MANAGERS = "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager"


@dataclass
class SchemaState:
    """`batch`: the last batch that was examined. By event type ("*" for all in one table): `schemas`, the structure of
    the data; `looked`, the number of examined events. `tables`: event type -> name, for tables per type."""

    batch: int = -1
    schemas: dict[str, Type] = field(default_factory=dict)
    looked: dict[str, int] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)


class StateFile(Protocol):
    """Where the state is kept."""

    def load(self) -> SchemaState: ...

    def save(self, known: SchemaState) -> None:
        """Replaces it atomically."""


class SchemaStateFile:
    """The file in the checkpoint, written the way Spark writes its own files there."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        jvm: Any = spark._jvm
        self._path_of = jvm.org.apache.hadoop.fs.Path
        self._folder = self._path_of(checkpoint, "tidegate")
        self._path = self._path_of(self._folder, "known.json")
        manager = jvm
        for part in _MANAGERS.split("."):
            manager = getattr(manager, part)
        self._files = manager.create(self._folder, spark._jsparkSession.sessionState().newHadoopConf())

    def load(self) -> SchemaState:
        if not self._files.exists(self._path):
            return SchemaState()
        stream = self._files.open(self._path)
        try:
            return SchemaState(**json.loads(bytes(stream.readAllBytes())))
        finally:
            stream.close()

    def save(self, known: SchemaState) -> None:
        """Replaces the file atomically."""
        self._files.mkdirs(self._folder)
        stream = self._files.createAtomic(self._path, True)
        stream.write(bytearray(json.dumps(asdict(known), indent=1).encode()))
        stream.close()
