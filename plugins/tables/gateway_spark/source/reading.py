"""The readers of the data source `tidegate`: convert positions of a log to rows. `datasource` describes the options."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from .compatible import LIMITS, ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow, arrow_schema
from .offsets import Offsets, advance, clamp, parse, positions, ranges
from .options import required, whole
from .schema import Batches, Row, decode_events

if TYPE_CHECKING:
    import pyarrow as pa
    from gateway_log.reader import LogReader

ROWS_PER_PARTITION = 50_000
ROWS_PER_BATCH = 10_000


def open_log(location: str) -> LogReader:
    """The log in this folder, read-only."""
    # The only import of another plugin: the log's reader is the public interface to its folder, and a Spark worker
    # process has no gateway. It is imported here, so that `gateway_spark` does not need it until it is used.
    from gateway_log.reader import LogReader

    return LogReader(location)


def with_epochs(location: str, offset: Mapping[str, Any]) -> dict[str, Any]:
    """The offset for Spark to save: the positions, and the epochs of the log they belong to."""
    from gateway_log import epochs

    known, at = {}, positions(offset)
    with open_log(location) as log:
        for shard, position in at.items():
            if id := epochs.tag_for(log.epochs(int(shard)), position):
                known[shard] = id
    return {**at, **({epochs.KEY: known} if known else {})}


def diverged_shards(location: str, offset: Mapping[str, Any]) -> dict[str, int]:
    """The shards that went back since this offset was saved, with the first position whose events may differ."""
    from gateway_log import epochs

    known = epochs.ids(offset)
    found = {}
    with open_log(location) as log:
        there = log.shards()
        for shard, position in positions(offset).items():
            if int(shard) in there:
                following = log.bounds(int(shard))[1]
                at = epochs.diverged_at(log.epochs(int(shard)), following, position, known.get(shard, ""))
                if at is not None:
                    found[shard] = at
    return found


@dataclass(frozen=True, slots=True)
class Range(InputPartition):
    """Positions `first` (inclusive) to `end` (exclusive) of one shard."""

    shard: int
    first: int
    end: int


class Reading:
    """What both readers share: the options, and the work of a task."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.location = required(options, "location", "the broker's log folder")
        self.schema = schema
        self.start = parse(options.get("startingOffsets", "earliest"), "startingOffsets")
        self.end = parse(options.get("endingOffsets", "latest"), "endingOffsets")
        self.size = whole(options, "rowsPerPartition") or ROWS_PER_PARTITION
        self.limit = whole(options, "maxEventsPerTrigger")
        self.filters = options.get("filters", "")
        self.attributes = options.get("attributes", "")
        self.resume = options.get("resumeOffsets", "")
        self.checkpoint = options.get("checkpoint", "CHECKPOINT")

    def bounds(self) -> tuple[Offsets, Offsets]:
        """The first available position of each shard, and the position that its next event will get."""
        with open_log(self.location) as log:
            bounds = {str(shard): log.bounds(shard) for shard in log.shards()}
        return {s: first for s, (first, _) in bounds.items()}, {s: end for s, (_, end) in bounds.items()}

    def check(self, offset: Mapping[str, Any]) -> None:
        """Raises `ValueError` if the log went back since this offset was saved: its new events would count as already
        read."""
        diverged = diverged_shards(self.location, offset)
        if diverged:
            shards = ", ".join(f"{s} (read up to {offset[s]}, the same only before {at})" for s, at in diverged.items())
            raise ValueError(
                f"the log is not the one that was read before: shard {shards}. It was restored or replaced, or lost its"
                " last events in a power failure. Restore the log that was read, or continue where they diverged with"
                f" `tidegate spark rejoin {self.checkpoint} --location {self.location}`: the table then keeps what it"
                " has read after that point, and also gets the new events"
            )

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        return [Range(*r) for r in ranges(start, end, self.size)]

    def read(self, part: Range) -> Iterator[pa.RecordBatch]:
        from .filters import compiled

        batches = Batches(arrow_schema(self.schema), part.shard)
        matches = compiled(self.filters, self.attributes)
        for rows in _parts(self.location, part):
            rows, attributes = decode_events(rows)
            if matches is not None:
                chosen = [matches(r, a) for r, a in zip(rows, attributes, strict=True)]
                rows, attributes = list(compress(rows, chosen)), list(compress(attributes, chosen))
            if rows:
                yield batches.build(rows, attributes)


def _parts(location: str, part: Range) -> Iterator[Sequence[Row]]:
    at = part.first
    with open_log(location) as log:
        # in parts, because a statement that stays open while Spark takes a batch would keep the writer's WAL from
        # shrinking
        while at < part.end and (rows := list(log.read(part.shard, at, part.end, ROWS_PER_BATCH))):
            yield rows
            at = rows[-1].sequence + 1


class BatchReader(DataSourceReader):
    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def partitions(self) -> Sequence[InputPartition]:
        first, end = self._reading.bounds()
        start = clamp(self._reading.start, first, end)
        stop = clamp(self._reading.end, end, end)
        return self._reading.partitions(start, stop) or [Range(0, 0, 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        if partition.first < partition.end:
            yield from self._reading.read(partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are {"shard": next position to read}. A shard that appears later is read from its first event."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._target: Offsets | None = None

    def initialOffset(self) -> dict[str, Any]:
        first, end = self._reading.bounds()
        return with_epochs(self._reading.location, clamp(self._reading.start, first, end))

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._reading.limit) if self._reading.limit else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        first, end = self._reading.bounds()
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        self._reading.check(start)
        return with_epochs(self._reading.location, advance(positions(start), first, self._target or end, most))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return with_epochs(self._reading.location, self._reading.bounds()[1])

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._reading.bounds()[1]

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._reading.check(start)
        self._reading.check(end)  # a batch that was planned before a restart
        # a shard without a start did not exist when the previous batch was planned
        return self._reading.partitions({s: start.get(s, 0) for s in positions(end)}, positions(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        return self._reading.read(partition)


class Spark41StreamReader(StreamReader):
    """The same for Spark 4.1, which says neither where a batch starts nor how much it may read. The queries of a sink
    have the option `resumeOffsets`: where their next new batch starts, `{}` for a new query. Any other query reads
    everything: with `availableNow`, Spark asks only once."""

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading)
        self._at: Mapping[str, Any] = json.loads(reading.resume or "{}")
        self._initial: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:
        # Spark asks for it only after the end of the first batch
        if self._initial is None:
            self._initial = super().initialOffset()
        return dict(self._initial)

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        self._at = self._at or self.initialOffset()
        limit = self.getDefaultReadLimit() if self._reading.resume else ReadAllAvailable()
        self._at = super().latestOffset(dict(self._at), limit)
        return dict(self._at)


def stream_reader(reading: Reading) -> StreamReader:
    """The reader for the installed Spark."""
    return StreamReader(reading) if LIMITS else Spark41StreamReader(reading)
