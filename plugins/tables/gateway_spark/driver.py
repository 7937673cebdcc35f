"""The process that runs Spark for the sink: `python -m gateway_spark.driver`.

Standard input: one line with the job (`Job`), then "stop" (finish the batch and end). End of input means that the
gateway died: then this process and its JVM end at once. Standard output: one JSON line for each change (`job.report`).
Everything that Spark prints goes to standard error.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway_java import java

from . import connect, unnamed_user
from .batch import Batches
from .errors import NO_JVM, SparkFault
from .job import Job, report
from .launch import hidden_options, launched
from .processes import Lock, lock_of
from .query import environment, jars_of, jvm_options, settings
from .query_run import POLL_S, Progress, finish, one_line, start
from .session_conf import conf_of
from .submit.shipping import shipped
from .tables.owner import check_owner, local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_SETTLED_S = 60.0


class Driver:
    """One job, from the lock to the last report."""

    def __init__(self, job: Job, reports: int) -> None:
        self.job = job
        self.stopping = threading.Event()
        self.started = False
        self._reports = reports
        self._jvm: Any = None  # the Popen of spark-submit, which becomes the JVM
        self._batches: Batches | None = None
        self._archiving: subprocess.Popen[bytes] | None = None
        self._scratch = Path(job.home) / "scratch"

    def report(self, state: str, **facts: Any) -> None:
        os.write(self._reports, report(state, **facts))

    def run(self) -> None:
        """Runs the query until it is told to stop; raises its error otherwise."""
        self.report("starting")
        locks = self._lock()
        check_owner(self.job)
        spark = self._session(locks)
        batches = Batches(self.job)
        query = start(spark, self.job, batches)
        progress = Progress(query, batches)
        self.started = True
        self.report("begins", at=batches.begins)
        self.report("running", ui=spark.sparkContext.uiWebUrl)
        self._batches = batches
        self._follow(query, progress)
        finish(query, self.job.finish_s)
        self._report_batches(progress)
        self.report("stopped")

    def end_jvm(self) -> None:
        """Kills the JVM at once. That is safe at any time: a batch becomes valid by a rename."""
        if self._jvm is not None:
            self._jvm.kill()

    def jvm_end(self) -> str:
        """How the JVM ended, or "" while it lives: Py4J's message would not help."""
        if self._jvm is None:
            return ""
        with suppress(subprocess.TimeoutExpired):
            status = self._jvm.wait(0.5)
            return f"Spark's JVM was killed by signal {-status}" if status < 0 else f"Spark's JVM ended with {status}"
        return ""

    def clean(self) -> None:
        """Ends the JVM and deletes its temporary files."""
        if self._archiving is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._archiving.pid, signal.SIGKILL)
            self._archiving.wait()
        self.end_jvm()
        if self._jvm is not None:
            self._jvm.wait()
            self._jvm.stdin.close()
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _lock(self) -> list[Lock]:
        checkpoint, table = local_path(self.job.checkpoint), local_path(self.job.table)
        locks = [Lock(checkpoint.with_name(checkpoint.name + ".lock") if checkpoint else Path(self.job.home, "lock"))]
        if table is not None:
            locks.append(Lock(lock_of(table, self.job.format)))
        for lock in locks:
            lock.acquire()
        return locks

    def _session(self, locks: list[Lock]) -> SparkSession:
        from pyspark import SparkConf, SparkContext
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession

        job, found = self.job, java.find()
        os.environ.update(environment(found, job.master))
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir(parents=True)
        os.environ["TMPDIR"] = tempfile.tempdir = str(self._scratch)
        conf = settings(
            master=job.master,
            app=f"tidegate {job.name}",
            others=jars_of(job, found),
            memory=job.memory,
            scratch=str(self._scratch),
            more=hidden_options(conf_of(job), self._scratch),
            jvm=jvm_options(found),
        )
        conf = shipped(conf, self._scratch)
        spark_conf = SparkConf(loadDefaults=False).setAll(list(conf.items()))
        # PySpark could start the JVM itself, but without the descriptors that hold the locks
        try:
            gateway = launched(conf, self._scratch, pass_fds=[lock.fileno() for lock in locks])
        except PySparkRuntimeError as e:
            raise SparkFault(NO_JVM) from e
        self._jvm = gateway.proc
        for lock in locks:
            lock.add_jvm(self._jvm.pid)
        unnamed_user.name_user(gateway.jvm)
        SparkContext(gateway=gateway, conf=spark_conf)
        return SparkSession.builder.getOrCreate()

    def _follow(self, query: StreamingQuery, progress: Progress) -> None:
        settled = time.monotonic() + _SETTLED_S
        while query.isActive and not self.stopping.is_set():
            if self._archiving is None and time.monotonic() > settled:
                # speeds up the next start; ends at once if the archive exists
                command = [sys.executable, "-P", "-m", "gateway_spark.class_archive"]
                self._archiving = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
            self._report_batches(progress)
            self.stopping.wait(POLL_S)
        if not query.isActive and (error := query.exception()) is not None:
            raise error

    def _report_batches(self, progress: Progress) -> None:
        while self._batches and self._batches.notes:
            self.report("note", text=self._batches.notes.pop(0))
        for facts in progress.new():
            self.report("progress", **facts)


class RemoteDriver(Driver):
    """One job on a Spark Connect server: there is no JVM of ours."""

    def run(self) -> None:
        """See `Driver`."""
        self.report("starting")
        job = self.job
        connect.check(job)
        lock = Lock(Path(job.home) / "lock")
        lock.acquire()
        pair = connect.start(connect.session(job), job)
        progress = Progress(pair.main, pair)
        self.started = True
        self.report("running", ui=None)
        while pair.main.isActive and not self.stopping.is_set():
            pair.look()
            self._report_batches(progress)
            self.stopping.wait(POLL_S)
        if not pair.main.isActive and (error := pair.main.exception()) is not None:
            raise error
        finish(pair.main, job.finish_s)
        finish(pair.quarantine, job.finish_s)
        self._report_batches(progress)
        lock.release()
        self.report("stopped")


def _driver(job: Job, reports: int) -> Driver:
    return (RemoteDriver if connect.is_remote(job.master) else Driver)(job, reports)


def _watch(driver: Driver) -> None:
    for line in sys.stdin.buffer:
        if line.strip() == b"stop":
            driver.stopping.set()
            if not driver.started:  # nothing to finish: don't wait for the start
                break
    driver.end_jvm()
    os._exit(3)


def main() -> int:
    """The process's main function; its exit status."""
    reports = os.dup(1)
    os.dup2(2, 1)  # output of Spark, the JVM and the workers must not mix with the reports
    driver = _driver(Job.parse(sys.stdin.buffer.readline()), reports)
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
