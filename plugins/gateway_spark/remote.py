"""The process that runs Spark for the sink, where that is a Spark Connect server: there is no JVM of ours."""

from __future__ import annotations

from pathlib import Path

from . import connect
from .driver import Driver
from .processes import Lock
from .query_run import POLL_S, Progress, finish


class RemoteDriver(Driver):
    """One job on a server, from the lock to the last report."""

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
