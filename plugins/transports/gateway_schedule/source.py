"""The source `schedule`.

It remembers the last planned run durably after the event of that run is accepted. So a crash between the two makes the
event of one run twice, with the same id. A run is missed if a later one is due as well, or if it is more than a minute
late: then `missed` decides. If the clock is set back, no run is repeated: the schedule continues once the clock has
passed the last run.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskGroup
from gateway_cloudevents.bindings import HTTP

from gateway_core.contract.component import BuildContext, CodecRef
from gateway_core.contract.errors import NotDelivered, Refused, StartError
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Codec, Intake

from . import state
from .config import SHOWN, ScheduleConfig, stamp, written
from .runs import due, last_due, upcoming

log = logging.getLogger("tidegate.schedule")

LATE_S = 60
"""A run that is later than this is missed."""
LOOK_S = 30.0
"""The longest wait between two looks at the clock, which may be set meanwhile."""
STOP_S = 5.0
"""How long a stop waits for the answer to an event."""
_WAITS_S = (1.0, 30.0)


class ScheduleSource:
    """`gateway_core.contract.interfaces.Source`."""

    pulls = True

    def __init__(self, options: ScheduleConfig, context: BuildContext) -> None:
        self._options = options
        self._clock = context.clock
        self._following = options.following()
        self._file: Path = state.file_of(context.data_dir, options.name)
        self._codec: Codec = context.build(CodecRef("cloudevents"), "codec", binding=HTTP)
        self.address = f"schedule:{options.name}"
        self._last = 0
        self._error: str | None = None
        self._stopping = False
        self._wake, self._done = anyio.Event(), anyio.Event()
        self._scope = anyio.CancelScope()
        self.counts = {"tidegate_schedule_runs_total": 0, "tidegate_schedule_missed_total": 0}
        try:
            self.event(0)
        except Refused as e:
            raise StartError(f"{context.owner}: the event of the schedule is none: {e.detail}") from e

    def event(self, planned: int) -> Event:
        """The event of a run. Raises `Refused` if the template makes none."""
        options, template = self._options, self._options.event
        attributes: dict[str, Any] = {
            **template.extensions,
            "specversion": "1.0",
            "id": f"{options.name}/{stamp(planned)}",
            "source": template.source or f"/schedules/{options.name}",
            "type": template.type,
            "time": stamp(planned),
        }
        if template.subject is not None:
            attributes["subject"] = template.subject
        if template.data is not None or template.datacontenttype is not None:
            attributes["datacontenttype"] = template.datacontenttype or "application/json"
        if template.data is not None:
            attributes["data"] = template.data
        headers = [(b"content-type", b"application/cloudevents+json")]
        (event,) = self._codec.decode(Message(headers, msgspec.json.encode(attributes)))
        event.received_ns = self._clock.now_ns()
        return event

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self, intake: Intake, tasks: TaskGroup) -> None:
        """Starts after the last run that is remembered, or now. Raises `StartError`."""
        last = state.read(self._file)
        if last is None:
            last = self._now()
            try:
                state.write(self._file, last)
            except OSError as e:
                raise StartError(f"{self.address}: its last run can't be remembered: {e}") from e
        self._last = last
        tasks.start_soon(self._run, intake)

    async def stop(self) -> None:
        self._stopping = True
        self._wake.set()
        with anyio.move_on_after(STOP_S):
            await self._done.wait()
        self._scope.cancel()

    def _now(self) -> int:
        return self._clock.now_ns() // 1_000_000_000

    async def _run(self, intake: Intake) -> None:
        try:
            with self._scope:
                while not self._stopping:
                    now = self._now()
                    final = last_due(self._following, self._last, now)
                    if final is None:
                        await self._wait()
                    else:
                        await self._make(intake, final, now)
        finally:
            self._done.set()

    async def _wait(self) -> None:
        """Until the next run is due, or it is time to look at the clock again."""
        following = self._following(max(self._last, self._now()))
        wait = LOOK_S if following is None else min(LOOK_S, following - self._clock.now_ns() / 1e9)
        self._wake = anyio.Event()
        timer = self._clock.call_later(max(0.001, wait), self._wake.set)
        try:
            if not self._stopping:
                await self._wake.wait()
        finally:
            timer.cancel()

    async def _make(self, intake: Intake, final: int, now: int) -> None:
        """Makes the events of the runs that are due; `final` is the last of them."""
        for planned in self._chosen(final, now):
            if not await self._accepted(intake, planned):
                return
            self.counts["tidegate_schedule_runs_total"] += 1
            await self._remember(planned)
        if self._last < final and not self._stopping:
            await self._remember(final)

    def _chosen(self, final: int, now: int) -> Iterable[int]:
        missed = self._options.missed
        first = self._following(self._last)
        if first != final or now - final > LATE_S:
            self.counts["tidegate_schedule_missed_total"] += 1
            log.warning("%s: runs were missed from %s on; `missed` is %s", self.address, stamp(first or final), missed)
        if missed == "all":
            return due(self._following, self._last, now)
        return (final,) if missed == "last" or now - final <= LATE_S else ()

    async def _remember(self, planned: int) -> None:
        self._last = planned
        try:
            await anyio.to_thread.run_sync(partial(state.write, self._file, planned))
        except OSError as e:  # the run is done, and is made again if the gateway is restarted now
            self._error = f"the last run can't be remembered: {e}"
            log.error("%s: %s", self.address, self._error)
        else:
            self._error = None

    async def _accepted(self, intake: Intake, planned: int) -> bool:
        """Hands the event of a run over until it is accepted, or rejected for good. False if a stop came before."""
        wait, most = _WAITS_S
        while not self._stopping:
            answer: list[BaseException | None] = []
            answered = anyio.Event()

            def done(error: BaseException | None, answer: Any = answer, answered: Any = answered) -> None:
                answer.append(error)
                answered.set()

            intake.accept([self.event(planned)], done)
            await answered.wait()
            (error,) = answer
            if error is None:
                self._error = None
                return True
            self._error = f"the event of {stamp(planned)} is not accepted: {error}"
            log.warning("%s: %s", self.address, self._error)
            if isinstance(error, Refused | NotDelivered):
                return True
            self._wake = anyio.Event()
            timer = self._clock.call_later(wait, self._wake.set)
            if not self._stopping:
                await self._wake.wait()
            timer.cancel()
            wait = min(most, wait * 2)
        return False

    # -- for status -------------------------------------------------------------------------------------------------

    def metrics(self) -> dict[str, float]:
        """See `gateway_core.contract.capabilities.Measured`."""
        return dict(self.counts)

    def info(self) -> dict[str, Any]:
        zone = self._options.time_zone
        after = max(self._last, self._now())
        return {
            "address": self.address,
            "error": self._error,
            "lag": 0,
            "last": written(self._last, zone) if self._last else None,
            "next": [written(run, zone) for run in upcoming(self._following, after, SHOWN)],
        }
