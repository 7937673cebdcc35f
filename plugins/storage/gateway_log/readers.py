"""The offsets of sinks that read the log themselves: one small file each, `<folder>/readers/<name>.json`, which maps
the shard's number to the next sequence to read, and beside them says where the reader began. All workers respect them.
Files of readers that no config names any more are in `readers/detached/` and don't prevent deletion."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from gateway_core.contract.capabilities import DeliveryState
from gateway_core.contract.errors import StartError
from gateway_core.contract.event import split_position
from gateway_core.contract.files import private_folder
from gateway_core.contract.private_files import durable_folder, replace_file, sync_directory, write_private
from gateway_core.contract.start_position import StartPosition

from . import epochs, meta
from .reader import LogReader

log = logging.getLogger("tidegate.log")

Offsets = dict[str, int]
BEGAN = "began"
"""The name of the offsets that a reader began at. Events before them were never for it."""


class LogReaderFeed:
    """`gateway_core.contract.interfaces.ReaderFeed` of a log. `advance` may be called from any thread, one at a
    time."""

    def __init__(
        self, name: str, folder: Path, start: Offsets, firsts: Offsets, ends: Callable[[], Offsets], new: StartPosition
    ) -> None:
        self.name = name
        self.location = str(folder.absolute())
        self._folder = folder
        self._path = _file(folder, name)
        began = _began(_load(self._path))
        self.options: Mapping[str, Any] = {"kind": "log", "start": new.json(), "firsts": firsts, "began": began}
        self.start: Mapping[str, int] = start
        self.started_late: str | None = None  # see `capabilities.StartsLate`
        self._ends = ends

    def advance(self, offsets: Mapping[str, int]) -> None:
        """All events before these sequences are processed; lower ones than before make the log keep what follows
        them. Raises `OSError`."""
        move(self._folder, self.name, offsets)

    def delivery_state(self, position: int) -> DeliveryState | None:
        """Where an event is for this reader (`gateway_core.contract.capabilities.TracksDeliveries`)."""
        shard, sequence = split_position(position)
        try:
            content = _load(self._path)
        except (OSError, ValueError):
            return None
        if sequence >= _offsets(content).get(str(shard), 1):
            return "unread"
        return "before" if sequence < _began(content).get(str(shard), 1) else "passed"

    def ends(self) -> Mapping[str, int]:
        """The sequence that the next event of each shard will get."""
        return self._ends()


def attach(folder: Path, name: str, new: Callable[[], Offsets]) -> Offsets:
    """The offsets of a reader; those of `new()` if it is new, durable when this returns. Raises `StartError`."""
    path = _file(folder, name)
    try:
        durable_folder(path.parent)
        if not path.exists():
            with contextlib.suppress(FileNotFoundError):
                _detached(path).rename(path)
        if not path.exists():
            first = new()
            _create(path, _content(folder, first, first))
        else:
            sync_directory(path.parent)  # who made it may have been killed before doing so
        return _valid(folder, path)
    except (OSError, ValueError, sqlite3.Error) as e:
        raise StartError(
            f"log: can't use the reader's offsets in {path}: {e}; restore the file from a backup, or run"
            f" {meta.remedy(folder)}"
        ) from e


def move(folder: Path, name: str, offsets: Mapping[str, int]) -> None:
    """Moves the offsets of a reader. Raises `OSError`."""
    path = _file(folder, name)
    content = _load(path)
    _write(path, _content(folder, {**_offsets(content), **offsets}, _began(content)))


def _valid(folder: Path, path: Path) -> Offsets:
    """The offsets. If the log went back, they are moved to where it diverged from the log that was read, so that
    nothing is skipped, and nothing deleted before it is read again."""
    content = _load(path)
    known, found = epochs.ids(content), _offsets(content)
    before = dict(found)
    with LogReader(folder) as reader:
        for shard, offset in found.items():
            following = reader.bounds(int(shard))[1]
            at = epochs.diverged_at(reader.epochs(int(shard)), following, offset, known.get(shard, ""))
            if at is not None:
                log.warning(
                    "%s: shard %s was read up to %d, but the log went back to %d: a reader without its own checkpoint"
                    " continues from there",
                    path,
                    shard,
                    offset,
                    at,
                )
                found[shard] = at
    if found != before:
        _write(path, _content(folder, found, _began(content)))
    return found


def _content(folder: Path, offsets: Offsets, began: Offsets) -> dict[str, Any]:
    """The contents of an offsets file: the offsets, the epochs of the log they belong to, and where the reader began;
    it may have gone back since."""
    known = {}
    with contextlib.suppress(OSError, sqlite3.Error), LogReader(folder) as reader:
        for shard, offset in offsets.items():
            if id := epochs.tag_for(reader.epochs(int(shard)), offset):
                known[shard] = id
    first = {shard: min(at, offsets.get(shard, at)) for shard, at in began.items()}
    return {**offsets, **({epochs.KEY: known} if known else {}), **({BEGAN: first} if first else {})}


def detach(folder: Path, name: str) -> None:
    """The reader no longer prevents deletion; its offsets are kept."""
    path = _file(folder, name)
    with contextlib.suppress(FileNotFoundError):
        private_folder(_detached(path).parent)
        path.rename(_detached(path))


def names(folder: Path) -> list[str]:
    """All readers that prevent deletion."""
    return [unquote(p.stem) for p in sorted((folder / "readers").glob("*.json"))]


def repair(folder: Path) -> Iterator[str]:
    """Replaces unreadable offsets by the beginning of the log: the reader's own checkpoint has its progress. Yields a
    line for each. Raises `OSError`."""
    for path in sorted((folder / "readers").glob("*.json")):
        try:
            _read(path)
        except (ValueError, AttributeError, TypeError):
            with LogReader(folder) as reader:
                _write(path, {str(s): reader.bounds(s)[0] for s in reader.shards()})
            yield f"readers/{path.name}: could not be read; it was recreated, and all events are kept for it"


class Floors:
    """The lowest sequence that a reader still needs, by shard. A file is read again only if it has changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "readers"
        self._known: dict[str, tuple[tuple[int, int], Offsets]] = {}

    def floor(self, shard: int, end: int) -> int:
        """`end` if no reader needs anything. Raises `OSError`, and `ValueError` if a file can't be read."""
        self._look()
        # a reader that does not know the shard yet needs all of it
        return min((offsets.get(str(shard), 1) for _, offsets in self._known.values()), default=end)

    def _look(self) -> None:
        known, self._known = self._known, {}
        if not self._folder.is_dir():
            return
        with os.scandir(self._folder) as entries:
            found = [entry for entry in entries if entry.name.endswith(".json")]
        for entry in found:
            status = entry.stat()
            mark = (status.st_mtime_ns, status.st_ino)  # every change is a new file
            before = known.get(entry.name)
            same = before is not None and before[0] == mark
            self._known[entry.name] = before if same and before else (mark, _read(Path(entry.path)))


def _file(folder: Path, name: str) -> Path:
    return folder / "readers" / f"{quote(name, safe='')}.json"


def _detached(path: Path) -> Path:
    return path.parent / "detached" / path.name


def _load(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def _read(path: Path) -> Offsets:
    return _offsets(_load(path))


def _offsets(content: Mapping[str, Any]) -> Offsets:
    return {str(shard): int(sequence) for shard, sequence in content.items() if shard not in (epochs.KEY, BEGAN)}


def _began(content: Mapping[str, Any]) -> Offsets:
    """Empty if an earlier version, or a repair, wrote the file."""
    found = content.get(BEGAN)
    return {str(shard): int(at) for shard, at in found.items()} if isinstance(found, dict) else {}


def _write(path: Path, offsets: Mapping[str, Any]) -> None:
    replace_file(path, json.dumps(dict(offsets)).encode())


def _create(path: Path, offsets: Mapping[str, Any]) -> None:
    """Like `_write`, but if two workers create it at the same time, the first one's file stays."""
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    write_private(temporary, json.dumps(dict(offsets)).encode())
    with contextlib.suppress(FileExistsError):
        os.link(temporary, path)
    temporary.unlink()
    sync_directory(path.parent)


def forget(folder: Path, name: str) -> None:
    """Deletes the offsets of a reader. Raises `OSError`."""
    for path in (_file(folder, name), _detached(_file(folder, name))):
        path.unlink(missing_ok=True)
