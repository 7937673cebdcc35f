"""Keys on disk: sorted runs that are never changed, in one file for each generation, with a bloom filter.

A generation is a share of all keys that is dropped as a whole when it is old, or when there are too many. Its file
`keys-000001.runs` is a sequence of runs; each is a header, entries of `ENTRY` bytes sorted by their keys, and a fence
for every `BLOCK` of them, so that one read finds an entry. What a crash left of a run at the end is cut off at the next
start: the log still has its keys. `keys-000001.bloom` is the filter as of some of the runs; the rest is read again.
"""

from __future__ import annotations

import logging
import os
import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from struct import Struct, error
from typing import NamedTuple
from zlib import crc32

from gateway_core.contract.private_files import sync_directory, write_all

log = logging.getLogger("tidegate.log")

FOLDER = "keys"
"""The folder of these files, in that of the log."""
KEY = 12
"""Bytes of a key: 96 bits of a hash, so that two different ones are never taken for the same."""
TAIL = Struct(">III")
"""What is known of a key: its event's sequence and time (ms), from the run's bases, and a checksum of its content."""
ENTRY = KEY + TAIL.size
BLOCK = 256
CELL_KEYS = 4
"""How many keys share a cell of 64 bits of the filter. Each sets up to four of them, so a full filter is wrong for less
than 1 % of the keys that it has not."""
_FILE = re.compile(r"keys-(\d{6,})\.runs")
_HEAD = Struct(">4sIQQQQQIII")
_MAGIC, _DEAD = b"TGK1", b"DEAD"
_BLOOM = Struct(">4sQQI")
_PART = 1024 * 1024
_BLOOM_EACH = 8
"""The filter is written once for so many runs."""


class Known(NamedTuple):
    """The first event of a key: its shard and sequence, its time in milliseconds, and a checksum of its content."""

    shard: int
    sequence: int
    ms: int
    content: int


class Base(NamedTuple):
    """Where the numbers of a run begin: its shard, the first sequence, and a time in milliseconds."""

    shard: int
    sequence: int
    ms: int

    def known(self, tail: bytes) -> Known:
        """What the bytes behind a key say."""
        sequence, ms, content = TAIL.unpack(tail)
        return Known(self.shard, self.sequence + sequence, self.ms + ms, content)


class Run(NamedTuple):
    """A run in a generation's file: where it begins, and where its entries do; `end` is the sequence before which it
    has all keys since its base's; `newest` is the time of its newest key; `forgot` see `KeyIndex.forgot_ms`."""

    base: Base
    end: int
    newest: int
    forgot: int
    keys: int
    at: int
    entries: int
    fences: Sequence[int]


class Generation:
    """One generation: a file of runs, and the filter of their keys. `keys` are those in runs."""

    def __init__(self, folder: Path, number: int, capacity: int) -> None:
        self.number = number
        self.path = folder / f"keys-{number:06d}.runs"
        self.runs: list[Run] = []
        self.keys = 0
        self.capacity = capacity
        self.cells = _cells(capacity)
        self.count = len(self.cells)
        self._end = 0
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @property
    def size(self) -> int:
        """The size of its files, about."""
        return self._end + 8 * self.count

    def add(self, key: bytes) -> None:
        """Adds a key to the filter."""
        (place,) = place_in(key)
        self.cells[place % self.count] |= mask_of(place)

    def find(self, key: bytes) -> Known | None:
        """The newest entry of a key in the runs. Raises `OSError`."""
        prefix = int.from_bytes(key[:4], "big")
        for run in reversed(self.runs):
            fences = run.fences
            last = bisect_right(fences, prefix)
            first = last - 1
            while first > 0 and fences[first] == prefix:  # so many keys begin alike only in a tiny fraction of cases
                first -= 1
            first = max(first, 0)
            if last == 0:
                continue
            size = (min(last * BLOCK, run.keys) - first * BLOCK) * ENTRY
            block = os.pread(self._file, size, run.entries + first * BLOCK * ENTRY)
            at = block.find(key)
            while at >= 0 and at % ENTRY:
                at = block.find(key, at + 1)
            if at >= 0:
                return run.base.known(block[at + KEY : at + ENTRY])
        return None

    def write(self, base: Base, end: int, newest: int, forgot: int, keys: Mapping[bytes, bytes]) -> Run:
        """Writes a run durably, and adds its keys to the filter; `take` makes it known. May be called on any thread,
        one at a time. Raises `OSError`."""
        cells, count, pairs, place_of = self.cells, self.count, PAIRS, place_in
        # sorted in parts: the whole at once would keep the event loop waiting for Python's lock
        parts: list[list[bytes]] = [[] for _ in range(64)]
        for key, tail in keys.items():
            (place,) = place_of(key)
            cells[place % count] |= pairs[place & 4095] | pairs[place >> 12 & 4095]
            parts[place >> 58].append(key + tail)
        entries = b"".join([b"".join(sorted(part)) for part in parts])
        fences = array("I", [int.from_bytes(entries[i : i + 4], "big") for i in range(0, len(entries), BLOCK * ENTRY)])
        body = entries + fences.tobytes()
        count = len(keys)
        head = _HEAD.pack(_MAGIC, base.shard, base.sequence, end, base.ms, newest, forgot, count, crc32(body), 0)
        head = head[:-4] + crc32(head[:-4]).to_bytes(4, "big")
        at = self._end
        os.ftruncate(self._file, at)  # what a write that failed has left
        os.lseek(self._file, at, os.SEEK_SET)
        write_all(self._file, head + body)
        os.fsync(self._file)
        if not at:
            sync_directory(self.path.parent)
        return Run(base, end, newest, forgot, count, at, at + _HEAD.size, fences)

    def take(self, run: Run) -> None:
        """Makes a run known that was written."""
        self.runs.append(run)
        self.keys += run.keys
        self._end = run.entries + run.keys * ENTRY + len(run.fences) * 4

    def due(self) -> bool:
        """Whether it is time to write the filter."""
        return len(self.runs) % _BLOOM_EACH == 0

    def save_bloom(self) -> None:
        """Writes the filter beside the runs. May be called on any thread. Raises `OSError`."""
        body = self.cells.tobytes()
        path = self.path.with_suffix(".bloom")
        partial = path.with_suffix(".bloom.tmp")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, _BLOOM.pack(_MAGIC, self.capacity, self._end, crc32(body)) + body)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(partial, path)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)

    def remove(self) -> None:
        """Closes and deletes the files. Raises `OSError`."""
        self.close()
        self.path.with_suffix(".bloom").unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    # -- at a start -------------------------------------------------------------------------------------------------

    def load(self, ends: Mapping[int, int]) -> None:
        """Reads what is there. `ends` are the next sequences of the shards: a run beyond them is of a log that went
        back (a restored backup, a power failure), and is never used again. Raises `OSError`."""
        size = os.fstat(self._file).st_size
        for run in self._runs(size):
            if run.end > ends.get(run.base.shard, run.end):
                log.warning("%s: %d keys are of events that the log no longer has", self.path, run.keys)
                os.lseek(self._file, run.at, os.SEEK_SET)
                write_all(self._file, _DEAD)
                os.fsync(self._file)
                continue
            self.runs.append(run)
            self.keys += run.keys
        if self._end < size:
            os.ftruncate(self._file, self._end)
        self._load_bloom()

    def _runs(self, size: int) -> Iterator[Run]:
        while self._end < size:
            at = self._end
            head = os.pread(self._file, _HEAD.size, at)
            try:
                magic, shard, sequence, end, ms, newest, forgot, count, total, own = _HEAD.unpack(head)
            except error:
                return
            if magic not in (_MAGIC, _DEAD) or crc32(_MAGIC + head[4:-4]) != own:
                return
            entries = at + _HEAD.size
            blocks = -(-count // BLOCK)
            following = entries + count * ENTRY + blocks * 4
            if following > size:
                return
            # only the last one may be torn: the others were there before it began
            if following == size and crc32(os.pread(self._file, following - entries, entries)) != total:
                return
            self._end = following
            if magic == _MAGIC:
                fences = array("I")
                fences.frombytes(os.pread(self._file, blocks * 4, entries + count * ENTRY))
                yield Run(Base(shard, sequence, ms), end, newest, forgot, count, at, entries, fences)

    def _load_bloom(self) -> None:
        known = 0
        try:
            content = self.path.with_suffix(".bloom").read_bytes()
            magic, capacity, end, total = _BLOOM.unpack_from(content)
            body = memoryview(content)[_BLOOM.size :]
            if magic == _MAGIC and crc32(body) == total and len(body) == 8 * len(_cells(capacity)):
                self.capacity, self.cells, known = capacity, array("Q", body.tobytes()), end
        except (FileNotFoundError, error):
            pass
        if not known:
            self.capacity = max(self.capacity, self.keys)
            self.cells = _cells(self.capacity)
        self.count = len(self.cells)
        for run in self.runs:
            if run.at >= known:
                for key in self.keys_of(run):
                    self.add(key)

    def keys_of(self, run: Run) -> Iterator[bytes]:
        """The keys of a run, sorted. Raises `OSError`."""
        for start in range(0, run.keys, 16 * BLOCK):
            size = min(16 * BLOCK, run.keys - start) * ENTRY
            part = os.pread(self._file, size, run.entries + start * ENTRY)
            for at in range(0, size, ENTRY):
                yield part[at : at + KEY]


def faults_in(path: Path) -> Iterator[str]:
    """The faults of a generation's file: runs whose checksums don't fit. Works while a gateway writes it: a run that is
    not complete at its end is none. Raises `OSError`."""
    with path.open("rb") as file:
        size, at = os.fstat(file.fileno()).st_size, 0
        while at + _HEAD.size <= size:
            head = file.read(_HEAD.size)
            magic, _, _, _, _, _, _, count, total, own = _HEAD.unpack(head)
            if magic not in (_MAGIC, _DEAD) or crc32(_MAGIC + head[4:-4]) != own:
                if any(head):  # a power failure may leave zeros of a run that was not complete
                    yield f"the run at byte {at} has a damaged header: its keys, and all after them, are lost"
                return
            left = count * ENTRY + -(-count // BLOCK) * 4
            at += _HEAD.size
            if at + left > size:
                return
            start, at, found = at, at + left, 0
            while left and (part := file.read(min(left, _PART))):
                left, found = left - len(part), crc32(part, found)
            if found != total and magic == _MAGIC:
                yield f"the run at byte {start - _HEAD.size} is damaged: some of its {count} keys may be lost"


def _cells(capacity: int) -> array[int]:
    """An empty filter for so many keys."""
    return array("Q", bytes(8 * (capacity // CELL_KEYS + 1)))


def _pair(n: int) -> int:
    """One or two bits of 64, by a number of 12 bits."""
    return 1 << (n & 63) | 1 << (n >> 6)


place_in = Struct(">Q").unpack_from
PAIRS = [_pair(n) for n in range(4096)]


def mask_of(place: int) -> int:
    """The bits of a key in its cell; `place` is its first 64 bits, of which the upper ones say which cell."""
    return PAIRS[place & 4095] | PAIRS[place >> 12 & 4095]


def generations_in(folder: Path) -> list[int]:
    """The numbers of the generations in a folder, sorted."""
    for left in [p for p in folder.glob("*.bloom*") if not p.with_name(f"{p.name[: p.name.index('.')]}.runs").exists()]:
        left.unlink()
    found = (_FILE.fullmatch(p.name) for p in folder.iterdir())
    return sorted(int(m[1]) for m in found if m)
