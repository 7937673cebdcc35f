"""Processes a micro-batch: its rows go to their tables, and rejected rows to the quarantine table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from .checkpoint_files import Marks
from .claim import Claim, claimed
from .data import types
from .data.evolution import MAX_DEPTH, MAX_FIELDS, unlike
from .data.sampling import Sample, sample, sample_by_type, settled
from .data.schemas import ALL, Schemas
from .errors import SparkFault
from .job import KAFKA, Job
from .naming import OTHER, TYPE, UNKNOWN, quarantine_of
from .readers import KafkaBatches, events
from .readers.kafka import records
from .rows import REASON, for_quarantine, known_good, rejected, shaped, stream
from .tables import FAULT, Table, Tables
from .tables.jvm import query_id
from .tables.mark import Mark
from .targets import targets_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Rejected = list[tuple[str, "DataFrame"]]
"""Locations of quarantine tables, and rows for them."""


_REMEMBERED = 1000


class Batches:
    """The function that a streaming query calls for each batch (`foreachBatch`). A batch that was partly written before
    a crash is repeated with the same number and rows; each table knows whether it has it. `quarantined` counts the rows
    that went to quarantine tables; `rows` has the row counts of the last batches, if known."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._schemas: Schemas | None = None
        # duplicates are dropped on the stream, which must then consist of events
        self._kafka = KafkaBatches(job) if job.channel == KAFKA and job.deduplicate_s is None else None
        self._tables = Tables()
        self._told: set[tuple[str, str]] = set()
        self._claim = Claim(job)
        self._mark = Mark({}, {})  # of the batch
        self._marks: Marks | None = None
        self.quarantined = 0
        self.rows: dict[int, int] = {}
        self.notes: list[str] = []
        """What people should know, for who runs the query to take away."""
        self.begins: dict[str, int] = {}
        """Where the query goes on, if that is not the channel's cursor; known once there is a stream."""

    def stream(self, spark: SparkSession) -> DataFrame:
        """The stream whose batches `write` takes. Raises `SparkFault` if the job does not fit the existing tables and
        checkpoint."""
        self._claim = claimed(spark, self._job)
        self._job = job = self._claim.job
        self.notes += self._claim.notes
        self.begins = self._claim.start
        return stream(events(job, spark) if self._kafka is None else records(job, spark), job)

    def write(self, rows: DataFrame, number: int) -> None:
        """Writes a batch to its tables. An exception ends the query."""
        if self._kafka is not None:
            self._kafka.each(rows, number, lambda found, good: self._write(found, number, good))
        else:
            self._write(rows, number, self._job.channel != KAFKA)

    def _write(self, events: DataFrame, number: int, good: bool) -> None:
        """`good`: no event has a fault, and Spark itself knows how many there are."""
        if self._schemas is None:
            self._schemas = Schemas(events.sparkSession, self._job)
        if self._marks is None:
            self._marks = Marks(events.sparkSession, self._job, self._claim.before)
        self._mark = self._marks.of(number, query_id(events.sparkSession, self._job.checkpoint))
        if TYPE in self._job.table:
            with _kept(events):
                rejected = self._write_by_type(events, number, self._schemas)
                self._quarantine(rejected, number)
        elif self._job.deduplicate_s is not None:
            with _kept(events):
                events.count()  # Spark saves its state only if a batch is read to its end, which a table may not do
                self._quarantine(self._write_one(events, number, self._schemas, good), number)
        else:
            self._quarantine(self._write_one(events, number, self._schemas, good), number)

    def _write_one(self, events: DataFrame, number: int, schemas: Schemas, good: bool) -> Rejected:
        if schemas.needs_sample(number):
            self._learn({ALL: sample(events)}, number, schemas, events)
        job = self._job
        if good and job.late_s is None and schemas.of(ALL) is None:
            rows = known_good(shaped(self._lacking(events, job.table), job))
            if self._put(rows, number, job.table, {}, self._mark) is not None:
                return []
            # the table already has the batch, but the quarantine table may lack rows of it
        return self._append(events, number, ALL, job.table, schemas)

    def _write_by_type(self, events: DataFrame, number: int, schemas: Schemas) -> Rejected:
        from pyspark.sql import functions as f

        job = self._job
        found = sample_by_type(events, schemas, number, job.max_tables)
        self._learn({t: seen for t, seen in found.items() if t is not None}, number, schemas, events)
        tables = schemas.tables()
        rejected: Rejected = []
        targets = targets_of(found, tables)
        for event_type in targets.own:
            name = tables[event_type]
            own = events.where(f.col(FAULT).isNull() & (f.col("type") == event_type))
            rejected += self._append(own, number, event_type, job.table.replace(TYPE, name), schemas, name)
        if targets.beyond:
            beyond = events.where(f.col(FAULT).isNull() & ~f.col("type").isin(list(tables)))
            words = f.lit(f"no table for this type: there are {len(tables)} already (max_tables)")
            rejected.append((quarantine_of(job.table, job.quarantine, OTHER), for_quarantine(beyond, words)))
        if targets.unknown:
            none = events.where(f.col(FAULT).isNotNull())
            rejected.append((quarantine_of(job.table, job.quarantine, UNKNOWN), for_quarantine(none, f.col(FAULT))))
        return rejected

    def _learn(self, found: dict[str, Sample], number: int, schemas: Schemas, events: DataFrame) -> None:
        schemas.learn({of: settled(events, of, seen) for of, seen in found.items()}, number)
        for event_type, seen in found.items():
            of = schemas.of(event_type)
            for field, known in unlike(of, types.parse(seen.ddl, observed=True)) if of and seen.ddl else ():
                if (event_type, field) not in self._told:
                    self._told.add((event_type, field))
                    self.notes.append(
                        f"batch {number} has data with the field {field}, and a column {known}: names that differ only "
                        f"in case can't both be columns, so {field} is in data_raw only"
                    )
        for event_type, seen in found.items():
            if seen.first is not None:
                of = "" if event_type == ALL else f" of type {event_type}"
                self.notes.append(
                    f"{seen.skipped} events{of} of batch {number} have more than {MAX_DEPTH} levels or {MAX_FIELDS} "
                    f"fields: no columns are inferred from them; the first is at shard {seen.first[0]}, position "
                    f"{seen.first[1]}"
                )

    def _append(
        self, events: DataFrame, number: int, event_type: str, location: str, schemas: Schemas, name: str = ""
    ) -> Rejected:
        """Writes these events to their table; returns the rejected ones, if there may be any."""
        from pyspark.sql import functions as f

        job, of = self._job, schemas.of(event_type)
        lacking = self._lacking(events, location)
        rows = shaped(lacking, job, of)
        measures = {"rows": f.count(f.lit(1)), "bad": f.count(FAULT)}
        mark = self._mark
        if name and mark.owner is not None:
            mark = replace(mark, owner=replace(mark.owner, type=event_type))
        found = self._put(rows, number, location, measures, mark)
        if found is not None:
            self._count(number, found["rows"])
        if found is not None and not found["bad"] and lacking is events:
            return []
        return [(quarantine_of(job.table, job.quarantine, name), rejected(events, job, of))]

    def _put(
        self, rows: DataFrame, number: int, location: str, measures: Mapping[str, Column], mark: Mark
    ) -> dict[str, int] | None:
        """Writes to a table that has an owner; see `Table.write`."""
        table = self._tables.at(self._job, rows.sparkSession, location)
        if location in self._claim.taken:
            _check_unmoved(table, *self._claim.taken[location])
        found = table.write(rows, number, measures, mark)
        self._claim.taken.pop(location, None)
        return found

    def _lacking(self, events: DataFrame, location: str) -> DataFrame:
        """The events that a table lacks: all, unless it had some of them before this query began."""
        from pyspark.sql import functions as f

        floors, first = self._claim.floors.get(location, {}), self._mark.first
        for shard, floor in floors.items():
            if first.get(shard, 0) < floor:
                events = events.where(~((f.col("shard") == int(shard)) & (f.col("position") < floor)))
        return events

    def _count(self, number: int, rows: int) -> None:
        if TYPE not in self._job.table and self._job.deduplicate_s is None:  # otherwise Spark reads them only once
            self.rows[number] = rows
            self.rows.pop(number - _REMEMBERED, None)

    def _quarantine(self, found: Rejected, number: int) -> None:
        """Writes rejected rows, all of a location at once, since a table takes each batch only once."""
        from pyspark.sql import functions as f

        job = replace(self._job, partition_by=[], cluster_by=[], columns=None)
        locations: dict[str, list[DataFrame]] = {}
        for location, rows in found:
            locations.setdefault(location, []).append(rows)
        mark = replace(self._mark, owner=None)
        for location, parts in locations.items():
            rows = self._lacking(reduce(lambda a, b: a.unionByName(b), parts), location)
            if number in self.rows or not rows.isEmpty():
                measures = {"rows": f.count(REASON)}
                written = self._tables.at(job, rows.sparkSession, location).write(rows, number, measures, mark)
                self.quarantined += written["rows"] if written else 0


def _check_unmoved(table: Table, query: str, end: dict[str, int]) -> None:
    """Before the first batch in a table that another query filled: raises `SparkFault` if that query, which may still
    run, has written a batch since its positions were read. From this batch on it is refused."""
    extent = table.extent(query)
    if extent is None or extent[1] != end:
        raise SparkFault(
            f"the table {table.location} got more rows of the query {query} while it was taken over: this query starts "
            "again after them"
        )


@contextmanager
def _kept(events: DataFrame) -> Iterator[None]:
    """Caches rows that are read more than once."""
    events.persist()
    try:
        yield
    finally:
        events.unpersist()
