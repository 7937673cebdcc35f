"""What a query remembers besides Spark's checkpoint: inferred schemas, and the names of its tables."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Protocol

from ..tables.jvm import SmallFiles
from .types import Type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = "known.json"


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
    """The file in the checkpoint."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._files = SmallFiles(spark, f"{checkpoint.rstrip('/')}/tidegate")

    def load(self) -> SchemaState:
        found = self._files.load(_NAME)
        return SchemaState() if found is None else SchemaState(**found)

    def save(self, known: SchemaState) -> None:
        """Replaces the file atomically."""
        self._files.save(_NAME, asdict(known))
