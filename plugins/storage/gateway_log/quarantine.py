"""Unreadable events of the log: one line each in `<folder>/quarantine/shard-000.jsonl`.

A line has `shard`, `first` and `last` (the sequences, both included), `position` of the first, `reason`, `found` (when;
RFC 3339), `page` (true if the file itself is damaged there) and, if the row could be read as such, `row`: its columns,
bytes as base64. Events that waited until they were due (`delay_file.py`) are in `delayed-000.jsonl`: these lines have
`trigger`, too, and their rows `due_ns`. A line stays after retention has deleted the row; remove a file once it has
been handled.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import threading
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gateway_core.contract.event import Event, position_of
from gateway_core.contract.files import private_folder

from .meta import remedy
from .reader import described, shard_file, to_event
from .rows import Row, Unreadable

log = logging.getLogger("tidegate.log")

_COLUMNS = ("sequence", "received_ns", "flags", "key", "attributes", "data", "checksum")
_BYTES = ("key", "attributes", "data")
_TOLD = 20
"""This many are reported in the gateway's log one by one."""


def quarantine_file(folder: Path, shard: int) -> Path:
    """The quarantine file of one shard."""
    return folder / "quarantine" / f"shard-{shard:03d}.jsonl"


def entries(folder: Path) -> Iterator[dict[str, Any]]:
    """All lines of a log, shard by shard; lines that a crash cut short are skipped. Raises `OSError`."""
    for pattern in ("shard-*.jsonl", "delayed-*.jsonl"):
        for path in sorted((folder / "quarantine").glob(pattern)):
            yield from _lines(path)


def event_of(entry: dict[str, Any]) -> Event:
    """The event in the row: some part of it is not what was written. Raises `ValueError` if the row can't be read as an
    event."""
    row = entry.get("row")
    if row is None:
        raise ValueError("nothing of it can be read")
    columns: dict[str, Any] = {name: _bytes(value) if name in _BYTES else value for name, value in row.items()}
    try:
        return to_event(entry["shard"], Row(*(columns[name] for name in _COLUMNS[:6])))
    except (TypeError, AttributeError, KeyError) as e:
        raise ValueError(str(e)) from e


class Quarantine:
    """The unreadable events in the shards of this process. Filled by the reading thread, read by any thread."""

    def __init__(self, folder: Path, shards: Sequence[int], damaged: Callable[[int, Unreadable], None]) -> None:
        """`damaged` is called on the reading thread for each new range in which the file itself is damaged."""
        self._folder = folder
        self._damaged = damaged
        self._lock = threading.Lock()
        self._known: dict[int, list[tuple[int, int]]] = {}  # disjoint ranges, sorted
        self._told = 0
        for shard in shards:
            for line in _lines(quarantine_file(folder, shard)):
                self._add(shard, line["first"], line["last"])

    @property
    def events(self) -> int:
        """The number of events."""
        with self._lock:
            return sum(last - first + 1 for ranges in self._known.values() for first, last in ranges)

    def has(self, shard: int, found: Unreadable) -> bool:
        """Whether this whole range is known."""
        with self._lock:
            ranges = self._known.get(shard, [])
            return any(first <= found.first and found.last <= last for first, last in ranges)

    def faults(self) -> dict[str, str]:
        """Messages for the operator, by file."""
        with self._lock:
            counts = {s: sum(last - first + 1 for first, last in ranges) for s, ranges in self._known.items()}
        return {
            shard_file(self._folder, shard).name: f"{count} events of {shard_file(self._folder, shard)} can't be read: "
            "`tidegate log quarantine list` shows them"
            for shard, count in counts.items()
            if count
        }

    def report(self, shard: int, found: Unreadable) -> None:
        """These events can't be read. Known ones are ignored."""
        with self._lock:
            if not self._add(shard, found.first, found.last):
                return
            self._told += 1
        try:
            self._write(shard, found)
        except OSError as e:
            log.error("%s can't be written: %s", quarantine_file(self._folder, shard), e.strerror)
        if self._told <= _TOLD:
            log.error(
                "%s: %s; the others are delivered. `tidegate log quarantine list` shows it%s",
                shard_file(self._folder, shard),
                described(found),
                f"; repair the file with {remedy(self._folder)}" if found.page else "",
            )
        elif self._told == _TOLD + 1:
            log.error("%s: more events can't be read; they are not logged one by one", self._folder)
        if found.page:
            self._damaged(shard, found)

    def _add(self, shard: int, first: int, last: int) -> bool:
        """Adds a range; returns whether any part of it is new."""
        ranges = self._known.setdefault(shard, [])
        at = max(0, bisect_left(ranges, (first, first)) - 1)
        while at < len(ranges) and ranges[at][0] <= last + 1:
            if ranges[at][0] <= first and last <= ranges[at][1]:
                return False
            if ranges[at][1] >= first - 1:
                known = ranges.pop(at)
                first, last = min(first, known[0]), max(last, known[1])
            else:
                at += 1
        insort(ranges, (first, last))
        return True

    def _write(self, shard: int, found: Unreadable) -> None:
        _append(quarantine_file(self._folder, shard), _entry(shard, found, _COLUMNS))


def set_aside(folder: Path, shard: int, trigger: str, found: Unreadable) -> None:
    """Notes an event that waited for a trigger until it was due and can't be read. `raw` of `found` has `due_ns` before
    the checksum. Raises `OSError`."""
    entry = _entry(shard, found, (*_COLUMNS[:6], "due_ns", "checksum"))
    entry["reason"] = f"{found.reason}; it waited for the trigger {trigger}"
    _append(folder / "quarantine" / f"delayed-{shard:03d}.jsonl", {**entry, "trigger": trigger})


def _append(path: Path, entry: dict[str, Any]) -> None:
    private_folder(path.parent)
    line = json.dumps(entry).encode() + b"\n"
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":  # cut short by a crash
            line = b"\n" + line
        os.write(descriptor, line)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _entry(shard: int, found: Unreadable, columns: Sequence[str]) -> dict[str, Any]:
    entry = {
        "shard": shard,
        "first": found.first,
        "last": found.last,
        "position": position_of(shard, found.first),
        "reason": found.reason,
        "found": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "page": found.page,
    }
    if found.raw is not None:
        entry["row"] = {
            name: base64.b64encode(value).decode() if isinstance(value, bytes) else value
            for name, value in zip(columns, found.raw, strict=True)
        }
    return entry


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    with path.open("rb") as f:
        for line in f:
            try:
                entry = json.loads(line)
                if entry["first"] <= entry["last"] and isinstance(entry["shard"], int):
                    yield entry
            except (ValueError, TypeError, KeyError):
                continue


def _bytes(value: Any) -> bytes | None:
    return None if value is None else base64.b64decode(value)
