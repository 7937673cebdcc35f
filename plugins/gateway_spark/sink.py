"""The sink `spark`: a supervised process streams the broker's log into a table."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from anyio.abc import TaskGroup

from gateway_core.component import BuildContext
from gateway_core.errors import StartError
from gateway_core.interfaces import ReaderFeed

from .config import SparkSinkConfig, schemas
from .job import Job
from .rows import local_path
from .supervisor import Supervisor

log = logging.getLogger("tidegate.spark")


def build(config: SparkSinkConfig, context: BuildContext) -> SparkSink:
    """The constructor that the plugin offers."""
    return SparkSink(config, context)


class SparkSink:
    """A `ReadingSink`. Spark's place is its checkpoint; the channel is told of it after each batch."""

    def __init__(self, config: SparkSinkConfig, context: BuildContext) -> None:
        self._config = config
        self._owner = context.owner
        self._name = context.trigger or "sink"
        self._home = (context.data_dir / "spark" / self._name).absolute()
        self._reads = context.worker == 0  # one query covers the shards of all workers
        self._table = _absolute(config.path)
        self._feed: ReaderFeed | None = None
        self._supervisor: Supervisor | None = None
        self._committed: dict[str, int] = {}
        self._said = ""  # what the process gave as the reason of its end; a killed one gives none
        self._facts: dict[str, Any] = {
            "state": "stopped",
            "error": None,
            "batch": None,
            "rows": 0,
            "rows_per_s": 0.0,
            "batch_s": None,
            "parts": {},
            "ui": None,
            "restarts": 0,
        }
        self.address = self._table if "://" in self._table else Path(self._table).as_uri()

    async def start_reading(self, feed: ReaderFeed, tasks: TaskGroup) -> None:
        """Starts the process that runs Spark. Raises `StartError` for a channel that the data source can't read."""
        kind = feed.options.get("kind")
        if kind != "log":
            raise StartError(f"{self._owner}: the sink spark needs a broker whose channel is log, not {kind!r}")
        if not self._reads:
            self._facts["state"] = "running"  # the first worker's word counts
            return
        self._feed = feed
        self._committed = dict(feed.start)
        self._facts["state"] = "starting"
        self._home.mkdir(parents=True, exist_ok=True)
        config = self._config
        self._supervisor = Supervisor(
            "gateway_spark.driver",
            lambda: self._job(feed).line(),
            self._on_line,
            self._on_exit,
            config.restart_delay_s,
            config.restart_delay_max_s,
            config.stop_timeout_s + 5,
        )
        tasks.start_soon(self._supervisor.run)

    async def stop(self) -> None:
        if self._supervisor is not None:
            await self._supervisor.stop()
        self._facts["state"] = "stopped"

    def state(self) -> dict[str, Any]:
        """See `ReadingSink`. `rows` and `restarts` count since the gateway's start; `rows_per_s` is the speed of the
        last batch with rows, `batch_s` how long it took in seconds; `batch` is the number of the last one; `pid` is
        the process that runs Spark."""
        pid = self._supervisor.pid if self._supervisor else None
        return {**self._facts, "lag": self._lag(), "offsets": dict(self._committed), "pid": pid}

    def _lag(self) -> int | None:
        if self._feed is None:
            return None
        return sum(max(0, end - self._committed.get(shard, 1)) for shard, end in self._feed.ends().items())

    def _job(self, feed: ReaderFeed) -> Job:
        config = self._config
        options = {
            "location": str(Path(feed.location).absolute()),
            # where the channel thinks we are; Spark goes by its checkpoint where it has one
            "startingOffsets": msgspec.json.encode(dict(feed.start)).decode(),
            "maxEventsPerTrigger": str(config.max_events_per_batch),
        }
        for name in ("filters", "attributes"):
            if value := feed.options.get(name):
                options[name] = msgspec.json.encode(value).decode()
        return Job(
            options=options,
            table=self._table,
            checkpoint=_absolute(config.checkpoint or str(self._home / "checkpoint")),
            home=str(self._home),
            format=config.format,
            name=self._name,
            quarantine=_absolute(config.quarantine) if config.quarantine else "",
            data_schema=schemas(config),
            evolve=config.evolve,
            infer_sample=config.infer_sample,
            columns=config.columns,
            partition_by=config.partition_by,
            cluster_by=config.cluster_by,
            late_s=config.late_s,
            deduplicate_s=config.deduplicate_s,
            max_tables=config.max_tables,
            master=config.master,
            interval_ms=round(config.trigger_interval_s * 1000),
            memory=config.driver_memory,
            conf=config.conf,
            packages={name: list(coordinates) for name, coordinates in config.packages.items()},
            ui=config.ui,
            finish_s=config.stop_timeout_s,
        )

    def _on_line(self, line: bytes) -> None:
        report = msgspec.json.decode(line)
        match report.pop("state"):
            case "progress":
                self._on_progress(report)
            case "failed":
                self._said = self._facts["error"] = report["error"]
            case "running":
                self._facts.update(report, state="running")
            case "starting":
                self._said = ""
                self._facts["state"] = "starting"

    def _on_progress(self, facts: Mapping[str, Any]) -> None:
        assert self._feed is not None
        assert self._supervisor is not None
        rows, ends = facts["rows"], facts["ends"]
        self._facts.update(batch=facts["batch"], rows=self._facts["rows"] + rows, error=None)
        if rows:
            self._facts.update(rows_per_s=facts["rows_per_s"], batch_s=facts["batch_s"], parts=facts["parts"])
        if dict(ends) != self._committed:
            self._supervisor.good()
            self._committed = dict(ends)
            try:
                self._feed.advance(ends)
            except OSError as e:  # the channel keeps more than it needs until it is told again
                log.warning("%s: the channel can't note how far the table is: %s", self._owner, e)

    def _on_exit(self, status: int, wait_s: float) -> None:
        assert self._supervisor is not None
        words = self._supervisor.last_words()
        error = self._said or f"Spark ended with status {status}{f': {words}' if words else ''}"
        self._facts.update(state="restarting", error=error, restarts=self._facts["restarts"] + 1)
        log.warning("%s: %s; started again in %g s", self._owner, error, wait_s)


def _absolute(place: str) -> str:
    path = local_path(place)
    return place if path is None else str(path.expanduser().absolute())
