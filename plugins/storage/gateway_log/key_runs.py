"""Keys on disk: sorted runs that are never changed, in one file for each generation, with a bloom filter.

A generation is a share of all keys that is dropped as a whole when it is old, or when there are too many. Its file
`keys-000001.runs` is a sequence of runs; each is a header, entries of `ENTRY` bytes sorted by their keys, and a fence
for every `BLOCK` of them, so that one read finds an entry. What a crash left of a run at the end is cut off at the next
start: the log still has its keys. `keys-000001.bloom` is the filter as of some of the runs; the rest is read again.

A start checks all runs. One that is damaged is left out, and the next header is looked for: `Damage` says what may be
missing. Its first bytes then become `LOST`, so that it is no longer reported.
"""

from __future__ import annotations

import errno
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
END = 2**63 - 1
"""After all sequences."""
CELL_KEYS = 4
"""How many keys share a cell of 64 bits of the filter. Each sets up to four of them, so a full filter is wrong for less
than 1 % of the keys that it has not."""
_FILE = re.compile(r"keys-(\d{6,})\.runs")
_HEAD = Struct(">4sIQQQQQIII")
_MAGIC, _DEAD, _LOST = b"TGK1", b"DEAD", b"LOST"
_NOBODY = 2**32 - 1
"""Stands for the shard of a run whose header was unreadable; the length of that run stands in place of a sequence."""
_SEARCHED = 1 << 20
_BEGINS = re.compile(b"|".join((_MAGIC, _DEAD, _LOST)))
_BLOOM = Struct(">4sQQI")
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


class Damage(NamedTuple):
    """A run that can't be read, at this byte: it has keys of `shard` from the sequence `start` to before `end`. If its
    header is unreadable, `shard` is None. `size` is its length, 0 for what is left at the end of a file: `short` if it
    ends too soon, as it does if a crash ends a write. `marked` says that the file names it."""

    at: int
    size: int
    shard: int | None = None
    start: int = 1
    end: int = 0
    marked: bool = False
    short: bool = False


class Generation:
    """One generation: a file of runs, and the filter of their keys. `keys` are those in runs."""

    def __init__(self, folder: Path, number: int, capacity: int, flags: int = os.O_RDWR | os.O_CREAT) -> None:
        self.number = number
        self.path = folder / f"keys-{number:06d}.runs"
        self.runs: list[Run] = []
        self.damage: list[Damage] = []
        self.keys = 0
        self.capacity = capacity
        self.cells = _cells(capacity)
        self.count = len(self.cells)
        self._end = 0
        self._filtered = True
        self._file = os.open(self.path, flags | os.O_CLOEXEC, 0o600)

    @classmethod
    def of_other(cls, path: Path, capacity: int) -> Generation:
        """One that another worker writes: see `read_new`. Raises `OSError`."""
        match = _FILE.fullmatch(path.name)
        assert match is not None
        generation = cls(path.parent, int(match[1]), capacity, os.O_RDWR)
        generation._filtered = False
        return generation

    @classmethod
    def read_only(cls, path: Path) -> Generation:
        """One for `read_all`. Raises `OSError`."""
        match = _FILE.fullmatch(path.name)
        assert match is not None
        return cls(path.parent, int(match[1]), 0, os.O_RDONLY)

    @property
    def size(self) -> int:
        """The size of its files, about."""
        return self._end + 8 * self.count

    def add(self, key: bytes) -> None:
        """Adds a key to the filter."""
        (place,) = place_in(key)
        self.cells[place % self.count] |= mask_of(place)

    def may_have(self, place: int) -> bool:
        """Whether it may have a key with these first 64 bits."""
        mask = mask_of(place)
        return self.cells[place % self.count] & mask == mask

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
        self.runs.extend(self._runs(size, self.damage))
        self._note_rest(size)
        self.drop_beyond(ends)
        self.keys = sum(run.keys for run in self.runs)
        if not all(damage.marked for damage in self.damage):  # other keys may come to that place
            self.path.with_suffix(".bloom").unlink(missing_ok=True)
        self._load_bloom()

    def read_all(self) -> None:
        """Reads which runs there are, without their filter. Raises `OSError`."""
        size = os.fstat(self._file).st_size
        self.runs.extend(self._runs(size, self.damage))
        self._note_rest(size)

    def _following(self, at: int) -> int:
        """Where the run at this byte ends, as its header says."""
        count = _HEAD.unpack(os.pread(self._file, _HEAD.size, at))[7]
        return int(at + _HEAD.size + count * ENTRY + -(-count // BLOCK) * 4)

    def _note_rest(self, size: int) -> None:
        if (at := self._end) < size:
            short = size - at < _HEAD.size or (os.pread(self._file, 4, at) == _MAGIC and self._following(at) > size)
            self.damage.append(Damage(at, 0, short=short))

    def mark(self, *, cut: bool) -> None:
        """Marks what is damaged, since nothing of it is needed any more. `cut` removes what is left at the end. Raises
        `OSError`."""
        marked: list[Damage] = []
        for each in self.damage:
            if each.marked:
                pass
            elif not each.size and each.at < self._end:
                continue  # a run took its place
            elif not each.size and cut:
                os.ftruncate(self._file, each.at)
                continue
            elif each.shard is not None:
                os.pwrite(self._file, _LOST, each.at)
            else:
                size = each.size or max(os.fstat(self._file).st_size - each.at, _HEAD.size)
                head = _HEAD.pack(_MAGIC, _NOBODY, size, 0, 0, 0, 0, 0, 0, 0)
                os.pwrite(self._file, _LOST + head[4:-4] + crc32(head[:-4]).to_bytes(4, "big"), each.at)
                self._end = max(self._end, each.at + size)
            marked.append(each._replace(marked=True))
        if marked != self.damage:
            os.fsync(self._file)
            self.damage = marked

    def drop_beyond(self, ends: Mapping[int, int]) -> None:
        """Marks runs dead that end beyond these next sequences of their shards. Raises `OSError`."""
        for run in [run for run in self.runs if run.end > ends.get(run.base.shard, run.end)]:
            log.warning("%s: %d keys are of events that the log no longer has", self.path, run.keys)
            os.pwrite(self._file, _DEAD, run.at)
            os.fsync(self._file)
            self.runs.remove(run)
            self.keys -= run.keys

    def read_new(self, *, begins: bool = False) -> bool:
        """Reads the runs that another worker has added. Returns whether there were any. Raises `OSError`, also for
        damaged ones, unless the worker `begins`."""
        size = os.fstat(self._file).st_size
        if size <= self._end:
            return False
        new = [*self._runs(size, self.damage if begins else None)]
        if begins:
            self._note_rest(size)
        self.runs += new
        self.keys += sum(run.keys for run in new)
        if not self._filtered and new:
            self._filtered = True
            self._load_bloom()
        else:
            for run in new:
                for key in self.keys_of(run):
                    self.add(key)
        return bool(new)

    def _runs(self, size: int, damage: list[Damage] | None) -> Iterator[Run]:
        """The runs that come next. Those that are damaged go to `damage`. Raises `OSError`, also for them if it is
        None."""
        while self._end < size:
            at = self._end
            head = os.pread(self._file, _HEAD.size, at)
            if len(head) < _HEAD.size:
                return
            magic, shard, sequence, end, ms, newest, forgot, count, total, own = _HEAD.unpack(head)
            wrong: Damage | None = None
            if magic not in (_MAGIC, _DEAD, _LOST) or crc32(_MAGIC + head[4:-4]) != own:
                following = self._next_header(at + 1, size)
                if not following:  # nothing was written after it: a crash may have torn it
                    return
                wrong = Damage(at, following - at)
            elif shard == _NOBODY:
                following = at + sequence
                wrong = Damage(at, sequence, marked=True)
            else:
                entries = at + _HEAD.size
                blocks = -(-count // BLOCK)
                following = entries + count * ENTRY + blocks * 4
                if following > size:
                    return
                if magic == _LOST:
                    wrong = Damage(at, following - at, shard, sequence, end, marked=True)
                elif magic == _MAGIC and crc32(body := os.pread(self._file, following - entries, entries)) != total:
                    if following == size:  # as above
                        return
                    wrong = Damage(at, following - at, shard, sequence, end)
            if wrong is None:
                self._end = following
                if magic == _MAGIC:
                    fences = array("I")
                    fences.frombytes(body[count * ENTRY :])
                    yield Run(Base(shard, sequence, ms), end, newest, forgot, count, at, entries, fences)
            elif damage is None and not wrong.marked:
                raise OSError(errno.EIO, f"the keys of another worker are damaged at byte {at}", str(self.path))
            else:
                self._end = following
                if damage is not None:
                    damage.append(wrong)

    def _next_header(self, at: int, size: int) -> int:
        """Where a run begins, from this byte on; 0 if none does."""
        while at < size:
            part = os.pread(self._file, _SEARCHED + _HEAD.size - 1, at)
            for match in _BEGINS.finditer(part, 0, _SEARCHED + 3):
                head = part[match.start() : match.start() + _HEAD.size]
                if len(head) == _HEAD.size and crc32(_MAGIC + head[4:-4]) == int.from_bytes(head[-4:], "big"):
                    return at + match.start()
            at += _SEARCHED
        return 0

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


def files_in(folder: Path) -> list[Path]:
    """The files of the generations in a folder, the oldest first."""
    return sorted((p for p in folder.iterdir() if _FILE.fullmatch(p.name)), key=lambda p: (len(p.name), p.name))


def missing(generations: Sequence[Generation], shards: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """What the damaged runs in a folder may have had keys of: the shard, and its sequences from one to before another.
    `generations` are all of the folder, the oldest first; `shards` are all of the log."""
    runs = [(n, run) for n, generation in enumerate(generations) for run in generation.runs]
    for n, generation in enumerate(generations):
        for damage in generation.damage:
            if damage.shard is not None:
                yield damage.shard, damage.start, damage.end
                continue
            # of a run, or of several, between these
            before = [run for at, run in runs if (at, run.at) < (n, damage.at)]
            after = [run for at, run in runs if (at, run.at) > (n, damage.at)]
            for shard in {run.base.shard for run in (*before[-1:], *after[:1])} or shards:
                start = max((run.end for run in before if run.base.shard == shard), default=1)
                end = min((run.base.sequence for run in after if run.base.shard == shard), default=END)
                if start < end:
                    yield shard, start, end


def run_faults(path: Path) -> Iterator[str]:
    """The faults of a generation's file: runs that are not as they were written. What is incomplete at its end is none:
    it may be being written, and the next start cuts it off. Raises `OSError`."""
    generation = Generation.read_only(path)
    try:
        generation.read_all()
        for damage in generation.damage:
            if damage.marked or damage.short:
                continue
            if damage.shard is None:
                yield f"is damaged at byte {damage.at}: keys of events can't be read"
            else:
                yield f"the keys of shard {damage.shard} from event {damage.start} to before {damage.end} are damaged"
    finally:
        generation.close()
