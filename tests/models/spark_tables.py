"""A streaming query with several targets: a table for each event type, at most one of them, and tables for the rest;
or one table, and one for rows with a fault. Our code decides which number a batch gets in a table (`tables.numbers`),
which types have a table (`data.schemas.Schemas`), and where a batch's rows go (`targets`). Spark's part is the model's:
it plans a batch in its checkpoint, calls our function with its rows, and marks it as committed; after a crash it plans
nothing again, but calls us again with the same number and rows. A table takes a batch's rows at once or not at all.

What must hold (docs/discussion/delivery.md, "Crashes"; README, "What it promises"): every event of a committed batch is
in exactly one table, exactly once, and none is twice in the tables at any time, wherever it crashed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from gateway_spark.data.schema_state import SchemaState
from gateway_spark.data.schemas import Schemas
from gateway_spark.job import Job
from gateway_spark.naming import OTHER, UNKNOWN, quarantine_of
from gateway_spark.tables import numbers
from gateway_spark.targets import targets_of

from tests.models.explorer import Action, Violation

EVENTS = ("y", None, "x", "y", "x")
"""The channel: the type of each event, None for one with a fault. An event's id is its place here."""
MOST = 3
"""Events in a batch."""
QUERY = "query"

Number = Callable[[int, int, str, Mapping[str, Any] | None], int | None]


class File:
    """What the query remembers beside its checkpoint (`schema_state.StateFile`). `saves` is False for a planted bug."""

    def __init__(self, saves: bool = True) -> None:
        self.known = SchemaState()
        self._saves = saves

    def load(self) -> SchemaState:
        return deepcopy(self.known)

    def save(self, known: SchemaState) -> None:
        if self._saves:
            self.known = deepcopy(known)


class Stored:
    """A table in its storage: `batches` has the rows of each number, `noted` what was saved before the last write."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, ...]] = []
        self.noted: dict[str, Any] | None = None


class World:
    """See `explorer.World`. `crashes` is how often the process may end. The others plant bugs: `number` replaces
    `numbers.of_table`, `notes_late` saves the note after the write, `saves` is False if the tables' names are kept in
    memory alone."""

    def __init__(
        self,
        *,
        by_type: bool,
        crashes: int = 2,
        number: Number = numbers.of_table,
        notes_late: bool = False,
        saves: bool = True,
    ) -> None:
        self._number = number
        self._notes_late = notes_late
        self.job = Job({}, "t/{type}" if by_type else "t", "c", "h", max_tables=1)
        self.by_type = by_type
        self.crashes = crashes
        self.file = File(saves)
        self.stored: dict[str, Stored] = {}
        self.planned: list[int] = []  # the end of each batch: the checkpoint's `offsets`
        self.commits = 0
        self.running: Iterator[str] | None = None
        self.step = ""
        self.steps = 0
        self._start()

    def _start(self) -> None:
        none: Any = None
        self.schemas = Schemas(none, self.job, self.file)
        self.opened: dict[str, int] = {}  # a table that is open -> the last number that it is known to have
        self.running, self.step, self.steps = None, "", 0
        if len(self.planned) > self.commits:
            self._run()

    def _run(self) -> None:
        self.running = self._batch(len(self.planned) - 1)
        self.step = next(self.running)

    # -- what may happen

    def actions(self) -> Sequence[Action]:
        crash: list[Action] = [("crash",)] if self.crashes else []
        if self.running is not None:
            return [(self.step,), *crash]
        begin = self.planned[-1] if self.planned else 0
        return [("plan", end) for end in range(begin + 1, min(begin + MOST, len(EVENTS)) + 1)]

    def apply(self, action: Action) -> None:
        if action == ("crash",):
            self.crashes -= 1
            self._start()
        elif action[0] == "plan":
            end = action[1]
            assert isinstance(end, int)
            self.planned.append(end)
            self._run()
        else:
            assert self.running is not None
            self.steps += 1
            self.step = next(self.running, "")
            if not self.step:
                self.running, self.steps = None, 0
        self._check()

    def _batch(self, number: int) -> Iterator[str]:
        """What `Batches.write` does, up to the next thing that lasts. It yields what that is."""
        begin = self.planned[number - 1] if number else 0
        rows = range(begin, self.planned[number])
        if self.by_type:
            yield from self._by_type(rows, number)
        else:
            yield from self._append("t", [r for r in rows if EVENTS[r] is not None], number)
            if bad := [r for r in rows if EVENTS[r] is None]:
                yield from self._append(quarantine_of(self.job.table, "", ""), bad, number)
        yield "commit the batch"
        self.commits = number + 1

    def _by_type(self, rows: Sequence[int], number: int) -> Iterator[str]:
        tables = self.schemas.tables()
        # as `sample_by_type` orders them
        found = sorted({EVENTS[r] for r in rows}, key=lambda t: (t is not None, t not in tables, t or ""))[
            : self.job.max_tables + 2
        ]
        yield "save the names of tables"
        self.schemas.learn({t: (0, None) for t in found if t is not None}, number)
        tables = self.schemas.tables()
        targets = targets_of(found, tables)
        for own in targets.own:
            yield from self._append(f"t/{tables[own]}", [r for r in rows if EVENTS[r] == own], number)
        if targets.beyond:
            beyond = [r for r in rows if EVENTS[r] is not None and EVENTS[r] not in tables]
            yield from self._append(quarantine_of(self.job.table, "", OTHER), beyond, number)
        if targets.unknown:
            unknown = [r for r in rows if EVENTS[r] is None]
            yield from self._append(quarantine_of(self.job.table, "", UNKNOWN), unknown, number)

    def _append(self, location: str, rows: Sequence[int], batch: int) -> Iterator[str]:
        """What `ParquetTable.append` does."""
        table = self.stored.setdefault(location, Stored())
        last = self.opened.setdefault(location, len(table.batches) - 1)
        if location == self.job.table:
            number = numbers.of_query(batch, last, location, self.job.checkpoint)
        else:
            number = self._number(batch, last, QUERY, table.noted)
        if number is None:
            return
        note = {"query": QUERY, "batch": batch, "number": number}
        if location != self.job.table and not self._notes_late:
            yield f"note the batch at {location}"
            table.noted = note
        yield f"write {location}"
        table.batches[number:] = [tuple(rows)]
        self.opened[location] = number
        if location != self.job.table and self._notes_late:
            yield f"note the batch at {location}"
            table.noted = note

    # -- what must hold

    def _check(self) -> None:
        there = [row for table in self.stored.values() for rows in table.batches for row in rows]
        if twice := [row for row in there if there.count(row) > 1]:
            raise Violation(f"event {twice[0]} is in the tables twice")
        end = self.planned[self.commits - 1] if self.commits else 0
        if missing := [row for row in range(end) if row not in there]:
            raise Violation(f"the batch of event {missing[0]} is committed, and the event is in no table")

    def state(self) -> Hashable:
        tables = tuple(
            (name, tuple(table.batches), table.noted and tuple(table.noted.values()))
            for name, table in sorted(self.stored.items())
        )
        known = tuple(self.schemas.tables().items()), tuple(self.file.known.tables.items())
        opened = tuple(sorted(self.opened.items()))
        return tables, known, opened, tuple(self.planned), self.commits, self.step, self.steps, self.crashes

    def end(self) -> None:
        if self.commits < len(self.planned) or not self.planned or self.planned[-1] < len(EVENTS):
            raise Violation("nothing can happen any more, and not all events are in the tables")
