"""Runs a trigger's table on a cluster: the sink's job, through spark-submit."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import anyio
from gateway_java import java
from gateway_java.child import Child

from gateway_core.contract.errors import StartError

from ..job import KAFKA, Job
from ..launch import JVM_OPTIONS, hidden_options, properties, write_private
from ..query import environment, jars_of, settings
from ..session_conf import conf_of, on_this_machine
from ..tables.owner import local_path
from . import submitted
from .shipping import UTC, shipped
from .standalone import spark_home

if TYPE_CHECKING:
    from gateway_core.contract.config_model import GatewayConfig
    from gateway_core.contract.configs import Registry
    from gateway_core.contract.settings import Settings
    from gateway_core.pipeline.broker import ReadingTrigger

DeployMode = Literal["client", "cluster"]
_POLL_S = 0.1
_STOPPED = (0, 130, 143, -signal.SIGTERM)


def job_of(config: GatewayConfig, settings: Settings, registry: Registry, name: str) -> Job:
    """The job of a trigger, as the gateway itself would run it. Raises `StartError` if there is no such trigger, it has
    no Spark table, the gateway runs it, or Kafka can't be reached for its offsets."""
    from gateway_core.config.registry import Registry as CoreRegistry
    from gateway_core.contract.clock import SystemClock
    from gateway_core.pipeline.broker import ReadingTrigger
    from gateway_core.runtime.build import Builder

    if name not in config.triggers:
        raise StartError(f"there is no trigger {name!r}; there are: {', '.join(config.triggers) or 'none'}")
    wanted = config.triggers[name]
    if wanted.subscriber.name != "spark":
        raise StartError(f"triggers.{name}: its subscriber is {wanted.subscriber.name}, not spark")
    if getattr(wanted.subscriber.options, "runs", "") != "submitted":
        raise StartError(
            f"triggers.{name}.subscriber.spark: the gateway runs this query itself; set `runs: submitted` there and "
            "reload the gateway, so that it leaves the table to the cluster"
        )
    if wanted.broker not in config.brokers:
        raise StartError(f"triggers.{name}: there is no broker {wanted.broker!r}")
    channel = config.brokers[wanted.broker].channel.name
    if channel != KAFKA:
        raise StartError(
            f"triggers.{name}: a submitted query needs Kafka, but broker {wanted.broker!r} has the channel {channel}; "
            "use the channel kafka, or let the gateway run the query (`runs: gateway`, with `master: spark://…`)"
        )
    alone = config.model_copy(
        update={
            "brokers": {k: v for k, v in config.brokers.items() if k == wanted.broker},
            "triggers": {name: wanted},
            "bridges": {},
            "observers": [],
        }
    )
    assert isinstance(registry, CoreRegistry)
    trigger = Builder(alone, settings, registry, SystemClock()).build().triggers[name]
    assert isinstance(trigger, ReadingTrigger)
    return anyio.run(_job, trigger)


async def _job(trigger: ReadingTrigger) -> Job:
    """Attaches to the channel like a gateway, just long enough to get the trigger's offsets."""
    channel = trigger.broker.channel
    async with anyio.create_task_group() as tasks:
        await channel.start(tasks)
        try:
            trigger.attach()
            await channel.open()
            job: Job = trigger.sink.job(trigger.filtered)  # type: ignore[attr-defined]  # it is a SparkSink
        finally:
            await channel.stop()
        tasks.cancel_scope.cancel()
    return job


@dataclass(frozen=True)
class Submission:
    """The arguments of spark-submit."""

    job: Job
    deploy_mode: DeployMode = "client"
    wheel: Path | None = None
    more: Sequence[str] = ()

    def notes(self) -> list[str]:
        """Hints about likely surprises."""
        if on_this_machine(self.job.master):
            return []
        locations = {"table": self.job.table, "checkpoint": self.job.checkpoint}
        return [
            f"the {what} {location} is a folder: driver and workers must share it (a shared file system), or use a "
            "location that all can reach (s3a://…, hdfs://…)"
            for what, location in locations.items()
            if local_path(location) is not None
        ]

    def command(self, folder: Path) -> list[str]:
        """The command; writes the files that it names into a folder. It contains no secrets: job and settings are in
        files that only this user can read."""
        found = java.find()
        job_file = write_private(folder / "tidegate-job.json", self.job.line())
        conf = self._conf(found, folder)
        conf_file = write_private(folder / "tidegate.conf", properties(conf))
        cluster = self.deploy_mode == "cluster"
        return [
            str(submit_program()),
            *("--deploy-mode", self.deploy_mode, "--properties-file", str(conf_file), "--load-spark-defaults"),
            *(("--files", str(job_file)) if cluster else ()),
            *self.more,
            str(Path(submitted.__file__).absolute()),
            job_file.name if cluster else str(job_file),
        ]

    def environment(self) -> dict[str, str]:
        """The environment for spark-submit: the Java that was found, and the Python to use (see
        `query.environment`)."""
        ours = environment(java.find(), self.job.master)
        ours["SPARK_HOME"] = str(submit_program().parents[1])
        if self.deploy_mode == "cluster":
            del ours["PYSPARK_DRIVER_PYTHON"]
        return {**os.environ, **ours}

    def _conf(self, found: java.Java, folder: Path) -> dict[str, str]:
        job = self.job
        conf = settings(
            master=job.master,
            app=f"tidegate {job.name}",
            others=jars_of(job, found),
            memory=job.memory,
            more=conf_of(job) if self.deploy_mode == "cluster" else hidden_options(conf_of(job), folder),
        )
        if self.deploy_mode == "cluster":  # its driver has none of our files
            conf[JVM_OPTIONS] = f"{UTC} {job.conf.get(JVM_OPTIONS, '')}".strip()
        return shipped(conf, folder, self.wheel)


def run(submission: Submission) -> int:
    """Runs spark-submit until it ends; the first SIGTERM or SIGINT lets the current batch finish, the second does not.
    Returns its exit code, or 0 if it was stopped. Raises `StartError`."""
    told: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: told.append(number))
    with tempfile.TemporaryDirectory(prefix="tidegate-submit-") as made:
        folder = Path(made)
        pid_file = folder / "pid"
        env = submission.environment()
        if submission.deploy_mode == "client":
            env[submitted.PID_FILE] = str(pid_file)
        try:
            child = Child(submission.command(folder), env=env)
        except OSError as e:
            raise StartError(f"can't run spark-submit: {e}") from e
        heard = 0
        while (code := child.ended()) is None:
            if len(told) > heard:
                heard += 1
                _stop(child, pid_file if heard == 1 else None)
            time.sleep(_POLL_S)
    return 0 if told and code in _STOPPED else abs(code)


def submit_program() -> Path:
    """The spark-submit of `SPARK_HOME`, else PySpark's. Raises `StartError` and `MissingExtra`."""
    home = os.environ.get("SPARK_HOME")
    program = (Path(home) if home else spark_home()) / "bin" / "spark-submit"
    if not os.access(program, os.X_OK):
        raise StartError(f"{program} can't be run; {'SPARK_HOME names no Spark' if home else 'reinstall PySpark'}")
    return program


def _stop(child: Child, pid_file: Path | None) -> None:
    """Signals the job's Python process if it is known, else spark-submit itself."""
    pid = child.pid
    if pid_file is not None:
        with suppress(OSError, ValueError):
            pid = int(pid_file.read_text())
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
