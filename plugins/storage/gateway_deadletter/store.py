"""The files of dead letters: reading, and removing entries while gateways keep appending."""

from __future__ import annotations

import glob
import heapq
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from gateway_file.line_file import LinePlace, blank_out, compact, is_going, lines_at, take_out

from gateway_core.contract.event import Event

from . import line as line_format
from .encryption import Keys

log = logging.getLogger("tidegate.deadletter")


class Store:
    """The files of all workers for one configured path, and the keys that decrypt their lines. With `also_plain` lines
    that are not encrypted are read, too."""

    def __init__(self, path: Path, keys: Keys | None = None, *, also_plain: bool = True) -> None:
        self.path = path.absolute()
        self.keys = keys
        self.also_plain = also_plain
        self.closed: list[str] = []
        """What the last reading could not decrypt, one text for each file and reason. Complete once it has ended."""

    def file_of(self, worker: int, workers: int) -> Path:
        """The file that a worker appends to."""
        if workers == 1:
            return self.path
        # broker names can't contain "~", so files of workers and of brokers never clash
        return self.path.with_name(f"{self.path.stem}~{worker}{self.path.suffix}")

    def files(self) -> list[Path]:
        """All existing files, including those from runs with another number of workers."""
        pattern = f"{glob.escape(str(self.path.with_suffix('')))}~*{glob.escape(self.path.suffix)}"
        mine = [self.path] if self.path.exists() else []
        return mine + [Path(p) for p in sorted(glob.glob(pattern))]

    def state(self) -> tuple[tuple[str, int, int, int], ...]:
        """Path, inode, size and time of change (in nanoseconds) of each file."""
        found = []
        for file in self.files():
            with suppress(FileNotFoundError):
                at = file.stat()
                found.append((str(file), at.st_ino, at.st_size, at.st_mtime_ns))
        return tuple(found)

    def entries(self) -> Iterator[tuple[str, Event]]:
        """All dead letters, oldest first. Other lines are logged and skipped; those that can't be decrypted once for
        each file and reason."""
        return ((id_, event) for id_, event, _ in self.located())

    def located(self) -> Iterator[tuple[str, Event, LinePlace]]:
        """As `entries`, with the place of each."""
        self.closed = []
        yield from heapq.merge(*(self._read(file) for file in self.files()), key=_last)

    def _read(self, file: Path) -> Iterator[tuple[str, Event, LinePlace]]:
        closed: dict[str, list[int]] = {}
        for number, (place, line, end) in enumerate(lines_at(file), 1):
            try:
                yield *line_format.read(line, self.keys, also_plain=self.also_plain), place
            except line_format.Unreadable as e:
                closed.setdefault(str(e), []).append(number)
            except ValueError as e:
                if line.strip() and end and not is_going(line):
                    log.warning("%s:%d: %s", file, number, e)
        for reason, numbers in closed.items():
            text = f"{file}: {len(numbers)} dead letters can't be read, the first in line {numbers[0]}: {reason}"
            self.closed.append(text)
            log.warning("%s", text)

    def remove(self, ids: Sequence[str]) -> int:
        """Removes dead letters; returns how many existed. Each file is replaced atomically, or not at all."""
        wanted = set(ids)
        return sum(take_out(file, wanted, line_format.id_of) for file in self.files()) if wanted else 0

    def remove_at(self, found: Sequence[tuple[str, LinePlace]]) -> None:
        """Removes the dead letters of these ids and places, durably, at a cost that does not grow with the files.
        `compact` is to follow. Raises `OSError`."""
        blank_out(found, line_format.id_of)

    def compact(self) -> None:
        """Gives back the room of what `remove_at` has removed. Raises `OSError`."""
        for file in self.files():
            compact(file)


def _last(found: tuple[str, Event, LinePlace]) -> tuple[int, str]:
    id_, event, _ = found
    return line_format.last_ns(event), id_
