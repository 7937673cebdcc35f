"""The sink behind `file` and `stdout`: an event is delivered once its line is written."""

from __future__ import annotations

from collections.abc import Callable

from anyio.abc import TaskGroup
from gateway_cloudevents import event_json

from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Refused, StartError
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Outcome
from gateway_core.contract.outcome import unwritable

from .line_writer import LineWriter, Target


class LineSink:
    """A `Sink` of JSON lines, each as `gateway_cloudevents.event_json.line` writes it: `tidegate send` reads them, and
    so does any software that reads CloudEvents."""

    def __init__(self, address: str, target: Target, context: BuildContext) -> None:
        self.address = address
        self._owner = context.owner
        self._writer = LineWriter(target, context.clock)

    async def start(self, tasks: TaskGroup) -> None:
        try:
            await self._writer.start()
        except OSError as e:
            raise StartError(f"{self._owner}: can't write {self.address}: {e.strerror or e}") from e

    async def stop(self) -> None:
        await self._writer.stop()

    def preview(self, event: Event) -> Message:
        """The line."""
        try:
            return Message([], event_json.line(event), url=self.address)
        except ValueError as e:
            raise Refused(str(e)) from e

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        try:
            line = event_json.line(event)
        except ValueError as e:
            done(unwritable(e))
            return
        self._writer.write(line, timeout_s, done)
