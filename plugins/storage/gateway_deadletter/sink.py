"""The sink: a dead letter is delivered when its line is written and, unless configured otherwise, on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from anyio.abc import TaskGroup
from gateway_file.line_file import LinePlace
from gateway_file.line_writer import FileTarget, LineWriter

from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import StartError
from gateway_core.contract.event import Event
from gateway_core.contract.files import private_folder
from gateway_core.contract.interfaces import Outcome
from gateway_core.contract.private_files import keep_private

from . import line as line_format
from .encryption import Keys
from .store import Store


class DeadLetterSink:
    """A `Sink` and a `DeadLetterStore`. Reading needs no start."""

    def __init__(self, store: Store, context: BuildContext, *, fsync: bool) -> None:
        self._store = store
        self._keys = store.keys
        self._clock = context.clock
        self._owner = context.owner
        self._file = store.file_of(context.worker, context.workers)
        self._home = context.data_dir.absolute()
        self._writer = LineWriter(FileTarget(self._file, fsync, 0o600), context.clock)
        self.address = store.path.as_uri()

    async def start(self, tasks: TaskGroup) -> None:
        try:
            if self._file.is_relative_to(self._home):
                private_folder(self._file.parent)
                keep_private(self._file.parent)
            await self._writer.start()
        except OSError as e:
            raise StartError(f"{self._owner}: can't write {self._file}: {e.strerror or e}") from e

    async def stop(self) -> None:
        await self._writer.stop()

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        try:
            line = line_format.write(event, self._clock.now_ns(), self._keys)
        except ValueError as e:
            done(Outcome(False, reason=str(e)))
            return
        self._writer.write(line, timeout_s, done)

    @property
    def keys(self) -> Keys | None:
        """The keys that decrypt."""
        return self._store.keys

    def files(self) -> list[Path]:
        """See `Store.files`."""
        return self._store.files()

    def read_with(self, keys: Iterable[bytes]) -> None:
        """Decrypts with these keys too."""
        self._store.keys = Keys([*(self._keys.keys if self._keys else ()), *keys])

    def add(self, dead_letters: Iterable[tuple[str, Event]]) -> None:
        """Appends dead letters with their ids, durably, also beside a running gateway. It blocks, and needs no start.
        Raises `OSError`, and `ValueError` for one that can't be written as JSON."""
        lines = [line_format.write(event, 0, self._keys, id_) for id_, event in dead_letters]
        if self._file.is_relative_to(self._home):
            private_folder(self._file.parent)
        target = FileTarget(self._file, fsync=True, mode=0o600)
        target.open()
        try:
            target.write(b"".join(line + b"\n" for line in lines))
        finally:
            target.close()

    def entries(self) -> Iterator[tuple[str, Event]]:
        """All dead letters of all workers, oldest first: (id, event with the facts as attributes)."""
        return self._store.entries()

    def located(self) -> Iterator[tuple[str, Event, LinePlace]]:
        """As `entries`, with the place of each."""
        return self._store.located()

    def state(self) -> tuple[tuple[str, int, int, int], ...]:
        """What changes when a file does: path, inode, size and time of each."""
        return self._store.state()

    @property
    def closed(self) -> list[str]:
        """What the last reading could not decrypt; see `Store.closed`."""
        return self._store.closed

    def remove(self, ids: Sequence[str]) -> int:
        """Removes dead letters; returns how many existed."""
        return self._store.remove(ids)

    def remove_at(self, found: Sequence[tuple[str, LinePlace]]) -> None:
        """Removes the dead letters of these ids and places; see `Store.remove_at`."""
        self._store.remove_at(found)

    def compact(self) -> None:
        """See `Store.compact`."""
        self._store.compact()
