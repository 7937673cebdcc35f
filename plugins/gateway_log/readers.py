"""The places of sinks that read the log by themselves: one small file each, `<folder>/readers/<name>.json`, that maps
the shard's number to the next sequence to be read. All workers honour them. Those that no config names any more lie in
`readers/detached/` and hold nothing back."""

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

from gateway_core.abilities import Standing
from gateway_core.errors import StartError
from gateway_core.files import private_folder, replace_file, sync_directory, write_private

from . import epochs, meta
from .reader import LogReader, place_of

log = logging.getLogger("tidegate.log")

Places = dict[str, int]


class LogReaderFeed:
    """`gateway_core.interfaces.ReaderFeed` of a log. `advance` may be called from any thread, one at a time."""

    def __init__(self, name: str, folder: Path, start: Places, ends: Callable[[], Places]) -> None:
        self.name = name
        self.location = str(folder.absolute())
        self.options: Mapping[str, Any] = {"kind": "log"}
        self.start: Mapping[str, int] = start
        self._folder = folder
        self._path = _file(folder, name)
        self._ends = ends

    def advance(self, offsets: Mapping[str, int]) -> None:
        """All before these sequences is dealt with. Raises `OSError`."""
        places = {**_read(self._path), **offsets}
        _write(self._path, _with_epochs(self._folder, places))

    def standing(self, position: int) -> Standing | None:
        """Where an event is for this reader (`gateway_core.abilities.Placed`)."""
        shard, sequence = place_of(position)
        try:
            place = _read(self._path).get(str(shard), 1)
        except (OSError, ValueError):
            return None
        return "passed" if sequence < place else "unread"

    def ends(self) -> Mapping[str, int]:
        """The sequence that the next event of each shard will get."""
        return self._ends()


def attach(folder: Path, name: str, new: Callable[[], Places]) -> Places:
    """The places of a reader; those of `new()` where it is new, durable when this returns. Raises `StartError`."""
    path = _file(folder, name)
    try:
        private_folder(path.parent)
        if not path.exists():
            with contextlib.suppress(FileNotFoundError):
                _detached(path).rename(path)
        if not path.exists():
            _create(path, _with_epochs(folder, new()))
        return _valid(folder, path)
    except (OSError, ValueError, sqlite3.Error) as e:
        raise StartError(
            f"log: the reader's place {path} can't be used: {e}; bring it back from a backup, or run"
            f" {meta.remedy(folder)}"
        ) from e


def _valid(folder: Path, path: Path) -> Places:
    """The places, moved to where the log parted from the one that was read, if it went back: then nothing is missed."""
    content = json.loads(path.read_text())
    known, found = epochs.ids(content), _places(content)
    with LogReader(folder) as reader:
        for shard, place in found.items():
            following = reader.bounds(int(shard))[1]
            at = epochs.parted(reader.epochs(int(shard)), following, place, known.get(shard, ""))
            if at is not None:
                log.warning(
                    "%s: shard %s was read up to %d, but the log went back to %d: a reader without a checkpoint of its"
                    " own goes on from there",
                    *(path, shard, place, at),
                )
                found[shard] = at
    return found


def _with_epochs(folder: Path, places: Places) -> dict[str, Any]:
    """What a place's file holds: the places, and the epochs that say of which log they are."""
    known = {}
    with contextlib.suppress(OSError, sqlite3.Error), LogReader(folder) as reader:
        for shard, place in places.items():
            if id := epochs.of_place(reader.epochs(int(shard)), place):
                known[shard] = id
    return {**places, **({epochs.KEY: known} if known else {})}


def detach(folder: Path, name: str) -> None:
    """The reader holds nothing back any more; its places are kept."""
    path = _file(folder, name)
    with contextlib.suppress(FileNotFoundError):
        private_folder(_detached(path).parent)
        path.rename(_detached(path))


def names(folder: Path) -> list[str]:
    """All readers that hold events back."""
    return [unquote(p.stem) for p in sorted((folder / "readers").glob("*.json"))]


def mend(folder: Path) -> Iterator[str]:
    """Makes places that can't be read anew, at the beginning: a reader's checkpoint says how far it is. A line for
    each. Raises `OSError`."""
    for path in sorted((folder / "readers").glob("*.json")):
        try:
            _read(path)
        except (ValueError, AttributeError, TypeError):
            with LogReader(folder) as reader:
                _write(path, {str(s): reader.bounds(s)[0] for s in reader.shards()})
            yield f"readers/{path.name}: could not be read; it was made anew, and holds back all events that are there"


class Floors:
    """The lowest sequence that a reader still needs, by shard. Files are read again only when they changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "readers"
        self._known: dict[str, tuple[tuple[int, int], Places]] = {}

    def floor(self, shard: int, end: int) -> int:
        """`end` where no reader holds anything back. Raises `OSError`, `ValueError` where a file can't be read."""
        self._look()
        # a reader that has not heard of the shard yet needs all of it
        return min((places.get(str(shard), 1) for _, places in self._known.values()), default=end)

    def _look(self) -> None:
        known, self._known = self._known, {}
        if not self._folder.is_dir():
            return
        with os.scandir(self._folder) as entries:
            places = [entry for entry in entries if entry.name.endswith(".json")]
        for entry in places:
            status = entry.stat()
            mark = (status.st_mtime_ns, status.st_ino)  # every change is a new file
            before = known.get(entry.name)
            same = before is not None and before[0] == mark
            self._known[entry.name] = before if same and before else (mark, _read(Path(entry.path)))


def _file(folder: Path, name: str) -> Path:
    return folder / "readers" / f"{quote(name, safe='')}.json"


def _detached(path: Path) -> Path:
    return path.parent / "detached" / path.name


def _read(path: Path) -> Places:
    return _places(json.loads(path.read_text()))


def _places(content: Mapping[str, Any]) -> Places:
    return {str(shard): int(sequence) for shard, sequence in content.items() if shard != epochs.KEY}


def _write(path: Path, places: Mapping[str, Any]) -> None:
    replace_file(path, json.dumps(dict(places)).encode())


def _create(path: Path, places: Mapping[str, Any]) -> None:
    """Like `_write`, but where two workers come at once the first one's file stays."""
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    write_private(temporary, json.dumps(dict(places)).encode())
    with contextlib.suppress(FileExistsError):
        os.link(temporary, path)
    temporary.unlink()
    sync_directory(path.parent)
