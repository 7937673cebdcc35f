"""The process that runs Spark for the sink: `python -m gateway_spark.driver`.

Standard input: one line with the job (`Job`), then either "stop" (finish the batch, end) or its end, which means that
the gateway died: then this process and its JVM end at once. Standard output: one JSON line for each change
(`job.report`). Everything that Spark prints goes to standard error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway_java import jars, java

from .batch import Batches
from .job import Job, report
from .processes import Lock
from .query import DELTA, environment, settings
from .roads import events
from .rows import check_owner, local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POLL_S = 0.1
_PYTHON_ERROR = re.compile(r"^\s*((?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception|Refused)): (.+)", re.MULTILINE)


class Driver:
    """One job, from the lock to the last report."""

    def __init__(self, job: Job, reports: int) -> None:
        self.job = job
        self.stopping = threading.Event()
        self.started = False
        self._reports = reports
        self._jvm: Any = None  # the Popen of spark-submit, which becomes the JVM
        self._seen = ""  # timestamp of the last progress that was reported
        self._scratch = Path(job.home) / "scratch"
        self._batches = Batches(job)

    def report(self, state: str, **facts: Any) -> None:
        os.write(self._reports, report(state, **facts))

    def run(self) -> None:
        """Runs the query until it is told to stop; raises what ends it otherwise."""
        self.report("starting")
        locks = self._lock()
        check_owner(self.job)
        spark = self._session(locks)
        query = self._start(spark)
        self.started = True
        self.report("running")
        self._follow(query)
        self._finish(query)
        self.report("stopped")

    def end_jvm(self) -> None:
        """Ends the JVM at once. It may be cut anywhere: what counts of a batch is decided by a rename."""
        if self._jvm is not None:
            self._jvm.kill()

    def jvm_end(self) -> str:
        """How the JVM ended, "" where it lives: what Py4J says then is of no help."""
        if self._jvm is None:
            return ""
        with suppress(subprocess.TimeoutExpired):
            status = self._jvm.wait(0.5)
            return f"Spark's JVM was killed by signal {-status}" if status < 0 else f"Spark's JVM ended with {status}"
        return ""

    def clean(self) -> None:
        """Ends the JVM and deletes its temporary files."""
        self.end_jvm()
        if self._jvm is not None:
            self._jvm.wait()
            self._jvm.stdin.close()
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _lock(self) -> list[Lock]:
        checkpoint, table = local_path(self.job.checkpoint), local_path(self.job.table)
        locks = [Lock(checkpoint.with_name(checkpoint.name + ".lock") if checkpoint else Path(self.job.home, "lock"))]
        if table is not None:
            locks.append(Lock(table / "_tidegate.lock"))  # Spark takes no notice of names that begin with _
        for lock in locks:
            lock.acquire()
        return locks

    def _session(self, locks: list[Lock]) -> SparkSession:
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession

        found = java.find()
        os.environ.update(environment(found))
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir(parents=True)
        delta = jars.fetch(DELTA, found) if self.job.format == "delta" else []
        conf = settings(
            master=self.job.master,
            app="tidegate spark sink",
            delta=delta,
            memory=self.job.memory,
            scratch=str(self._scratch),
            more=self.job.conf,
        )
        spark_conf = SparkConf(loadDefaults=False).setAll(list(conf.items()))
        # PySpark would start the JVM by itself, but without the descriptors that keep the locks held
        gateway = launch_gateway(  # type: ignore[no-untyped-call]
            spark_conf, {"pass_fds": [lock.fileno() for lock in locks]}
        )
        self._jvm = gateway.proc
        for lock in locks:
            lock.add_jvm(self._jvm.pid)
        SparkContext(gateway=gateway, conf=spark_conf)
        return SparkSession.builder.getOrCreate()

    def _start(self, spark: SparkSession) -> StreamingQuery:
        writer = events(self.job, spark).writeStream.foreachBatch(self._batches.write)
        writer = writer.option("checkpointLocation", self.job.checkpoint)
        return writer.trigger(processingTime=f"{self.job.interval_ms} milliseconds").start()

    def _follow(self, query: StreamingQuery) -> None:
        while query.isActive and not self.stopping.is_set():
            self._progress(query)
            self.stopping.wait(POLL_S)
        if not query.isActive and (error := query.exception()) is not None:
            raise error

    def _progress(self, query: StreamingQuery) -> None:
        last = query.lastProgress
        if last is None or last.timestamp <= self._seen:
            return
        # progress is made known after the commit of its batch; a batch may be shorter than our poll, so none is skipped
        for progress in query.recentProgress:
            if progress.timestamp > self._seen and progress.sources:
                self._report_batch(progress)
        self._seen = last.timestamp

    def _report_batch(self, progress: Any) -> None:
        from msgspec.json import decode

        self.report(
            "progress",
            batch=progress.batchId,
            rows=progress.numInputRows,
            rows_per_s=round(progress.processedRowsPerSecond, 1) if progress.numInputRows else 0.0,
            batch_s=progress.batchDuration / 1000,
            ends=decode(progress.sources[0].endOffset),
        )

    def _finish(self, query: StreamingQuery) -> None:
        """Lets the batch under way end, for a while, and stops the query."""
        end = time.monotonic() + self.job.finish_s
        while query.status["isTriggerActive"] and time.monotonic() < end:
            seen = self._seen
            self._progress(query)
            if self._seen != seen:
                break
            time.sleep(POLL_S / 2)
        query.stop()
        self._progress(query)


def one_line(error: BaseException) -> str:
    """An error for people: its first line, and the Python error in a worker that caused it where there is one."""
    text = str(error).strip() or type(error).__name__
    first = text.splitlines()[0].strip()
    causes = [f"{kind}: {said}" for kind, said in _PYTHON_ERROR.findall(text)]
    shown = f"{first} ({causes[-1]})" if causes and causes[-1] not in first else first
    return shown[:1000]


def _watch(driver: Driver) -> None:
    for line in sys.stdin.buffer:
        if line.strip() == b"stop":
            driver.stopping.set()
            if not driver.started:  # nothing to finish: don't wait until all is up
                break
    driver.end_jvm()
    os._exit(3)


def main() -> int:
    """The process's main function; its exit status."""
    reports = os.dup(1)
    os.dup2(2, 1)  # what Spark, the JVM and the workers print must not mix with the reports
    driver = Driver(Job.parse(sys.stdin.buffer.readline()), reports)
    threading.Thread(target=_watch, args=(driver,), daemon=True).start()
    try:
        driver.run()
    except Exception as e:
        driver.report("failed", error=driver.jvm_end() or one_line(e))
        return 1
    finally:
        driver.clean()
    return 0


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    os._exit(status)  # Py4J's exit handlers would talk to the JVM that is gone
