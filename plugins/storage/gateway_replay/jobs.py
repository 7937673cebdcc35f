"""The replays of a gateway: those that run, those that are paused, and the last that ended."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio
import msgspec
from anyio import to_thread
from anyio.abc import TaskGroup
from gateway_api.routes import Problem
from gateway_audit_log.log import audit_log

from gateway_core.contract.errors import StorageError
from gateway_core.contract.event import Event
from gateway_core.contract.replayable import Replayable
from gateway_core.contract.services import GatewayView

from . import selection
from .job import ENDED, MOST_KEPT, Counts, Job, JobFiles, Wanted, document
from .runner import Run
from .sending import sink_of

MOST_RUNNING = 16
MOST_RATE = 100_000
_STOP_S = 10.0


@dataclass(frozen=True, slots=True)
class Preview:
    """What a replay would send."""

    broker: str
    counts: Counts


class Jobs:
    """Starts, pauses, resumes and ends replays. They run in the first worker, which answers all requests."""

    def __init__(self, gateway: GatewayView) -> None:
        self._gateway = gateway
        self._files = JobFiles(gateway.data_dir / "replay")
        self._tasks: TaskGroup | None = None
        self._runs: dict[str, Run] = {}
        self._idle = anyio.Event()
        self._idle.set()
        self.known: dict[str, Job] = {}
        self.failed = 0
        """How many have failed since the start."""

    async def begin(self, tasks: TaskGroup) -> None:
        """Loads all, and continues those that ran."""
        self._tasks = tasks
        for job in await to_thread.run_sync(lambda: [*self._files.load()]):
            self.known[job.id] = job
            if job.state in ("counting", "running"):
                try:
                    self._start(job)
                except Problem as e:
                    job.state, job.detail = "failed", e.detail
        self._forget_old()
        tasks.start_soon(self._release)

    async def _release(self) -> None:
        """Of replays that ended while they could not say so, or whose files are gone, nothing is kept any more."""
        while not self._gateway.started:
            if self._gateway.stopping:
                return
            await anyio.sleep(0.1)
        for broker in [*self._gateway.topology.brokers.values()]:
            if isinstance(broker.channel, Replayable):
                with suppress(StorageError):
                    await broker.channel.keep_only({job.id for job in self.known.values() if not job.ended})

    async def stop(self) -> None:
        """Returns once the progress of all is written."""
        self._tasks = None
        for run in self._runs.values():
            run.over = True
            run.wake()
        with anyio.move_on_after(_STOP_S):
            await self._idle.wait()

    @property
    def active(self) -> Iterator[Job]:
        """Those that run."""
        return (run.job for run in self._runs.values())

    def told_of(self, trigger: str, event: Event) -> Iterator[str]:
        """What running replays to this trigger do with an event; empty if nothing."""
        return (run.told_of(event) for run in self._runs.values() if run.job.wanted.trigger == trigger)

    def find(self, id_: str) -> Job:
        """The replay with this id. Raises `Problem`."""
        found = self.known.get(id_)
        if found is None:
            raise Problem(404, f"there is no replay {id_!r}; `tidegate replay list` shows all")
        return found

    async def preview(self, wanted: Wanted) -> Preview:
        """Counts what a replay would send. Raises `Problem`."""
        broker, parts = await self._selected(wanted)
        trigger, _, channel = selection.trigger_of(self._gateway, wanted.trigger)
        extra = selection.extra_filter(self._gateway, wanted.filters)
        matches = selection.matcher(trigger, extra, wanted.from_ns, wanted.to_ns)
        try:
            return Preview(broker, await selection.counted(channel, parts, matches))
        except StorageError as e:
            raise Problem(503, str(e)) from e

    async def start(self, wanted: Wanted, who: str, where: str) -> Job:
        """Starts a replay; it is durable when this returns. Raises `Problem`."""
        if self._tasks is None or self._gateway.stopping:
            raise Problem(503, "the gateway is stopping")
        broker, parts = await self._selected(wanted)
        self._check_room(wanted.trigger)
        job = Job(secrets.token_hex(6), who, where or "socket", broker, wanted, parts, self._gateway.clock.now_ns())
        try:
            await to_thread.run_sync(self._files.save, msgspec.json.encode(job), job.id)
        except OSError as e:
            raise Problem(503, f"the replay can't be written down: {e.strerror or e}") from e
        self._check_room(wanted.trigger)  # another one may have come meanwhile
        self.known[job.id] = job
        self._start(job)
        self._forget_old()
        return job

    async def _selected(self, wanted: Wanted) -> tuple[str, dict[int, tuple[int, int]]]:
        now_ns = self._gateway.clock.now_ns()
        if wanted.from_ns >= wanted.to_ns:
            raise Problem(422, "the time ends before it begins: `from` must be before `to`")
        if wanted.to_ns > now_ns:
            raise Problem(422, "a replay sends past events: `to` is in the future")
        if not 0 <= wanted.rate <= MOST_RATE:
            raise Problem(422, f"the rate is a number of events per second from 0 (no limit) to {MOST_RATE}")
        if wanted.order not in ("", "key"):
            raise Problem(422, "the order can be `key`, or that of the trigger")
        trigger, _, channel = selection.trigger_of(self._gateway, wanted.trigger)
        selection.extra_filter(self._gateway, wanted.filters)
        if wanted.to_sink:
            sink_of(self._gateway, wanted.to_sink)
        broker = trigger.broker.name
        found = await selection.stretch_of(channel, broker, wanted.from_ns, wanted.to_ns, "--from")
        return broker, dict(found.parts)

    def _check_room(self, trigger: str, but: str = "") -> None:
        running = [run.job for run in self._runs.values() if run.job.id != but]
        if len(running) >= MOST_RUNNING:
            raise Problem(409, f"{MOST_RUNNING} replays are running: wait for one, or cancel one")
        for job in running:
            if job.wanted.trigger == trigger:
                raise Problem(409, f"replay {job.id} of trigger {trigger!r} is running: wait for it, or cancel it")

    def pause(self, id_: str) -> Job:
        """Ends what waits of a replay until it is resumed. Raises `Problem`."""
        job = self.find(id_)
        if job.ended:
            raise Problem(409, f"replay {id_} has ended: {job.state}")
        self._wish(id_, "paused")
        return job

    async def resume(self, id_: str) -> Job:
        """Continues a paused replay. Raises `Problem`."""
        job = self.find(id_)
        if id_ in self._runs or job.state != "paused":
            raise Problem(409, f"replay {id_} is not paused, it is {self.state_of(job)}")
        if self._tasks is None or self._gateway.stopping:
            raise Problem(503, "the gateway is stopping")
        self._check_room(job.wanted.trigger, id_)
        await self._check_there(job)
        job.state = "running" if job.counts.count or job.next else "counting"
        self._start(job)
        return job

    async def _check_there(self, job: Job) -> None:
        """The trigger may be gone, and a channel that does not keep events for replays may have deleted some."""
        _, _, channel = selection.trigger_of(self._gateway, job.wanted.trigger)
        await selection.stretch_of(channel, job.broker, job.wanted.from_ns, job.wanted.to_ns, "--from")

    async def cancel(self, id_: str) -> Job:
        """Ends a replay; what it has not sent is not sent. Raises `Problem`."""
        job = self.find(id_)
        if job.ended:
            raise Problem(409, f"replay {id_} has ended: {job.state}")
        if id_ in self._runs:
            self._wish(id_, "cancelled")
            return job
        job.state = "cancelled"
        run = Run(self._gateway, job, self._files)
        run.wish = "cancelled"
        self._runs[id_] = run
        self._run_soon(run)
        return job

    def state_of(self, job: Job) -> str:
        """Its state; what somebody has asked for counts at once."""
        run = self._runs.get(job.id)
        return run.wish if run is not None and run.wish else job.state

    def _wish(self, id_: str, state: str) -> None:
        if (run := self._runs.get(id_)) is not None:
            run.wish = state
            run.wake()

    def _start(self, job: Job) -> None:
        run = Run(self._gateway, job, self._files)
        self._runs[job.id] = run
        self._run_soon(run)

    def _run_soon(self, run: Run) -> None:
        assert self._tasks is not None
        if self._idle.is_set():
            self._idle = anyio.Event()
        self._tasks.start_soon(self._run, run)

    async def _run(self, run: Run) -> None:
        job = run.job
        try:
            await run.run()
        finally:
            del self._runs[job.id]
            if not self._runs:
                self._idle.set()
        self.failed += job.state == "failed"
        if job.state in ENDED:
            result = "done" if job.state == "done" and not job.given_up and not job.gone else "failed"
            audit_log(self._gateway.data_dir).record(
                job.who, "replay.end", job.where, "done" if result == "done" else "failed", **facts(job), **outcome(job)
            )

    def _forget_old(self) -> None:
        ended = [job.id for job in self.known.values() if job.ended]
        for old in ended[: max(0, len(ended) - MOST_KEPT)]:
            del self.known[old]
            self._files.forget(old)


def facts(job: Job) -> dict[str, Any]:
    """What the audit log says of a replay."""
    told = document(job)
    names = ("trigger", "broker", "from", "to", "filters", "rate", "order", "mark", "to_sink")
    return {"replay": job.id, **{name: told[name] for name in names if told[name]}}


def outcome(job: Job) -> dict[str, Any]:
    """What it came to."""
    found = {"state": job.state, "count": job.counts.count, "delivered": job.delivered, "given_up": job.given_up}
    return {**found, "unwanted": job.unwanted, "gone": job.gone}
