"""What a log must have, remembered outside its shards: the file `meta.json` of the log's folder.

A database file that was removed, emptied or replaced by an older one opens without a fault. So the log remembers which
shards there are, and a sequence that each of them is known to have reached: one that was in stable storage when it was
written here. The workers share the file; each changes it under a lock and replaces it whole.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from gateway_core.errors import StartError
from gateway_core.files import replace_file

FORMAT = 1
"""Of this file."""
_FILE = "meta.json"


class ShardMeta(msgspec.Struct, omit_defaults=True):
    """What is known of one shard: all sequences before `next` have been in stable storage, those before `first` are
    deleted. `damaged` says why nothing is written to it any more. `places_lost`: a repair could not read how far the
    subscriptions were. `running`: a gateway has it open, or ended without closing it."""

    next: int = 1
    first: int = 1
    damaged: str = ""
    places_lost: bool = False
    running: bool = False


class Meta(msgspec.Struct):
    """What is known of a log; shards by their numbers as text."""

    format: int = FORMAT
    shards: dict[str, ShardMeta] = {}

    def shard(self, number: int) -> ShardMeta | None:
        """What is known of one shard, None if it has never been there."""
        return self.shards.get(str(number))

    def reached(self, number: int, first: int, following: int) -> None:
        """All before the sequence `following` has been in stable storage, all before `first` is deleted."""
        known = self.shards.setdefault(str(number), ShardMeta())
        known.next = max(known.next, following)
        known.first = max(known.first, first)

    def broken(self, number: int, why: str) -> None:
        """Nothing is written to this shard any more."""
        self.shards.setdefault(str(number), ShardMeta()).damaged = why


def read(folder: Path) -> Meta:
    """What is known of the log in this folder; nothing of one that is new or was made by an older version. Raises
    `StartError` if the file is damaged or belongs to a newer version."""
    path = folder / _FILE
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return Meta()
    except OSError as e:
        raise StartError(f"log: {path} can't be read: {e.strerror}") from e
    try:
        found = msgspec.json.decode(content, type=Meta)
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise StartError(f"log: {path} is damaged ({e}): bring it back from a backup, or run {remedy(folder)}") from e
    if found.format > FORMAT:
        raise StartError(
            f"log: {folder} has format {found.format}, which is newer than this version's format {FORMAT}: run the"
            " version of Tidegate that wrote it, or name another data directory"
        )
    return found


def change(folder: Path, make: Callable[[Meta], object]) -> Meta:
    """Changes what is known and returns it, durable. Raises `StartError` as `read` does, and `OSError`."""
    with _locked(folder):
        found = read(folder)
        before = msgspec.json.encode(found)
        found.format = FORMAT
        make(found)
        after = msgspec.json.encode(found)
        if after != before or not (folder / _FILE).exists():
            replace_file(folder / _FILE, after + b"\n")
    return found


def put_aside(folder: Path, stamp: str) -> str:
    """Moves a damaged file out of the way; returns its new name. Raises `OSError`."""
    aside = f"{_FILE}.damaged-{stamp}"
    (folder / _FILE).rename(folder / aside)
    return aside


def remember(folder: Path, number: int, first: int, following: int, *, placed: bool, running: bool) -> None:
    """A shard has the events from `first` to before `following` in stable storage, and the places of its subscriptions
    if they are `placed`. Raises as `change` does."""

    def note(known: Meta) -> None:
        known.reached(number, first, following)
        if placed:
            known.shards[str(number)].places_lost = False
        known.shards[str(number)].running = running

    change(folder, note)


def remedy(folder: Path) -> str:
    """The command that repairs this log."""
    return f"`tidegate log repair --data-dir {folder.parent.parent} --broker {folder.name}`"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder / "meta.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
