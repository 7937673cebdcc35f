"""The keys of other workers' shards, as a worker needs them to decide what is a duplicate.

Each worker writes the keys of its own shards: to their rows, and later to runs in a folder of its own (`keys`,
`keys-1`, ...). The others read both. One worker decides and commits at a time (`Turn`), so it sees every key that a
commit before has written. Folders and shards that no worker owns any more, after a start with fewer, are read alike.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import sqlite3
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from gateway_core.contract.errors import StartError, StorageError

from . import meta
from .disk_reserve import sync_failed
from .key_runs import FOLDER, KEY, Generation, Known, files_in, place_in
from .reader import LogReader, shard_file
from .rows import is_damage
from .schema import settle
from .shard import lock

log = logging.getLogger("tidegate.log")

LOCK = "keys.lock"
_NAME = re.compile(rf"{FOLDER}(?:-(\d+))?")
_EARLY_MS = 86_400_000
_NAMED = 8
_MOST_BYTES = 1 << 16
_WAIT_S = 0.02


def folder_of(log_folder: Path, worker: int) -> Path:
    """Where a worker has its runs."""
    return log_folder / (f"{FOLDER}-{worker}" if worker else FOLDER)


def is_key_folder(name: str) -> bool:
    """Whether this is the name of such a folder."""
    return _NAME.fullmatch(name) is not None


def key_folders(log_folder: Path) -> dict[int, Path]:
    """The folders of keys in the folder of a log, by the number of their worker."""
    found = [(_NAME.fullmatch(path.name), path) for path in log_folder.iterdir()]
    return {int(match[1] or 0): path for match, path in found if match}


class Turn:
    """Lets one worker at a time decide about duplicates, and commit.

    A worker that dies in a commit may leave a whole transaction in the write-ahead log of its shard that no reader
    sees, but that the next start finds once nobody has the file open. So the file of the lock names the shard that is
    being written. Who finds such a name first calls `settle` with it, which must make that transaction visible or
    impossible, or raise `StartError` if another process has the shard and will do it.

    The file also says how far each shard is, and counts `changes` of anything else, so that who has the turn need not
    look at files that are as they were.
    """

    def __init__(self, log_folder: Path, settle: Callable[[int], None]) -> None:
        self._file = os.open(log_folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._settle = settle
        self._dirty = False
        self._ends = array("Q")
        self.changes = 0
        """Counts new shards, runs and files of keys; known in a turn."""

    def end(self, shard: int) -> int:
        """The next sequence of a shard as of its last commit, 0 if that is unknown. Known in a turn."""
        return self._ends[shard] if shard < len(self._ends) else 0

    def tell_end(self, shard: int, end: int) -> None:
        """The next sequence of a shard is this now. Others know it after the turn."""
        if shard >= len(self._ends):
            self._ends.extend([0] * (shard + 1 - len(self._ends)))
        self._ends[shard] = end
        self._dirty = True

    def changed(self) -> None:
        """The others must look at all files. They know it after the turn."""
        self.changes += 1
        self._dirty = True

    @contextmanager
    def taken(self, shard: int | None = None, within_s: float = 5.0) -> Iterator[None]:
        """Waits until no other worker commits; `shard` is what will be written. The system ends the turn of a process
        that dies. Raises `OSError`, `sqlite3.Error`, and `StorageError` if a worker that died has not been settled by
        its successor `within_s` seconds."""
        until = time.monotonic() + within_s
        while not self._take():
            if time.monotonic() > until:
                raise StorageError("the keys of duplicates are not known: another worker has failed, and not restarted")
            time.sleep(_WAIT_S)
        try:
            named = 0 if shard is None else shard + 1
            if named:
                os.pwrite(self._file, named.to_bytes(_NAMED, "big"), 0)
            try:
                yield
            except BaseException as e:
                # after a sync that failed, a transaction may be there that nobody sees
                self._write(named if sync_failed(e) else 0)
                raise
            if named or self._dirty:
                self._write(0)
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _take(self) -> bool:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            left = self._read()
            if left:
                self._settle(left - 1)
                self.changed()
                self._write(0)
        except StartError:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            return False
        except BaseException:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            raise
        return True

    def _read(self) -> int:
        content = os.pread(self._file, _MOST_BYTES, 0)
        ends = content[2 * _NAMED :]
        self.changes = int.from_bytes(content[_NAMED : 2 * _NAMED], "big")
        self._ends = array("Q", ends[: len(ends) // 8 * 8])
        self._dirty = False
        return int.from_bytes(content[:_NAMED], "big")

    def _write(self, named: int) -> None:
        head = named.to_bytes(_NAMED, "big") + self.changes.to_bytes(_NAMED, "big")
        os.pwrite(self._file, head + self._ends.tobytes(), 0)
        self._dirty = False

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)


class _Rows:
    """The keys of a shard that are in no run yet, with their tails: those of the sequences from `start` to before
    `seen`."""

    __slots__ = ("keyed", "keys", "seen", "start", "unreadable")

    def __init__(self, start: int) -> None:
        self.keys: dict[bytes, bytes] = {}
        self.keyed = self.unreadable = False
        self.start = self.seen = start


class OtherKeys:
    """The keys of all shards but those of worker `worker` of `workers`, and the runs in all folders but its own. Used
    by one thread at a time."""

    def __init__(self, folder: Path, worker: int, workers: int, capacity: int) -> None:
        self._folder = folder
        self._worker, self._workers = worker, workers
        self._capacity = capacity
        self._reader = LogReader(folder)
        self._generations: dict[Path, Generation] = {}  # newest first within each folder
        self._shards: dict[int, _Rows] = {}
        self._sealed: dict[int, int] = {}
        self._again: dict[int, dict[bytes, bytes]] = {}
        self._begins = True
        self._looked = -1  # the `changes` of then
        self.forgot_ms = 0
        """See `KeyIndex.forgot_ms`."""

    @property
    def keys(self) -> int:
        """How many keys there are."""
        return sum(g.keys for g in self._generations.values()) + sum(len(s.keys) for s in self._shards.values())

    @property
    def size(self) -> int:
        """How much of the disk they take, about."""
        return sum(g.size for g in self._generations.values())

    def sealed(self, shard: int) -> int:
        """The sequence of a shard before which all its keys are in runs, as far as these folders know."""
        return self._sealed.get(shard, 1)

    def open(self, mine: Mapping[int, int], expired_ms: int) -> None:
        """Reads what is there; `mine` are the next sequences of the worker's own shards. Folders without a worker lose
        what is older than `expired_ms`.

        A damaged run is no fault here: see `key_runs.missing`. Runs of events that the log no longer has are never used
        again, whoever wrote them: the worker of their shard does this before its first append, so they can't be taken
        for later ones. Raises `StartError`, `OSError` and `sqlite3.Error`."""
        self._read_runs()
        ends = {**self.ends(), **mine}  # after the runs: what a worker writes meanwhile is not beyond them
        for generation in self._generations.values():
            generation.drop_beyond(ends)
        self._sealed.clear()
        self._note_all()
        for number, folder in self._others().items():
            if number >= self._workers:
                self._drop_expired(folder, expired_ms)
        self._look_at_all()
        self._begins = False

    def folders(self) -> list[list[Generation]]:
        """The generations of each folder, the oldest first."""
        found: dict[Path, list[Generation]] = {}
        for path, generation in reversed(self._generations.items()):
            found.setdefault(path.parent, []).append(generation)
        return list(found.values())

    def mark(self) -> None:
        """Marks what is damaged in folders that no worker has. Raises `OSError`."""
        without = {path for number, path in self._others().items() if number >= self._workers}
        for path, generation in self._generations.items():
            if self._worker == 0 and path.parent in without:
                generation.mark(cut=False)

    def put(self, shard: int, keys: Iterable[tuple[int, int, bytes]]) -> None:
        """Adds keys that are in no run, because that is damaged: their sequence, time (ns) and key. Its worker makes a
        run of them."""
        again = self._again.setdefault(shard, {})
        again.update({text[:KEY]: _tail(sequence, ns // 1_000_000, text[KEY:]) for sequence, ns, text in keys})

    def ends(self) -> dict[int, int]:
        """The next sequences of the shards of others that are not damaged. Raises like `open`."""
        known = meta.read(self._folder)
        ends: dict[int, int] = {}
        for shard in self._reader.shards():
            of = known.shard(shard)
            if self._is_mine(shard) or (of is not None and of.damaged):
                continue
            try:
                if self._reader.has_keys(shard):
                    ends[shard] = self._reader.bounds(shard)[1]
            except sqlite3.DatabaseError as e:
                if not is_damage(e):
                    raise
        return ends

    def look(self, turn: Turn) -> None:
        """Reads what came since. Raises `OSError` and `sqlite3.Error`."""
        if turn.changes == self._looked:
            for shard, rows in self._shards.items():
                if (end := turn.end(shard)) > rows.seen:
                    self._read_rows(shard, end)
            return
        self._look_at_all()
        self._looked = turn.changes

    def tell_ends(self, turn: Turn) -> None:
        """Tells the turn how far the shards are, as of the last look at all."""
        for shard, rows in self._shards.items():
            turn.tell_end(shard, rows.seen if rows.keyed else 0)

    def _look_at_all(self) -> None:
        # the rows first: a key whose row is gone by then is in a run by then
        for shard in self._reader.shards():
            if not self._is_mine(shard):
                self._read_rows(shard)
        self._read_runs()

    def settle(self, shard: int) -> None:
        """Makes it impossible that a transaction appears later which the worker of this shard has left unseen: another
        one takes its place in the write-ahead log. Raises `StartError` if a process has the shard, and
        `sqlite3.Error`."""
        descriptor = lock(self._folder, shard, within_s=0)
        try:
            self._reader.bounds(shard)  # a connection that stays: the last one to close deletes the write-ahead log
            with closing(sqlite3.connect(shard_file(self._folder, shard), isolation_level=None)) as connection:
                settle(connection)
        except sqlite3.DatabaseError as e:
            if not is_damage(e):
                raise
        finally:
            os.close(descriptor)

    def find(self, key: bytes) -> Known | None:
        """The newest event of a key among them. Raises `OSError`."""
        found: Known | None = None
        for shard, rows in self._shards.items():
            if (tail := rows.keys.get(key)) is not None:
                found = _newer(found, _known(shard, tail))
        for shard, keys in self._again.items():
            if (tail := keys.get(key)) is not None:
                found = _newer(found, _known(shard, tail))
        (place,) = place_in(key)
        for generation in self._generations.values():
            if generation.may_have(place) and (known := generation.find(key)) is not None:
                found = _newer(found, known)
        return found

    def close(self) -> None:
        """Closes the files."""
        self._reader.close()
        for generation in self._generations.values():
            generation.close()
        self._generations.clear()

    def _is_mine(self, shard: int) -> bool:
        return shard % self._workers == self._worker

    def _others(self) -> dict[int, Path]:
        return {number: path for number, path in key_folders(self._folder).items() if number != self._worker}

    # -- rows -------------------------------------------------------------------------------------------------------

    def _read_rows(self, shard: int, end: int = 0) -> None:
        rows = self._shards.get(shard)
        if rows is None:
            rows = self._shards[shard] = _Rows(self.sealed(shard))
        if rows.unreadable:
            return
        try:
            if not rows.keyed:
                rows.keyed = self._reader.has_keys(shard)
            if not rows.keyed:
                return
            end = end or self._reader.bounds(shard)[1]
            if end <= rows.seen:
                return
            # events first: what retention moves meanwhile is found among the kept keys
            for table in ("events", "kept_keys"):
                for sequence, received_ns, text in self._reader.keys(shard, table, rows.seen, end):
                    if len(text) == KEY + 4:
                        rows.keys[text[:KEY]] = _tail(sequence, received_ns // 1_000_000, text[KEY:])
            rows.seen = end
        except sqlite3.DatabaseError as e:
            if not is_damage(e):
                raise
            rows.unreadable = True
            log.error(
                "%s: the keys of shard %d can't be read; its newest events may be stored again if they are sent again:"
                " %s",
                self._folder,
                shard,
                e,
            )

    # -- runs -------------------------------------------------------------------------------------------------------

    def _read_runs(self) -> None:
        there = [path for folder in self._others().values() for path in reversed(files_in(folder))]
        if there != [*self._generations]:
            self._open_generations(there)
        grown = False
        for generation in self._generations.values():
            if generation.read_new(begins=self._begins):
                grown = True
        if grown:
            self._note_all()

    def _open_generations(self, there: list[Path]) -> None:
        before, self._generations = self._generations, {}
        for path in there:
            if (known := before.pop(path, None)) is not None:
                self._generations[path] = known
            else:
                with suppress(FileNotFoundError):  # dropped meanwhile
                    self._generations[path] = Generation.of_other(path, self._capacity)
        for gone in before.values():
            gone.close()

    def _note_all(self) -> None:
        for generation in self._generations.values():
            for run in generation.runs:
                self.forgot_ms = max(self.forgot_ms, run.forgot)
                self._sealed[run.base.shard] = max(run.end, self.sealed(run.base.shard))
        for shard, rows in self._shards.items():
            if (sealed := self.sealed(shard)) > rows.start:
                rows.start = sealed
                rows.keys = {key: tail for key, tail in rows.keys.items() if _sequence(tail) >= sealed}
                rows.seen = max(rows.seen, sealed)

    def _drop_expired(self, folder: Path, expired_ms: int) -> None:
        for path in files_in(folder):
            generation = self._generations.get(path)
            if generation is not None and max((r.newest for r in generation.runs), default=0) < expired_ms - _EARLY_MS:
                del self._generations[path]
                generation.remove()


def _newer(one: Known | None, other: Known) -> Known:
    return other if one is None or other.ms > one.ms else one


def _tail(sequence: int, ms: int, content: bytes) -> bytes:
    return sequence.to_bytes(6, "big") + ms.to_bytes(6, "big") + content


def _sequence(tail: bytes) -> int:
    return int.from_bytes(tail[:6], "big")


def _known(shard: int, tail: bytes) -> Known:
    return Known(shard, _sequence(tail), int.from_bytes(tail[6:12], "big"), int.from_bytes(tail[12:], "big"))
