"""The sink `spark`: a supervised process streams the broker's log into a table."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import msgspec
from anyio.abc import TaskGroup
from gateway_options.secrecy import shown_url

from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import StartError
from gateway_core.contract.files import folder_fault, private_folder
from gateway_core.contract.interfaces import ReaderFeed
from gateway_core.contract.options import HIDDEN as SECRET
from gateway_core.contract.private_files import keep_private

from .checkpoint import committed, has_batches
from .config import SparkSinkConfig, schemas
from .connect import is_remote
from .errors import NO_JVM
from .job import LOG, Job
from .naming import OTHER, QUARANTINE, TYPE, name_of, quarantine_of
from .query_status import QueryStatus
from .source_options import CHANNELS, HIDDEN, channel_id, options_of
from .supervisor import Supervisor
from .tables.event_row import EventRow, event_row
from .tables.newest_rows import NewestRows, newest, tables
from .tables.owner import has_files, local_path, location_of

SUBMITTED_S = 2.0
"""How often the checkpoint of a submitted query is read."""
log = logging.getLogger("tidegate.spark")


def build(config: SparkSinkConfig, context: BuildContext) -> SparkSink:
    """The constructor of the component."""
    return SparkSink(config, context)


class SparkSink:
    """A `ReadingSink`. Spark's progress is in its checkpoint; the channel is updated after each batch."""

    def __init__(self, config: SparkSinkConfig, context: BuildContext) -> None:
        self._config = config
        self._owner = context.owner
        self._name = context.trigger or "sink"
        self._home = (context.data_dir / "spark" / self._name).absolute()
        if not context.offline and (why := folder_fault(self._home)):
            raise StartError(f"{context.owner}: can't create the folder {self._home}: {why}")
        self._reads = context.worker == 0  # one query covers the shards of all workers
        self._table = location_of(config.path, config.format, config.conf)
        self._quarantine = location_of(config.quarantine, config.format, config.conf) if config.quarantine else ""
        self._feed: ReaderFeed | None = None
        self._supervisor: Supervisor | None = None
        self._checkpoint = location_of(config.checkpoint or str(self._home / "checkpoint"))
        self._stopping = anyio.Event()
        self._status = QueryStatus(context.clock)
        self._untold = False  # whether the channel lacks the table's latest progress
        self._said = ""  # the reason that the process reported for its end; a killed one reports none
        # shown to people, with `{type}` as in the config
        self.address = (
            shown_url(self._table, hidden=config.hides("path"))
            if "://" in self._table
            else f"file:///{SECRET}"
            if config.hides("path")
            else Path(self._table).as_uri().replace(quote(TYPE), TYPE)
        )

    async def start_reading(self, feed: ReaderFeed, tasks: TaskGroup) -> None:
        """Starts the process that runs Spark. Raises `StartError` if the data source can't read the channel."""
        kind = feed.options.get("kind")
        if kind not in CHANNELS:
            raise StartError(f"{self._owner}: the sink spark reads the channels {' and '.join(CHANNELS)}, not {kind!r}")
        if not self._reads:
            self._status.state = "running"  # the first worker reports the state
            return
        self._feed = feed
        self._status.begin(feed.start, 1 if kind == LOG else 0)
        if _from_start(feed) and self._has_nothing():
            self._go_back(feed.options.get("firsts", {}))
        config = self._config
        if config.runs == "submitted":
            self._status.state = "submitted"
            tasks.start_soon(self._watch_submitted)
            return
        private_folder(self._home)
        keep_private(self._home.parent, within=False)  # Spark makes its files as the system's umask says
        self._supervisor = Supervisor(
            "gateway_spark.driver",
            lambda: self.job(feed).line(),
            self._on_line,
            self._on_exit,
            config.restart_delay_s,
            config.restart_delay_max_s,
            config.stop_timeout_s + 5,
        )
        tasks.start_soon(self._supervisor.run)

    async def stop(self) -> None:
        self._stopping.set()
        if self._supervisor is not None:
            await self._supervisor.stop()
        self._status.state = "stopped"

    def state(self) -> dict[str, Any]:
        """See `ReadingSink` and `QueryStatus`. `pid` is the process that runs Spark."""
        pid = self._supervisor.pid if self._supervisor else None
        return self._status.snapshot(self._feed.ends() if self._feed else None, pid)

    @property
    def format(self) -> str:
        """The format of its tables."""
        return self._config.format

    def tables(self) -> dict[str, str]:
        """Its tables by name: "table" and "quarantine", or the names of their folders with one for each event type.
        It looks into folders: call it in a thread."""
        return tables(self._table, self._quarantine)

    def newest_rows(self, table: str, most: int) -> NewestRows:
        """The newest rows of one of its tables. It blocks: call it in a thread. Raises `ValueError` with
        the reason if they can't be read without Spark."""
        location = self.tables().get(table)
        return NewestRows([], [], 0) if location is None else newest(location, self._config.format, most)

    def event_row(self, id: str, source: str, type: str) -> EventRow | None:
        """The row of an event in its table or its quarantine, None if it is not among the newest ones. It blocks: call
        it in a thread. Raises `ValueError` with the reason if the tables can't be read without Spark."""
        for name, location in self._tables_of(type).items():
            if (found := event_row(location, self._config.format, name, id, source)) is not None:
                return found
        return None

    def _tables_of(self, type: str) -> dict[str, str]:
        """The tables that may have an event of this type."""
        known = self.tables()
        if TYPE not in self._table:
            return known
        own = name_of(type)
        of_other = name_of(type, [own])  # if another type has the name
        patterns = (self._table, quarantine_of(self._table, self._quarantine, TYPE))
        folders = (Path(each.replace(TYPE, name)).name for name in (own, of_other, OTHER) for each in patterns)
        return {name: known[name] for name in folders if name in known}

    def job(self, feed: ReaderFeed) -> Job:
        """The query that fills the table from these offsets of a channel."""
        config = self._config
        return Job(
            channel=feed.options["kind"],
            options=options_of(feed, config),
            table=self._table,
            checkpoint=self._checkpoint,
            home=str(self._home),
            format=config.format,
            name=self._name,
            quarantine=self._quarantine,
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
            conf={**HIDDEN, **config.conf},
            packages={name: list(coordinates) for name, coordinates in config.packages.items()},
            ui=config.ui,
            finish_s=config.stop_timeout_s,
            adopt=config.adopt,
            channel_id=channel_id(feed),
            from_start=_from_start(feed),
            firsts=dict(feed.options.get("firsts", {})),
            began=dict(feed.options.get("began", {})),
        )

    def _has_nothing(self) -> bool:
        """Whether there is neither a checkpoint nor a table, as far as this machine can see."""
        checkpoint = local_path(self._checkpoint)
        if checkpoint is None or local_path(self._table) is None or is_remote(self._config.master):
            return False
        return not has_batches(checkpoint) and not any(
            has_files(location)
            for name, location in self.tables().items()
            if name != "quarantine" and not name.endswith(QUARANTINE)
        )

    def _go_back(self, at: Mapping[str, int]) -> None:
        """The query begins there. If the channel takes it to be further, it would call events read, and delete them,
        that the table lacks."""
        known = self._status.committed
        self._follow({**known, **{shard: min(to, known.get(shard, to)) for shard, to in at.items()}})

    async def _watch_submitted(self) -> None:
        """Follows a submitted query by its checkpoint; nothing is known about one on another machine."""
        checkpoint = local_path(self._checkpoint)
        while checkpoint is not None and not self._stopping.is_set():
            if found := committed(checkpoint):
                self._follow(found)
            with anyio.move_on_after(SUBMITTED_S):
                await self._stopping.wait()

    def _on_line(self, line: bytes) -> None:
        report = msgspec.json.decode(line)
        match report.pop("state"):
            case "progress":
                self._on_progress(report)
            case "failed":
                self._said = report["error"]
                self._status.fail(self._said)
            case "begins":
                self._go_back(report["at"])
            case "running":
                self._status.run(report["ui"])
            case "note":
                log.warning("%s: %s", self._owner, report["text"])
            case "starting":
                self._said = ""
                self._status.state = "starting"

    def _on_progress(self, facts: Mapping[str, Any]) -> None:
        assert self._feed is not None
        assert self._supervisor is not None
        caught_up = not facts["rows"] and facts["ends"] == self._feed.ends()
        self._status.progress(facts, caught_up)
        if self._follow(facts["ends"]):
            self._supervisor.good()

    def _follow(self, ends: dict[str, int]) -> bool:
        """Records the progress of the table; returns whether it is new."""
        assert self._feed is not None
        news = self._status.follow(ends)
        if news or self._untold:
            try:
                self._feed.advance(self._status.committed)
                self._untold = False
            except OSError as e:
                # for example a full disk. Until then the channel keeps more events than necessary, which may
                # be why it is full: retries with the next progress report, which comes even without events
                log.warning("%s: the channel can't save the table's progress: %s", self._owner, e)
                self._untold = True
        return news

    def _on_exit(self, status: int, wait_s: float) -> None:
        assert self._supervisor is not None
        error = self._said or f"Spark ended with status {status}"
        if self._said in ("", NO_JVM) and (words := self._supervisor.last_words()):
            error += f": {words}"
        self._status.restart(error)
        log.warning("%s: %s; restarting in %g s", self._owner, error, wait_s)


def _from_start(feed: ReaderFeed) -> bool:
    """Whether a table that has nothing is filled from the channel's first event."""
    return bool(feed.options.get("start", {}).get("kind") == "earliest")
