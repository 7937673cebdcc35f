"""The program that `tidegate spark submit` passes to spark-submit: runs one job until it is told to stop.

Its argument is the job's file. Driver and executors only need Python, PySpark and the wheel of `tidegate spark wheel`.
It prints one line for the start, each batch with rows, and the end. SIGTERM and SIGINT let the current batch finish,
for as long as the job allows. Exit codes: 0 stopped, 1 failed.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from gateway_spark.job import Job
    from gateway_spark.query_run import Progress

PID_FILE = "TIDEGATE_PID_FILE"  # the parent reads our process id from it, to tell us to stop


class Submitted:
    """One job in the session that spark-submit has set up."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._stopping = threading.Event()

    def run(self) -> None:
        """Runs the query until it is told to stop; raises its error otherwise."""
        from pyspark.sql import SparkSession

        from gateway_spark.batch import Batches
        from gateway_spark.query_run import Progress, finish, start
        from gateway_spark.tables.owner import check_owner

        locks = self._locks()
        check_owner(self.job)
        spark = SparkSession.builder.getOrCreate()
        try:
            # after the session, which installs its own handler for Ctrl-C
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._stop)
            batches = Batches(self.job)
            query = start(spark, self.job, batches)
            progress = Progress(query, batches)
            self._say(f"running, into {self.job.format} at {self.job.table}", spark)
            for note in batches.notes:
                self._say(note)
            self._follow(query, progress)
            finish(query, self.job.finish_s)
            self._tell(progress)
            self._say("stopped")
        finally:
            spark.stop()
            del locks

    def _locks(self) -> list[Any]:
        """If table and checkpoint are on this machine, no gateway may write there meanwhile."""
        from gateway_spark.processes import Lock, lock_of
        from gateway_spark.tables.owner import local_path

        checkpoint, table = local_path(self.job.checkpoint), local_path(self.job.table)
        paths = [checkpoint.with_name(f"{checkpoint.name}.lock")] if checkpoint else []
        if table is not None:
            paths.append(lock_of(table, self.job.format))
        locks = [Lock(path) for path in paths]
        for lock in locks:
            lock.acquire()
        return locks

    def _stop(self, number: int, frame: object) -> None:
        self._stopping.set()

    def _follow(self, query: StreamingQuery, progress: Progress) -> None:
        from gateway_spark.query_run import POLL_S

        while query.isActive and not self._stopping.is_set():
            self._tell(progress)
            self._stopping.wait(POLL_S)
        if not query.isActive and (error := query.exception()) is not None:
            raise error

    def _tell(self, progress: Progress) -> None:
        for facts in progress.new():
            if facts["rows"]:
                self._say(batch_line(facts))

    def _say(self, text: str, spark: SparkSession | None = None) -> None:
        at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}Z"
        where = f" (Spark {spark.version}, {spark.sparkContext.applicationId})" if spark else ""
        print(f"{at} tidegate {self.job.name}: {text}{where}", flush=True)


def batch_line(facts: Mapping[str, Any]) -> str:
    """A batch in one line: `batch=3 rows=500 rows_per_s=1200.5 batch_s=0.4 quarantined=0 ends=0:1500,1:900`."""
    ends = ",".join(f"{shard}:{end}" for shard, end in sorted(facts["ends"].items()))
    numbers = ("batch", "rows", "rows_per_s", "batch_s", "quarantined")
    return " ".join([*(f"{name}={facts[name]}" for name in numbers), f"ends={ends}"])


def read_job(name: str) -> Job:
    """The job in a file: at its path or, on a cluster, among the files that spark-submit has shipped."""
    from pyspark import SparkFiles
    from pyspark.sql import SparkSession

    from gateway_spark.job import Job

    file = Path(name)
    if not file.exists():
        SparkSession.builder.getOrCreate()
        file = Path(SparkFiles.get(file.name))
    return Job.parse(file.read_bytes())


def _end_with_jvm() -> None:
    """Ends with spark-submit's JVM, which holds the other end of our standard input."""
    sys.stdin.buffer.read()
    os._exit(3)


def main() -> int:
    if file := os.environ.pop(PID_FILE, ""):
        Path(file).write_text(str(os.getpid()))
        # only that parent is known to keep our input open
        threading.Thread(target=_end_with_jvm, daemon=True).start()
    scratch = tempfile.mkdtemp(prefix="tidegate-")
    name = "job"
    try:
        job = replace(read_job(sys.argv[1]), home=scratch)
        name = job.name
        Submitted(job).run()
    except Exception as e:
        from gateway_spark.query_run import one_line

        print(f"tidegate {name}: {one_line(e)}", file=sys.stderr, flush=True)
        return 1
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return 0


if __name__ == "__main__":
    status = main()
    with suppress(OSError):
        sys.stdout.flush()
    os._exit(status)  # Py4J's exit handlers would talk to a JVM that is shutting down
