"""A complete copy of a gateway's data directory, made whether or not the gateway is running.

The order of the copies makes them consistent, since an event moves from the log until the cursor of its trigger lets it
be deleted:

1. Everything that may lag behind the log: offsets of readers, Spark's checkpoints, applied triggers, and how far the
   log is known to have come. Work that such a copy has not recorded yet is repeated.
2. The dead letters. One that is replayed from now on leaves the file and comes back into the log.
3. The log's shards, each as of one moment, with the cursors of its triggers: SQLite copies it beside the writer.
4. The keys of a log that deduplicates. Those of later events are dropped when the copy is opened; had they been copied
   earlier, keys could be missing whose rows were deleted since.
5. The dead letters again: an event that a shard's cursors count as done may have become one after step 2.

The copy has every event that was accepted before step 3 began, and undelivered events with their cursors. Events that
were being delivered meanwhile may be delivered again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec

from gateway_core import __version__
from gateway_core.contract.files import private_folder
from gateway_core.contract.private_files import sync_directory, write_private

from .delay_file import DELAY_FILE, delay_files
from .other_keys import is_key_folder
from .reader import SHARD_FILE, bounds_of, open_read_only, shard_file, shards_in
from .rows import is_damage

FORMAT = 1
MANIFEST = "manifest.json"
DEAD_LETTERS = "dead-letter"
_PAGES = 1000
_BLOCK = 1 << 20
_ENDINGS = (".lock", ".ballast", ".sock", ".tmp", "-wal", "-shm", "-journal")
_NAMES = {"gateway.json", "scratch"}
_KEPT_HERE = {"admin.token", "audit"}
"""A backup goes to other people and places: it must let nobody into the gateway, and name nobody."""

OWN = frozenset(
    {
        "log",
        "dead-letter",
        "applied",
        "files",
        "spark",
        "mqtt",
        "kafka",
        "names.json",
        "schedule",
        "replay",
        "started-late",
    }
)
"""What the data directory has of events, triggers, positions and names of sessions. What else is there may be someone's
token or key, and is restored only for those who ask for it."""

ReportProgress = Callable[[str, int, int], None]
"""Called with the current file, the bytes done, and the total bytes."""


class FileEntry(msgspec.Struct):
    """One file of a backup."""

    bytes: int
    sha256: str


class ShardEntry(msgspec.Struct, omit_defaults=True):
    """The events of one shard in a backup: from `first` to before `next`. `damaged` says why a file was copied as it
    is; its events are then unknown."""

    first: int
    next: int
    damaged: str = ""


class Manifest(msgspec.Struct):
    """The contents of a backup. Written last: a folder without it is not a backup."""

    version: str
    made: str
    data_dir: str
    files: dict[str, FileEntry]
    shards: dict[str, ShardEntry]
    format: int = FORMAT


def back_up(data_dir: Path, target: Path, say: ReportProgress) -> Manifest:
    """Copies the data directory to the new folder `target`. Raises `OSError`, and `sqlite3.Error` if a shard can't be
    read; then nothing is left behind."""
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    partial = target.with_name(f"{target.name}.partial-{os.getpid()}")
    try:
        private_folder(partial)
        for path in _in_order(p for p in _files(data_dir) if p.parts[0] != DEAD_LETTERS and not _has_keys(p)):
            _copy(data_dir / path, partial / path, say)
        _trim_checkpoints(partial)
        _copy_letters(data_dir, partial)
        facts = {}
        # listed only now, so that it includes everything that the log is known to have
        for shard in [shard_file(b, n) for b in _brokers(data_dir) for n in shards_in(b)]:
            to = partial / shard.relative_to(data_dir)
            try:
                fact = _copy_shard(shard, to, say)
            except sqlite3.DatabaseError as e:
                if not is_damage(e):
                    raise
                _copy_damaged(shard, to, say)
                fact = ShardEntry(0, 0, str(e))
            if fact is not None:
                facts[f"{shard.parent.name}/{shard.stem}"] = fact
        for path in filter(_has_keys, _files(data_dir)):
            _copy(data_dir / path, partial / path, say)
        # after the shards: a cursor has moved past what is there, and what it has not moved past is kept again
        for delayed in [file for b in _brokers(data_dir) for file in delay_files(b)]:
            _copy_delayed(delayed, partial / delayed.relative_to(data_dir), say)
        _copy_letters(data_dir, partial)
        files = {str(p.relative_to(partial)): file_entry(p, say) for p in sorted(partial.rglob("*")) if p.is_file()}
        manifest = Manifest(__version__, made, str(data_dir.absolute()), files, facts)
        write_private(partial / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
        for folder in [partial, *(p for p in partial.rglob("*") if p.is_dir())]:
            sync_directory(folder)
        partial.rename(target)
        sync_directory(target.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return manifest


def file_entry(path: Path, say: ReportProgress) -> FileEntry:
    """The size and digest of a file. Raises `OSError`."""
    digest, size, total = hashlib.sha256(), 0, path.stat().st_size
    with path.open("rb") as f:
        while block := f.read(_BLOCK):
            digest.update(block)
            size += len(block)
            say(f"check {path.name}", size, total)
    return FileEntry(size, digest.hexdigest())


def _brokers(data_dir: Path) -> list[Path]:
    return sorted(p for p in (data_dir / "log").glob("*") if p.is_dir())


def _files(data_dir: Path) -> list[Path]:
    """All files to back up, relative. Files that only a running gateway needs are left out."""
    found = []
    for parent, folders, files in os.walk(data_dir):
        folders[:] = [f for f in folders if f not in _NAMES and not f.startswith((".", "replaced-"))]
        # Hadoop's checksum files begin with a dot, and belong to their files
        kept = (n for n in files if n not in _NAMES and not n.endswith(_ENDINGS) and (n[0] != "." or ".crc" in n))
        if Path(parent).parent == data_dir / "log":
            kept = (n for n in kept if not SHARD_FILE.fullmatch(n) and not DELAY_FILE.fullmatch(n))
        if Path(parent) == data_dir:
            folders[:] = [f for f in folders if f not in _KEPT_HERE]
            kept = (n for n in kept if n not in _KEPT_HERE)
        found += [Path(parent, name).relative_to(data_dir) for name in kept if Path(parent, name).is_file()]
    return sorted(found)


def _has_keys(path: Path) -> bool:
    return path.parts[0] == "log" and is_key_folder(path.parent.name)


def _in_order(paths: Iterator[Path]) -> list[Path]:
    """In a checkpoint, a batch is first planned and then recorded as done; the files are copied in that order."""
    ranks = {"offsets": 0, "commits": 1}
    return sorted(paths, key=lambda p: (ranks.get(p.parent.name, 2), p))


def _copy(source: Path, target: Path, say: ReportProgress) -> None:
    private_folder(target.parent)
    try:
        with source.open("rb") as f:
            _write(f, target, source.name, say)
    except FileNotFoundError:  # Spark deletes files that it no longer needs
        target.unlink(missing_ok=True)


def _write(f: Any, target: Path, name: str, say: ReportProgress) -> None:
    total, done = os.fstat(f.fileno()).st_size, 0
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        while block := f.read(_BLOCK):
            out.write(block)
            done += len(block)
            say(f"copy {name}", done, total)
        out.flush()
        os.fsync(out.fileno())


def _copy_shard(source: Path, target: Path, say: ReportProgress) -> ShardEntry | None:
    with closing(open_read_only(source)) as there:
        if there.execute("PRAGMA user_version").fetchone()[0] == 0:
            return None  # a gateway is creating it
        private_folder(target.parent)
        write_private(target, b"")
        return _copy_pages(there, source, target, say)


def _copy_delayed(source: Path, target: Path, say: ReportProgress) -> None:
    """Copies a file of events that wait until they are due. Raises `sqlite3.Error`, and copies a damaged one as it
    is."""
    try:
        with closing(open_read_only(source)) as there:
            private_folder(target.parent)
            write_private(target, b"")
            with closing(sqlite3.connect(target, isolation_level=None)) as here:
                there.backup(here)
                here.execute("PRAGMA journal_mode = DELETE").fetchall()
    except sqlite3.DatabaseError as e:
        if not is_damage(e):
            raise
        _copy_damaged(source, target, say)
    with target.open("rb") as f:
        os.fsync(f.fileno())


def _copy_damaged(source: Path, target: Path, say: ReportProgress) -> None:
    """Copies a file that SQLite can't read as it is: `log repair` may recover a part of it."""
    for suffix in ("", "-wal"):
        _copy(source.with_name(source.name + suffix), target.with_name(target.name + suffix), say)


def _copy_pages(there: sqlite3.Connection, source: Path, target: Path, say: ReportProgress) -> ShardEntry:
    with closing(sqlite3.connect(target, isolation_level=None)) as here:
        there.execute("BEGIN")  # a snapshot: without it, each write of the gateway would restart the copy
        first, following = bounds_of(there)
        size = there.execute("PRAGMA page_size").fetchone()[0]

        def progress(status: int, remaining: int, total: int) -> None:
            say(f"copy {source.parent.name}/{source.name}", (total - remaining) * size, total * size)

        there.backup(here, pages=_PAGES, progress=progress, sleep=0)
        # a single file until it is restored; a gateway converts it to WAL mode again
        here.execute("PRAGMA journal_mode = DELETE").fetchall()
    with target.open("rb") as f:
        os.fsync(f.fileno())
    return ShardEntry(first, following)


def _copy_letters(data_dir: Path, partial: Path) -> None:
    for path in [p for p in _files(data_dir) if p.parts[0] == DEAD_LETTERS]:
        _add_letters(data_dir / path, partial / path)


def _add_letters(source: Path, target: Path) -> None:
    """Adds the dead letters that came since the first copy; those that were replayed since then stay in it."""
    known = target.read_bytes() if target.exists() else b""
    try:
        now = source.read_bytes()
    except FileNotFoundError:
        return
    seen = set(known.splitlines())
    whole = now[: now.rfind(b"\n") + 1]  # the last line may be incomplete
    new = [line for line in whole.splitlines() if line not in seen]
    private_folder(target.parent)
    head = known[: known.rfind(b"\n") + 1]
    write_private(target, head + b"".join(line + b"\n" for line in new))


def _trim_checkpoints(root: Path) -> None:
    """A query may have continued while its checkpoint was copied. It may have planned at most one batch more than it
    has finished: Spark starts with the last planned one."""
    for offsets in root.rglob("offsets"):
        commits = offsets.parent / "commits"
        if not offsets.is_dir():
            continue
        planned, done = _numbers(offsets), _numbers(commits)
        last = max(planned, default=-1)
        committed = max((n for n in done if n <= last), default=-1)
        for folder, numbers, most in ((commits, done, last), (offsets, planned, committed + 1)):
            for number in numbers:
                if number > most:
                    (folder / str(number)).unlink()
                    (folder / f".{number}.crc").unlink(missing_ok=True)


def _numbers(folder: Path) -> list[int]:
    with suppress(FileNotFoundError):
        return [int(p.name) for p in folder.iterdir() if p.name.isdigit()]
    return []
