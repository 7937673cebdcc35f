"""The writers of the data source `tidegate`: each task sends its rows to an ingress. `datasource` describes the
options."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ..errors import SparkFault
from ..source import options as read
from .outgoing import BATCH, Outgoing, check, events
from .posting import Answer, Poster, Target

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_SIZE = 500
BATCH_BYTES = 512 * 1024  # below the smallest default limit of an ingress, 1 MiB
_NAMES = ["url", "batchSize", "maxRetries", "timeout", "token", "caFile", "certFile", "keyFile", "insecure"]
_SPARKS = ["path", "checkpointLocation", "queryName"]


@dataclass
class Written(WriterCommitMessage):
    """The events and requests of one task."""

    events: int
    requests: int


class Writing:
    """What both writers share: the options, and the work of a task."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise ValueError("the data source tidegate can only append: sent events can't be replaced")
        headers = read.prefixed(options, "header.")
        read.check_known(options, [*_NAMES, *_SPARKS], "header.")
        if token := options.get("token"):
            headers["authorization"] = f"Bearer {token}"
        self.size = read.whole(options, "batchSize") or BATCH_SIZE
        self.target = Target(
            read.required(options, "url", "the address of an ingress"),
            headers,
            read.seconds(options, "timeout", 30.0),
            read.count(options, "maxRetries", 10),
            options.get("caFile"),
            options.get("certFile"),
            options.get("keyFile"),
            read.flag(options, "insecure"),
        )
        check(schema.names)

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        from pyspark import TaskContext

        task = TaskContext.get()
        where = f"of partition {task.partitionId()} " if task is not None else ""
        sender = Sender(self.target, self.size)
        try:
            for batch in batches:
                for event in events(batch, where):
                    sender.add(event)
            sender.flush()
        finally:
            sender.close()
        return Written(sender.sent, sender.requests)


class Sender:
    """Sends events in batches, in order. Limits learned from responses apply to the following batches."""

    def __init__(self, target: Target, size: int) -> None:
        self._poster = Poster(target)
        self._shown = target.shown
        self._size = size
        self._bytes = BATCH_BYTES
        self._waiting: list[tuple[Outgoing, bytes]] = []
        self._length = 0
        self.sent = 0

    @property
    def requests(self) -> int:
        return self._poster.requests

    def add(self, event: Outgoing) -> None:
        """Adds an event, and sends the batch once it is full. Raises `SparkFault`, like everything that sends."""
        if not event.batched or self._size == 1:
            self.flush()
            self._alone(event)
            return
        member = event.member()
        if self._length + len(member) > self._bytes:
            self.flush()
        self._waiting.append((event, member))
        self._length += len(member) + 1
        if len(self._waiting) >= self._size:
            self.flush()

    def flush(self) -> None:
        """All added events have been accepted when this returns."""
        waiting, self._waiting, self._length = self._waiting, [], 0
        if waiting:
            self._send(waiting)

    def close(self) -> None:
        self._poster.close()

    def _send(self, events: list[tuple[Outgoing, bytes]]) -> None:
        if len(events) == 1:
            return self._alone(events[0][0])
        body = b"[%b]" % b",".join([member for _, member in events])
        answer = self._poster.post(BATCH, body)
        if answer.ok:
            self.sent += len(events)
        elif answer.status == 413:
            self._bytes = len(body) // 2
            self._halves(events)
        elif answer.status == 415:  # does not accept batches
            self._size = 1
            self._each(event for event, _ in events)
        elif answer.status in (400, 422):
            self._halves(events)  # finds the event that was rejected
        else:
            raise self._fault(answer)
        return None

    def _halves(self, events: list[tuple[Outgoing, bytes]]) -> None:
        middle = len(events) // 2
        self._send(events[:middle])
        self._send(events[middle:])

    def _each(self, events: Iterable[Outgoing]) -> None:
        for event in events:
            self._alone(event)

    def _alone(self, event: Outgoing) -> None:
        answer = self._poster.post(*event.alone())
        if not answer.ok:
            raise self._fault(answer, event)
        self.sent += 1

    def _fault(self, answer: Answer, event: Outgoing | None = None) -> SparkFault:
        return SparkFault(f"{self._shown} refused {event or 'events'}: {answer}")


class EventWriter(DataSourceArrowWriter):
    """`df.write`."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._writing.write(iterator)


class EventStreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`. An interrupted batch is sent again from its beginning."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._writing.write(iterator)
