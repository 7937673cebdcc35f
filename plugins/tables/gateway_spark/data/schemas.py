"""The structure of data by event type: as configured, or as inferred."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from .. import naming
from ..errors import SparkFault
from . import types as data_types
from .evolution import ALL as ALL
from .evolution import conflict, grow, merge, observed
from .schema_state import SchemaState, SchemaStateFile, StateFile
from .types import Type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..job import Job

INFER = "infer"
Seen = Mapping[str, tuple[Any, ...]]
"""By event type (`ALL` in a single table): what was found in a batch."""


class Schemas:
    """The schemas of a job, and the names of its tables. Inferred schemas are saved beside the checkpoint before they
    are used, so that a repeated batch is read the same way. Raises `SparkFault` if the configured schema conflicts with
    the one that a table was created with."""

    def __init__(self, spark: SparkSession, job: Job, file: StateFile | None = None) -> None:
        """`file` replaces the one beside the checkpoint."""
        self._job = job
        needed = job.data_schema or naming.TYPE in job.table
        self._file = (file or SchemaStateFile(spark, job.checkpoint)) if needed else None
        self._known = self._file.load() if self._file else SchemaState()
        self._fixed = {name: _fixed(name, ddl) for name, ddl in job.data_schema.items() if ddl != INFER}
        self._check()

    def of(self, event_type: str = ALL) -> Type | None:
        """The current type of an event type's data; None if the data are bytes."""
        if event_type in self._fixed:
            return self._fixed[event_type]
        if self._is_inferred(event_type):
            return self._known.schemas.get(event_type, data_types.struct([]))
        return self._fixed.get(ALL)

    def needs_sample(self, number: int, event_type: str = ALL) -> bool:
        """Whether a batch must be examined for events of this type."""
        enough = not self._job.evolve and self._known.looked.get(event_type, 0) >= self._job.infer_sample
        return number > self._known.batch and self._is_inferred(event_type) and not enough

    def needs_any_sample(self, number: int) -> bool:
        """Whether a batch must be examined for events of any type."""
        return number > self._known.batch and INFER in self._job.data_schema.values()

    def learn(self, seen: Seen, number: int) -> None:
        """Merges the samples of a batch, and names the tables of its types."""
        before = deepcopy(self._known)
        for event_type in seen:
            self._name(event_type)
        for event_type, (count, text, *_) in seen.items():
            if count and self.needs_sample(number, event_type):
                known = self._known.schemas.get(event_type, data_types.struct([]))
                self._known.schemas[event_type] = grow(known, observed(text))
                if not self._job.evolve:
                    self._known.looked[event_type] = self._known.looked.get(event_type, 0) + count
        if self._known != before:
            self._known.batch = max(number, self._known.batch)
        self._save(before)

    def tables(self) -> dict[str, str]:
        """Event type -> the name of its table, for all tables."""
        return dict(self._known.tables)

    def _name(self, event_type: str) -> None:
        tables = self._known.tables
        if event_type != ALL and event_type not in tables and len(tables) < self._job.max_tables:
            tables[event_type] = naming.name_of(event_type, tables.values())

    def _is_inferred(self, event_type: str) -> bool:
        return self._job.data_schema.get(event_type, self._job.data_schema.get(ALL)) == INFER

    def _save(self, before: SchemaState) -> None:
        if self._file and self._known != before:
            self._file.save(self._known)

    def _check(self) -> None:
        before = deepcopy(self._known)
        for event_type, fixed in self._fixed.items():
            known = self._known.schemas.get(event_type)
            if known is not None and (words := conflict(known, fixed)):
                raise SparkFault(
                    f"data_schema: {words}: the table can't have both; put the type back, or choose another path and "
                    "checkpoint for a new table"
                )
            self._known.schemas[event_type] = fixed if known is None else merge(known, fixed)
        self._save(before)


def _fixed(event_type: str, ddl: str) -> Type:
    try:
        return data_types.parse(ddl)
    except ValueError as e:
        raise SparkFault(f"data_schema{'' if event_type == ALL else f' of {event_type}'}: {e}") from None
