"""The sink behind `file` and `stdout`: an event is delivered once its line is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from anyio.abc import TaskGroup
from gateway_cloudevents import event_json

from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Refused, StartError
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Outcome
from gateway_core.contract.outcome import unwritable

from . import letters
from .line_file import LinePlace, blank_out, compact
from .line_writer import FileTarget, LineWriter, Target


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


class FileSink(LineSink):
    """Appends to a file. Where it is somebody's dead letter, it is a `DeadLetterStore`, too."""

    def __init__(self, path: Path, context: BuildContext, *, fsync: bool) -> None:
        super().__init__(path.as_uri(), FileTarget(path, fsync), context)
        self._path = path

    def entries(self) -> Iterator[tuple[str, Event]]:
        """The dead letters among the events of the file."""
        return ((id_, event) for id_, event, _ in self.located())

    def located(self) -> Iterator[tuple[str, Event, LinePlace]]:
        """As `entries`, with the place of each."""
        return letters.letters(self._path)

    def remove_at(self, found: Sequence[tuple[str, LinePlace]]) -> None:
        """Removes the dead letters of these ids and places, durably, at a cost that does not grow with the file.
        `compact` is to follow. Raises `OSError`."""
        blank_out(found, letters.id_of)

    def compact(self) -> None:
        """Gives back the room of what `remove_at` has removed. Raises `OSError`."""
        compact(self._path)

    def remove(self, ids: Sequence[str]) -> int:
        """Removes dead letters; returns how many existed."""
        return letters.remove(self._path, ids)

    def state(self) -> tuple[tuple[str, int, int, int], ...]:
        """What changes when the file does: path, inode, size and time of change (in nanoseconds)."""
        try:
            at = self._path.stat()
        except FileNotFoundError:
            return ()
        return ((str(self._path), at.st_ino, at.st_size, at.st_mtime_ns),)
