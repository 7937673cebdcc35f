"""Records outside of the shards what a log must contain: the file `meta.json` in the log's folder.

A database file that was removed, emptied or replaced by an older one opens without an error. So the log records which
shards exist, and a sequence that each of them has reached in stable storage. The workers share the file; each changes
it under a lock and replaces it as a whole.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from gateway_core.contract.errors import StartError
from gateway_core.contract.private_files import replace_file

from .too_new import refuse_too_new

FORMAT = 1
"""The format of this file."""
LOCK = "meta.lock"
FILE = "meta.json"


class ShardMeta(msgspec.Struct, omit_defaults=True):
    """One shard: all sequences before `next` have been in stable storage, and those before `first` are deleted.
    `damaged` says why it is no longer written. `cursors_lost`: a repair could not read the cursors of the
    subscriptions. `running`: a gateway has it open, or ended without closing it."""

    next: int = 1
    first: int = 1
    damaged: str = ""
    cursors_lost: bool = msgspec.field(default=False, name="places_lost")
    running: bool = False


class Meta(msgspec.Struct):
    """The known shards, by their numbers as text."""

    format: int = FORMAT
    shards: dict[str, ShardMeta] = {}

    def shard(self, number: int) -> ShardMeta | None:
        """One shard, or None if it never existed."""
        return self.shards.get(str(number))

    def reached(self, number: int, first: int, following: int) -> None:
        """All events before the sequence `following` have been in stable storage, and all before `first` are
        deleted."""
        known = self.shards.setdefault(str(number), ShardMeta())
        known.next = max(known.next, following)
        known.first = max(known.first, first)

    def broken(self, number: int, why: str) -> None:
        """This shard is no longer written."""
        self.shards.setdefault(str(number), ShardMeta()).damaged = why


_decode = msgspec.json.Decoder(Meta).decode


def read(folder: Path) -> Meta:
    """The metadata of the log in this folder; empty if the log is new or from an older version. Raises `StartError` if
    the file is damaged or from a newer version."""
    path = folder / FILE
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return Meta()
    except OSError as e:
        raise StartError(f"log: {path} can't be read: {e.strerror}") from e
    try:
        found = _decode(content)
        for number in found.shards:
            int(number)
    except (msgspec.DecodeError, ValueError) as e:
        raise StartError(f"log: {path} is damaged ({e}): restore it from a backup, or run {remedy(folder)}") from e
    refuse_too_new(folder, found.format, FORMAT)
    return found


def change(folder: Path, make: Callable[[Meta], object]) -> Meta:
    """Changes the metadata, makes it durable, and returns it. Raises `StartError` like `read`, and `OSError`."""
    with _locked(folder):
        found = read(folder)
        before = msgspec.json.encode(found)
        found.format = FORMAT
        make(found)
        after = msgspec.json.encode(found)
        if after != before or not (folder / FILE).exists():
            replace_file(folder / FILE, after + b"\n")
    return found


def put_aside(folder: Path, stamp: str) -> str:
    """Moves a damaged file out of the way; returns its new name. Raises `OSError`."""
    aside = f"{FILE}.damaged-{stamp}"
    (folder / FILE).rename(folder / aside)
    return aside


def remember(folder: Path, number: int, first: int, following: int, *, cursors_written: bool, running: bool) -> None:
    """A shard has the events from `first` to before `following` in stable storage, and the cursors of its subscriptions
    if `cursors_written`. Raises like `change`."""

    def note(known: Meta) -> None:
        known.reached(number, first, following)
        if cursors_written:
            known.shards[str(number)].cursors_lost = False
        known.shards[str(number)].running = running

    change(folder, note)


def remedy(folder: Path) -> str:
    """The command that repairs this log."""
    return f"`tidegate log repair --data-dir {folder.parent.parent} --broker {folder.name}`"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
