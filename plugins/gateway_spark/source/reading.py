"""The readers of the data source `tidegate`: positions of a log become rows. See `datasource` for the options."""

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
from .schema import Batches, Row, decode

if TYPE_CHECKING:
    import pyarrow as pa
    from gateway_log.reader import LogReader

ROWS_PER_PARTITION = 50_000
ROWS_PER_BATCH = 10_000


def open_log(location: str) -> LogReader:
    """The log in this folder, read-only."""
    # The one import of another plugin: the log's reader is the public way to read its folder, and a Spark worker
    # process has no gateway to ask for it. It is imported here so that `gateway_spark` works without it until used.
    from gateway_log.reader import LogReader

    return LogReader(location)


def with_epochs(location: str, offset: Mapping[str, Any]) -> dict[str, Any]:
    """What Spark is to keep: the positions, and the epochs that say of which log they are."""
    from gateway_log import epochs

    known, places = {}, positions(offset)
    with open_log(location) as log:
        for shard, position in places.items():
            if id := epochs.of_place(log.epochs(int(shard)), position):
                known[shard] = id
    return {**places, **({epochs.KEY: known} if known else {})}


def moved(location: str, offset: Mapping[str, Any]) -> dict[str, int]:
    """The shards that went back since this offset was kept, with the position from which on they hold other events."""
    from gateway_log import epochs

    known = epochs.ids(offset)
    found = {}
    with open_log(location) as log:
        there = log.shards()
        for shard, position in positions(offset).items():
            if int(shard) in there:
                following = log.bounds(int(shard))[1]
                at = epochs.parted(log.epochs(int(shard)), following, position, known.get(shard, ""))
                if at is not None:
                    found[shard] = at
    return found


@dataclass(frozen=True, slots=True)
class Range(InputPartition):
    """Positions `first` (included) to `end` (excluded) of one shard."""

    shard: int
    first: int
    end: int


class Reading:
    """What both readers share: the options, and the work of one task."""

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
        """The first position that each shard still has, and the one its next event will get."""
        with open_log(self.location) as log:
            bounds = {str(shard): log.bounds(shard) for shard in log.shards()}
        return {s: first for s, (first, _) in bounds.items()}, {s: end for s, (_, end) in bounds.items()}

    def check(self, offset: Mapping[str, Any]) -> None:
        """Raises `ValueError` if the log went back since this offset was kept: its new events would be taken for read
        ones."""
        places = moved(self.location, offset)
        if places:
            shards = ", ".join(f"{s} (read up to {offset[s]}, the same only before {at})" for s, at in places.items())
            raise ValueError(
                f"the log is not the one that was read before: shard {shards}. It was restored or replaced, or lost its"
                " last events with the machine's power. Bring the log back that was read, or go on from where they part"
                f" with `tidegate spark rejoin {self.checkpoint} --location {self.location}`: the table keeps what it"
                " has read from there on, and gets what is there now"
            )

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        return [Range(*r) for r in ranges(start, end, self.size)]

    def read(self, part: Range) -> Iterator[pa.RecordBatch]:
        from .filters import compiled

        batches = Batches(arrow_schema(self.schema), part.shard)
        matches = compiled(self.filters, self.attributes)
        for rows in _parts(self.location, part):
            attributes = decode(rows)
            if matches is not None:
                chosen = [matches(r, a) for r, a in zip(rows, attributes, strict=True)]
                rows, attributes = list(compress(rows, chosen)), list(compress(attributes, chosen))
            if rows:
                yield batches.build(rows, attributes)


def _parts(location: str, part: Range) -> Iterator[Sequence[Row]]:
    at = part.first
    with open_log(location) as log:
        # in parts, because a statement left open while Spark takes a batch keeps the writer's WAL from shrinking
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
        # a shard without a start was not there when the batch before it was planned
        return self._reading.partitions({s: start.get(s, 0) for s in positions(end)}, positions(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        return self._reading.read(partition)


class UnaskedStreamReader(StreamReader):
    """The same for a Spark that says neither where a batch starts nor how much it may take. A query that is limited
    has the option `resumeOffsets`: where its next new batch starts, `{}` for a new query. Any other takes all there
    is: with `availableNow`, Spark asks only once."""

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading)
        self._at: Mapping[str, Any] = json.loads(reading.resume or "{}")

    def initialOffset(self) -> dict[str, Any]:
        self._at = super().initialOffset()
        return dict(self._at)

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        limit = self.getDefaultReadLimit() if self._reading.resume else ReadAllAvailable()
        self._at = super().latestOffset(dict(self._at), limit)
        return dict(self._at)


def stream_reader(reading: Reading) -> StreamReader:
    """The reader for the Spark that is installed."""
    return StreamReader(reading) if LIMITS else UnaskedStreamReader(reading)
