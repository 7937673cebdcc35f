"""Streaming queries over a log, for tests of what a table and its query know of each other: in the tests' session,
or in one of another process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway_spark.batch import Batches
from gateway_spark.job import Job
from gateway_spark.query_run import writer
from gateway_spark.tables import read

from gateway_core.contract.event import Event
from tests.spark.conftest import Log


class Running(ABC):
    """A query that was made, and is started."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def drain(self) -> None:
        """Waits until it has all that is there; raises its error."""

    @abstractmethod
    def stop(self) -> list[str]:
        """Stops it; gives what it noted."""


class Queries(ABC):
    """Queries over a log."""

    def __init__(self, log: Log, folder: Path) -> None:
        self.log = log
        self.folder = folder
        self._written = 0

    @abstractmethod
    def make(self, job: Job) -> Running:
        """A query that is not started yet. Raises `SparkFault` if its tables don't take it."""

    @abstractmethod
    def ids(self, job: Job, location: str = "") -> list[int]:
        """The ids of the rows, in order, in the job's table or another one."""

    @abstractmethod
    def forget(self, job: Job) -> None:
        """Makes the job's table as an earlier version left it."""

    def job(self, trigger: str, **options: Any) -> Job:
        """A trigger's job with the default checkpoint, that starts with the oldest event."""
        source = {"location": str(self.log.folder), "startingOffsets": '{"0": 1}', "maxEventsPerTrigger": "2"}
        job = Job(
            source,
            str(self.folder / "table"),
            str(self.folder / trigger / "checkpoint"),
            str(self.folder / trigger),
            name=trigger,
            data_schema={"*": "n INT"},
        )
        return replace(job, **options)

    def send(self, *data: str, type: str = "made") -> None:
        for text in data:
            self._written += 1
            id = str(self._written)
            attributes = {"specversion": "1.0", "id": id, "source": "/s", "type": type}
            self.log.append(Event(attributes, text.encode(), json_data=True))

    def run(self, job: Job, before: Callable[[], Any] = lambda: None) -> list[str]:
        """Runs a query until it has all that is there; what it noted. `before` its first batch something may happen."""
        made = self.make(job)
        before()
        made.start()
        try:
            made.drain()
        finally:
            notes = made.stop()
        return notes


class LocalQueries(Queries):
    """In the session of the tests."""

    def __init__(self, spark: Any, log: Log, folder: Path) -> None:
        super().__init__(log, folder)
        self.spark = spark

    def make(self, job: Job) -> Running:
        """See `Queries`."""
        self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # as after a restart
        return _Local(self.spark, job)

    def ids(self, job: Job, location: str = "") -> list[int]:
        """See `Queries`."""
        rows = read(self.spark, job.format, location or job.table)
        return sorted(int(r.id) for r in rows.select("id").collect())

    def forget(self, job: Job) -> None:
        """See `Queries`."""
        if job.format == "parquet":
            Path(job.table, "_tidegate_batch").unlink()
            Path(job.table, "._tidegate_batch.crc").unlink(missing_ok=True)
        else:
            self.spark.sql(f"ALTER TABLE delta.`{job.table}` UNSET TBLPROPERTIES ('tidegate.owner')")


class _Local(Running):
    def __init__(self, spark: Any, job: Job) -> None:
        self._batches = Batches(job)
        self._made = writer(spark, job, self._batches).trigger(processingTime="0 seconds")
        self._query: Any = None

    def start(self) -> None:
        self._query = self._made.start()

    def drain(self) -> None:
        self._query.processAllAvailable()

    def stop(self) -> list[str]:
        self._query.stop()
        return self._batches.notes
