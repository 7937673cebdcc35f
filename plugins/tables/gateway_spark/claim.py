"""Whether the tables of a job belong to its query, and where the query starts: checked before it does.

A table records its owner and the positions that each batch covers (`tables.mark`). A query with another checkpoint,
which would write all events again, may only take it over if the job says `adopt`. It then starts at the positions of
the last batch, and each table leaves out what it already has: (log, shard, position) identifies an event.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from . import naming
from .checkpoint_files import CheckpointFiles, owner, positions
from .data.schema_state import SchemaState, SchemaStateFile
from .data.schemas import ALL, INFER
from .data.types import kind
from .errors import SparkFault
from .job import KAFKA, LOG, Job
from .source.offsets import of_source as offsets
from .tables import Table, read, table
from .tables.columns import plain
from .tables.jvm import jvm_class
from .tables.mark import MOST_BEFORE, Owner, belongs, highest
from .tables.owner import missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Claim:
    """`job` with the start that its tables need; `before`: the queries that it follows; `floors`: by location the
    positions before which a table has everything; `taken`: by location the query that a table is taken over from, and
    the positions that its last batch ends before; `notes`: what people should know; `start`: where the query goes on,
    wherever the channel's cursor is, or empty if it goes on there."""

    job: Job
    before: tuple[str, ...] = ()
    floors: dict[str, dict[str, int]] = field(default_factory=dict)
    taken: dict[str, tuple[str, dict[str, int]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    start: dict[str, int] = field(default_factory=dict)


def claimed(spark: SparkSession, job: Job) -> Claim:
    """Raises `SparkFault` if a table belongs to another query, is missing although the checkpoint has filled it, or is
    not as far as the checkpoint."""
    return _Claiming(spark, job).result()


class _Claiming:
    def __init__(self, spark: SparkSession, job: Job) -> None:
        self._spark = spark
        self._job = job
        self._files = CheckpointFiles(spark, job.checkpoint)
        self._query = self._files.query()
        self._planned, self._done = self._files.last("offsets"), self._files.last("commits")
        self._me = owner(job, self._query)
        self._claim = Claim(job)
        self._starts: list[dict[str, int]] = []
        self._ends: list[dict[str, int]] = []

    def result(self) -> Claim:
        known = SchemaStateFile(self._spark, self._job.checkpoint).load()
        tables = {place: table(self._job, self._spark, place) for place in self._places(known)}
        there = {place: each for place, each in tables.items() if each.schema() is not None}
        self._check_missing(known, tables, there)
        owners = {place: each.owner() for place, each in there.items()}
        self._claim.before = self._before([o for o in owners.values() if o is not None])
        for place, found in owners.items():
            self._take(place, there[place], found)
        self._take_quarantines(known)
        if self._done >= 0:
            self._check_ends()
            self._claim.start = positions(self._files.offset(self._done))
        elif self._starts:
            self._start_at(highest(self._starts))
        elif not any(self._has_rows(place) for place in there):
            self._begin(known)
        self._check_deleted()
        if self._job.adopt and there and known == SchemaState():
            self._learn(there, owners)
        return self._claim

    # -- which tables ----------------------------------------------------------------------------------------------

    def _places(self, known: SchemaState) -> list[str]:
        job = self._job
        if naming.TYPE not in job.table:
            return [job.table]
        names = [*known.tables.values(), *self._folders(job.table)]
        return [job.table.replace(naming.TYPE, name) for name in dict.fromkeys(names)]

    def _folders(self, pattern: str) -> list[str]:
        """The values of `{type}` in the folders that are there."""
        before, _, after = pattern.partition(naming.TYPE)
        path = jvm_class(self._spark, "org.apache.hadoop.fs.Path")("".join(map(_escaped, before)) + "*" + after)
        session: Any = self._spark._jsparkSession
        found = path.getFileSystem(session.sessionState().newHadoopConf()).globStatus(path)
        names = [str(status.getPath().toUri().getPath()) for status in found or () if status.isDirectory()]
        lead = before.rpartition("/")[2]
        depth = after.count("/")
        cut = [name.split("/")[-1 - depth].removeprefix(lead) for name in names]
        tail = after.partition("/")[0]
        return [name.removesuffix(tail) for name in cut if not name.endswith(naming.QUARANTINE)]

    def _check_missing(self, known: SchemaState, tables: Mapping[str, Table], there: Mapping[str, Table]) -> None:
        filled = self._done >= 0 and (naming.TYPE not in self._job.table or self._done >= known.batch)
        named = {self._job.table.replace(naming.TYPE, name) for name in known.tables.values()} or {self._job.table}
        for place in tables:
            if place in there or not filled or place not in named:
                continue
            if not self._job.adopt:
                raise missing(self._job, place)
            self._claim.notes.append(f"the table {place} is missing: it starts again after what the checkpoint has")
            tables[place].begin("")

    # -- whose they are --------------------------------------------------------------------------------------------

    def _before(self, owners: list[Owner]) -> tuple[str, ...]:
        """The queries that this one follows: as its tables say, and with `adopt` those of all its tables."""
        mine = [query for o in owners if o.query == self._query for query in o.before]
        taken = [query for o in owners if self._job.adopt for query in o.chain]
        found = [query for query in dict.fromkeys([*taken, *mine]) if query != self._query]
        return tuple(found[:MOST_BEFORE])

    def _take(self, place: str, each: Table, found: Owner | None) -> None:
        job = self._job
        if found is None:
            self._take_older(place, each)
            return
        if found.query != self._query and found.query not in self._claim.before:
            raise belongs(place, found, self._me)
        extents = ((query, each.extent(query)) for query in found.chain)
        writer, extent = next(((query, at) for query, at in extents if at is not None), (found.query, None))
        if extent is None and found.query != self._query:  # Iceberg's snapshots expire
            extent = {}, self._by_rows(place)
        elif extent is not None and writer != self._query:
            self._claim.taken[place] = writer, extent[1]
        first, end = extent or ({}, {})
        if writer != self._query:  # also where it has taken the table over, but no batch of its own has come so far
            first, end = self._here(first, found), self._here(end, found)
            self._claim.floors[place] = end
        if found.query != self._query:
            self._claim.notes.append(
                f"the table {place} belonged to {found}; it now belongs to trigger {job.name}, from {_shown(first)}"
            )
        self._starts.append(first)
        self._ends.append(end)

    def _take_older(self, place: str, each: Table) -> None:
        """A table that no query wrote, or an earlier version."""
        writer = each.writer(self._query, self._planned)
        if not writer:
            return
        if writer == self._query:
            self._claim.notes.append(f"the table {place} recorded no owner: it now belongs to trigger {self._job.name}")
            each.begin(self._query)
            return
        if not self._job.adopt:
            raise belongs(place, Owner(writer, "unknown", "an unknown log", "unknown"), self._me)
        self._claim.floors[place] = self._by_rows(place)
        each.begin("")
        self._starts.append({})
        self._ends.append(self._claim.floors[place])
        self._claim.notes.append(f"the table {place} recorded no positions: it gets the events that its rows lack")

    def _by_rows(self, place: str) -> dict[str, int]:
        from pyspark.sql import functions as f

        rows = read(self._spark, self._job.format, place)
        if not {"shard", "position"} <= {*rows.columns}:
            raise SparkFault(
                f"the table {place} can't be adopted: it has no columns shard and position, which say what it has"
            )
        found = rows.where("shard is not null").groupBy("shard").agg(f.max("position")).collect()
        return {str(shard): position + 1 for shard, position in found}

    def _here(self, at: Mapping[str, int], found: Owner) -> dict[str, int]:
        """Positions of a table in the channel that is read now: what it has of another log or topic does not count."""
        if self._job.channel == KAFKA:
            theirs, ours = found.channel.split(), self._me.channel.split()
            same = theirs[:2] == ours[:2] and (len(theirs) < 3 or len(ours) < 3 or theirs[2] == ours[2])
            return dict(at) if same else {}
        if self._job.channel != LOG or "location" not in self._job.options:
            return dict(at)
        from .source.reading import diverged_shards

        epochs = {"epochs": found.epochs} if found.epochs else {}
        diverged = diverged_shards(self._job.options["location"], {**at, **epochs})
        if diverged:
            self._claim.notes.append(f"the log is not the one of {found}: they are the same before {_shown(diverged)}")
        return {shard: min(position, diverged.get(shard, position)) for shard, position in at.items()}

    def _take_quarantines(self, known: SchemaState) -> None:
        """Quarantine tables have no owner, since several triggers may share one; each query has its positions there."""
        if not self._claim.before and not self._claim.floors:
            return
        for place in self._quarantines(known):
            each = table(self._job, self._spark, place)
            if each.schema() is not None:
                self._take_quarantine(place, each)

    def _quarantines(self, known: SchemaState) -> list[str]:
        job, names = self._job, [""]
        if naming.TYPE in job.table:
            pattern = naming.quarantine_of(job.table, job.quarantine, naming.TYPE)
            names = [*known.tables.values(), naming.OTHER, naming.UNKNOWN]
            names += self._folders(pattern.removesuffix(naming.QUARANTINE)) if naming.TYPE in pattern else []
        return list(dict.fromkeys(naming.quarantine_of(job.table, job.quarantine, name) for name in names))

    def _take_quarantine(self, place: str, each: Table) -> None:
        if self._query and each.extent(self._query) is not None:
            return
        for query in self._claim.before:
            if (extent := each.extent(query)) is not None:
                self._claim.floors[place] = extent[1]
                return
        if self._query and each.writer(self._query, self._planned) == self._query:
            return
        self._claim.floors[place] = self._by_rows(place)

    # -- where the query starts ------------------------------------------------------------------------------------

    def _check_ends(self) -> None:
        """The checkpoint decides where the query resumes: the tables must be as far."""
        if naming.TYPE in self._job.table or not self._ends or not self._ends[0]:
            return
        done = positions(self._files.offset(self._done))
        if behind := {shard: at for shard, at in self._ends[0].items() if at < done.get(shard, at)}:
            raise SparkFault(
                f"the table {self._job.table} ends at {_shown(behind)}, but its checkpoint {self._job.checkpoint} is "
                f"at {_shown({shard: done[shard] for shard in behind})}: restore the newest table; or delete the "
                "checkpoint and set `adopt: true` to continue from where the table ends"
            )

    def _begin(self, known: SchemaState) -> None:
        """Neither checkpoint nor tables have an event: the channel's cursor, which an earlier table may have moved,
        says nothing about them."""
        job = self._job
        if not job.from_start:
            given = job.options.get("startingOffsets", "")
            cursor = offsets(given) if given.startswith("{") else {}
            if lacking := {shard: at for shard, at in cursor.items() if job.began.get(shard, at) < at}:
                self._claim.notes.append(
                    f"the table {job.table} starts again at {_shown(lacking)}, where the trigger was: `start: "
                    "earliest` would fill it with what the log still has of earlier events"
                )
            return
        self._start_at(dict(job.firsts) if job.channel == LOG else {})
        for place in self._quarantines(known):
            if table(job, self._spark, place).schema() is not None and self._has_rows(place):
                self._claim.notes.append(
                    f"the table {job.table} is filled again, and the quarantine table {place} has rows from before: "
                    "events that don't fit will be there twice"
                )

    def _has_rows(self, place: str) -> bool:
        return not read(self._spark, self._job.format, place).limit(1).isEmpty()

    def _check_deleted(self) -> None:
        """Says which events the log has deleted before the query read them."""
        if self._job.channel != LOG or "location" not in self._job.options:
            return
        from .source.reading import open_log

        with open_log(self._job.options["location"]) as log:
            firsts = {str(shard): log.bounds(shard)[0] for shard in log.shards()}
        lacking = {s: (at, firsts[s]) for s, at in self._claim.start.items() if at < firsts.get(s, at)}
        for shard, (at, first) in sorted(lacking.items()):
            self._claim.notes.append(
                f"the log no longer has the events from {at} to {first - 1} of shard {shard}, which the table lacks"
            )

    def _start_at(self, start: dict[str, int]) -> None:
        job, options = self._job, dict(self._job.options)
        self._claim.start = {**job.firsts, **start}
        if job.channel == KAFKA:
            topic = options["subscribe"]
            given = options.get("startingOffsets", "")
            parts = json.loads(given)[topic] if given.startswith("{") else {}
            # -2 is Kafka's word for the beginning
            options["startingOffsets"] = json.dumps({topic: {**dict.fromkeys(parts, -2), **start}})
        else:
            options["startingOffsets"] = json.dumps(start)
        self._claim.job = replace(job, options=options)

    def _learn(self, there: Mapping[str, Table], owners: Mapping[str, Owner | None]) -> None:
        """Takes over what the other query remembered beside its checkpoint: the names of tables, and inferred types."""
        state, job = SchemaState(), self._job
        for place, each in there.items():
            event_type = ALL
            if naming.TYPE in job.table:
                found, before = owners[place], job.table.partition(naming.TYPE)[0]
                name = place.removeprefix(before)[: len(place) - len(job.table) + len(naming.TYPE)]
                event_type = (found.type if found else "") or naming.type_of(name)
                state.tables[event_type] = name
            columns = {f["name"]: f["type"] for f in plain(json.loads(each.schema().json()))["fields"]}  # type: ignore
            infers = job.data_schema.get(event_type, job.data_schema.get(ALL)) == INFER
            if infers and kind(columns.get("data", "binary")) == "struct":
                state.schemas[event_type] = columns["data"]
        SchemaStateFile(self._spark, job.checkpoint).save(state)


def _escaped(char: str) -> str:
    return f"\\{char}" if char in "\\*?[]{}" else char


def _shown(positions: Mapping[str, int]) -> str:
    return ", ".join(f"{at} of shard {shard}" for shard, at in sorted(positions.items())) or "the beginning"
