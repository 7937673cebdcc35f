"""Keeps events with the same key from being stored twice (`deduplicate` of a broker).

An event's key is a hash of its attributes that the config names. It is written in the event's own row, in the
transaction that stores the event: one that fails leaves no key. The writer's thread decides, one commit after another,
so an event is a duplicate only of one that is in the log, or that comes with the same commit.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec

from gateway_core.contract.capabilities import Repeated
from gateway_core.contract.deduplicate_config import key_headers, key_reader, part_names, unlike
from gateway_core.contract.errors import Refused, StartError, StorageError
from gateway_core.contract.event import Event, position_of
from gateway_core.contract.found_duplicates import FoundDuplicates

from . import meta
from .checksum import PRIME
from .key_index import EARLY_MS, RUN_MS, KeyIndex, capacity_of
from .key_runs import END, KEY, TAIL, Base, Known, missing
from .lost_keys import gaps, lost_keys
from .other_keys import OtherKeys, Turn, folder_of, key_folders
from .reader import JSON_DATA, TRACE, LogReader, shard_file
from .shard import KEYED_COLUMNS, Shard, traced_flags

if TYPE_CHECKING:
    from gateway_core.contract.deduplicate_config import DeduplicateConfig

log = logging.getLogger("tidegate.log")

TELL_S = 60.0
"""How often the gateway's log reports an index that can't be written, in seconds."""
_LOADED = 10_000
SPAN = 2**32
TURN_S, START_S = 5.0, 60.0
"""How long a commit, and a start, wait for another worker that died to start again, if that must say what it left."""
_decode = msgspec.json.Decoder(dict).decode


class Deduplication:
    """The keys of a broker's log. `rows` and `stored` are the writer's; the counters may be read on any thread."""

    def __init__(self, config: DeduplicateConfig, folder: Path, worker: int = 0, workers: int = 1) -> None:
        self._window_ms = int(config.window * 1000)
        self._names = part_names(config.key)
        self._conflict_status = 422 if key_headers(config.key) else 409
        self._text_of = key_reader(config.key)
        self._refuses = config.on_conflict == "refuse"
        self._folder = folder
        self._worker, self._workers = worker, workers
        self._capacity = capacity_of(config.max_keys, workers)
        self._turn: Turn | None = None
        self._others: OtherKeys | None = None
        self._mine: dict[int, Shard] = {}
        mine = folder_of(folder, worker)
        self._index = KeyIndex(mine, self._window_ms, config.max_keys, workers, self._count_of_others)
        self._reader = LogReader(folder)
        self._staged: dict[bytes, bytes] = {}
        self._staged_end = self._staged_ms = 0
        self._first = 0
        self._told_files: tuple[int, ...] = ()
        self._told_index = 0.0
        self.duplicates = self.keyless = 0
        """Events that were not stored again; events that lack a part of the key."""
        self._found = FoundDuplicates(log, str(folder), "refused" if self._refuses else "dropped")

    # -- life -------------------------------------------------------------------------------------------------------

    def open(self, shards: Sequence[Shard], now_ns: int) -> None:
        """Reads the keys of these shards, the main one first. Raises `StartError`."""
        main = shards[0]
        ends = {shard.number: shard.next for shard in shards if not shard.damaged}
        try:
            if self._workers > 1 or key_folders(self._folder).keys() - {self._worker}:
                self._turn = Turn(self._folder, self._settle)
                self._others = OtherKeys(self._folder, self._worker, self._workers, self._capacity)
            self._mine = {shard.number: shard for shard in shards}
            with self.turn(START_S, writes=False):
                main.key_rows()  # before the others look for them
                if self._others is not None:
                    self._others.open(ends, now_ns // 1_000_000 - self._window_ms)
                    ends = {**self._others.ends(), **ends}
                self._index.load(ends)
                self._make_again(now_ns // 1_000_000)
                for shard in (*shards[1:], main):
                    self._load(shard, self._sealed(shard.number))
                for shard in shards[1:]:
                    if not shard.damaged and self._reader.has_keys(shard.number):
                        shard.sealed = self._sealed(shard.number)
                if self._turn is not None and self._others is not None:
                    self._others.tell_ends(self._turn)
                    self._turn.tell_end(main.number, main.next)
                    self._turn.changed()
        except (OSError, sqlite3.Error, StorageError) as e:
            raise StartError(f"log: the keys of {self._folder} can't be read: {e}") from e
        self.use(main, now_ns, begun=True)

    def turn(self, within_s: float = TURN_S, *, writes: bool = True) -> AbstractContextManager[None]:
        """Keeps other workers from committing events: they must see the keys of this commit. Raises like
        `Turn.taken`."""
        if self._turn is None:
            return nullcontext()
        return self._turn.taken(self._main.number if writes else None, within_s)

    def _settle(self, shard: int) -> None:
        if (mine := self._mine.get(shard)) is not None:
            mine.settle()
        elif self._others is not None:
            self._others.settle(shard)

    def _sealed(self, shard: int) -> int:
        mine = self._index.sealed(shard)
        return mine if self._others is None else max(mine, self._others.sealed(shard))

    def _count_of_others(self) -> int:
        return 0 if self._others is None else self._others.keys

    def use(self, shard: Shard, now_ns: int, *, begun: bool = False) -> None:
        """Events are appended to this shard from now on. Raises `StartError`."""
        shard.key_rows()
        shard.sealed = self._sealed(shard.number)
        self._main = self._mine[shard.number] = shard
        if not begun:
            try:
                self._index.begin(shard.number, shard.next, now_ns // 1_000_000)
            except OSError as e:
                log.error("%s: the newest keys are lost, as they can't be written: %s", self._folder, e)
                self._index.start(shard.number, shard.next, now_ns // 1_000_000)

    def _make_again(self, now_ms: int) -> None:
        """Reads the keys of damaged runs from the log's rows. Raises `StartError` if the log no longer has them, since
        the events could be stored again."""
        folders = [self._index.generations, *(() if self._others is None else self._others.folders())]
        since = max(now_ms - self._window_ms, self._forgot_ms)
        if lost := list(lost_keys(self._reader, folders, since)):
            which = ", ".join(f"events {first} to {before - 1} of shard {shard}" for shard, first, before in lost)
            raise StartError(
                f"log: keys in {self._folder} are damaged or missing ({which}), and the log no longer has these events:"
                " they could be stored again. Restore the files of keys, or accept that with"
                f" {meta.remedy(self._folder)}"
            )
        parts = [part for folder in folders for part in missing(folder, self._reader.shards())]
        for shard, start, end in parts:
            generations = [
                *self._index.generations,
                *(() if self._others is None else chain.from_iterable(self._others.folders())),
            ]
            for first, before in list(gaps(generations, shard, start, min(end, self._sealed(shard)))):
                log.warning(
                    "%s: keys of the events %d to %d of shard %d are damaged: they are read from the events again",
                    self._folder,
                    first,
                    before - 1,
                    shard,
                )
                self._make_part(shard, first, before, since)
        self._index.mark()
        if self._others is not None:
            self._others.mark()

    def _make_part(self, shard: int, start: int, end: int, since: int) -> None:
        """Makes runs of keys that are older than those of other runs; of another worker's, only keys in memory."""
        rows = [row for row in _rows_of(self._reader, shard, start, end) if row[1] // 1_000_000 > since]
        if shard not in self._mine:
            if self._others is not None:
                self._others.put(shard, rows)
            return
        base = Base(shard, start, 0)
        keys: dict[bytes, bytes] = {}
        newest = 0
        for sequence, received_ns, text in rows:
            ms = received_ns // 1_000_000
            if keys and (len(keys) >= self._index.run_keys or ms - base.ms >= RUN_MS):
                self._index.add(base, sequence, newest, keys)
                base, keys = Base(shard, sequence, 0), {}
            if not keys:
                base = base._replace(ms=max(0, ms - EARLY_MS))
            name = text[:KEY]
            newest = max(newest, ms)
            if (known := self._find(name)) is None or known.ms < ms:  # a later one must stay the newest
                content = int.from_bytes(text[KEY:], "big")
                keys[name] = TAIL.pack(sequence - base.sequence, _within(ms - base.ms), content)
        self._index.add(base, end, newest, keys)

    def _load(self, shard: Shard, start: int) -> None:
        """Puts the keys that no run has."""
        index = self._index
        begun = False
        rows = _rows_of(self._reader, shard.number, start)
        keys: dict[bytes, bytes] = {}
        newest = 0
        for sequence, received_ns, text in rows:
            ms = received_ns // 1_000_000
            if not begun:
                index.begin(shard.number, start, ms)
                begun = True
            newest = max(newest, ms)
            base = index.base
            tail = TAIL.pack(sequence - base.sequence, _within(ms - base.ms), int.from_bytes(text[KEY:], "big"))
            keys[text[:KEY]] = tail
            if len(keys) >= _LOADED:
                index.put(keys, sequence + 1, newest)
                keys = {}
                try:
                    index.look(ms, sequence + 1)
                except OSError as e:  # a full disk must not prevent deliveries
                    log.warning("%s: the keys of duplicates can't be written: %s", self._folder, e)
        if not begun:
            index.begin(shard.number, max(start, shard.next), time.time_ns() // 1_000_000)
        if keys:
            index.put(keys, shard.next, newest)

    def close(self) -> None:
        """Closes the files."""
        self._index.close()
        self._reader.close()
        if self._others is not None:
            self._others.close()
        if self._turn is not None:
            self._turn.close()

    # -- appends ----------------------------------------------------------------------------------------------------

    def rows(self, shard: int, first: int, units: Sequence[Any]) -> list[Any]:
        """The columns of the events to store, like `shard.sequence_rows`, with their keys. Each unit learns which of
        its events are duplicates (`firsts`), or why it is refused. Call `stored` once they are in the log, in the same
        `turn`. Raises `StorageError` if the keys on disk can't be read, or written."""
        try:
            self._look(units[0].received_ns // 1_000_000, first)
            if self._turn is not None and self._others is not None:
                if self._told_files != (files := (self._main.number, *self._index.files)):
                    self._told_files = files
                    self._turn.changed()
                self._others.look(self._turn)
            return self._rows(shard, first, units)
        except (OSError, sqlite3.Error) as e:
            raise StorageError(f"the keys of duplicates can't be read: {getattr(e, 'strerror', None) or e}") from e

    def _look(self, ms: int, sequence: int) -> None:
        try:
            self._index.look(ms, sequence)
        except OSError as e:
            now = time.monotonic()
            if now >= self._told_index + TELL_S or not self._told_index:
                self._told_index = now
                log.error("%s: the keys of duplicates can't be written: %s", self._folder, e)
            if self._index.overfull:
                raise
        self._main.sealed = self._sealed(self._main.number)

    def _find(self, key: bytes) -> Known | None:
        """The newest event of a key, of all workers. Raises `OSError`."""
        mine = self._index.find(key)
        others = self._others.find(key) if self._others is not None else None
        return others if mine is None or (others is not None and others.ms > mine.ms) else mine

    def _rows(self, shard: int, first: int, units: Sequence[Any]) -> list[Any]:
        rows: list[Any] = []
        staged: dict[bytes, bytes] = {}
        self._staged = staged
        self._first = first
        index, window, pack = self._index, self._window_ms, TAIL.pack
        find, text_of = index.find if self._others is None else self._find, self._text_of
        _, from_sequence, from_ms = index.base
        base = position_of(shard, 0)
        sequence, newest = first, 0
        for unit in units:
            unit.firsts = unit.refused = None
            mark, begin, again = len(rows), sequence, unit.again
            for n, (event, attributes) in enumerate(zip(unit.events, unit.attributes, strict=True)):
                received_ns = event.received_ns or unit.received_ns
                data, key = event.data, event.key
                column: Any = ""
                if again:
                    pass
                elif (text := text_of(event)) is None:
                    self.keyless += 1
                else:
                    name = blake2b(_encoded(text), digest_size=KEY).digest()
                    ms = received_ns // 1_000_000
                    content = crc32(attributes)
                    if data:
                        content = crc32(data, content)
                    found = find(name) if name not in staged else index.known(staged[name])
                    if found is not None and ms - found.ms <= window:
                        differs = found.content != content and self._differs(event, found, rows)
                        self._repeated(unit, n, event, received_ns, found, differs)
                        if unit.refused is not None:
                            break
                        continue
                    after = ms - from_ms
                    if not 0 <= after < SPAN:
                        after = _within(after)
                    staged[name] = tail = pack(sequence - from_sequence, after, content)
                    if ms > newest:
                        newest = ms
                    column = bytearray(name + tail[-4:])
                flags = (JSON_DATA if event.json_data else 0) if event.trace is None else traced_flags(event)
                # as in `shard.sequence_rows`
                total = crc32(attributes, (base + sequence + received_ns) % PRIME ^ flags)
                if data is not None:
                    total = crc32(data, total ^ 1)
                    data = bytearray(data)
                if key is not None:
                    total = crc32(key, total ^ 2)
                else:
                    key = ""
                rows += (sequence, received_ns, flags, key, attributes.decode(), data, total, column)
                sequence += 1
            if unit.refused is not None:
                for column in rows[mark + KEYED_COLUMNS - 1 :: KEYED_COLUMNS]:
                    staged.pop(bytes(column[:KEY]) if column else b"", None)
                del rows[mark:]
                sequence = begin
        self._staged_end, self._staged_ms = sequence, newest
        return rows

    def _differs(self, event: Event, found: Known, rows: list[Any]) -> bool:
        """Whether an event has other content than the first with its key, of which the checksum differs: attributes may
        be in another order, and those of a hop differ each time. True if the log no longer has the first."""
        first = self._first
        if found.shard == self._main.number and found.sequence >= first:  # of this commit
            at = (found.sequence - first) * KEYED_COLUMNS
            return _unlike(event, rows[at + 4], rows[at + 5])
        row = next(self._reader.read(found.shard, found.sequence, found.sequence + 1), None)
        return row is None or _unlike(event, row.attributes, row.data)

    def first_of(self, event: Event, now_ns: int) -> Repeated | None:
        """See `gateway_core.contract.capabilities.KnowsKeys`. Called on the writer's thread. Raises `OSError`,
        `sqlite3.Error` and `StorageError`."""
        if (text := self._text_of(event)) is None:
            return None
        with self.turn(writes=False):
            if self._turn is not None and self._others is not None:
                self._others.look(self._turn)
            found = self._find(blake2b(_encoded(text), digest_size=KEY).digest())
        if found is None or now_ns // 1_000_000 - found.ms > self._window_ms:
            return None
        row = next(self._reader.read(found.shard, found.sequence, found.sequence + 1), None)
        differs = row is not None and _unlike(event, row.attributes, row.data)
        return Repeated(now_ns, position_of(found.shard, found.sequence), differs)

    def _repeated(self, unit: Any, n: int, event: Event, received_ns: int, found: Known, differs: bool) -> None:
        first = position_of(found.shard, found.sequence)
        repeated = Repeated(received_ns, first, differs)
        self._found.add(event, repeated)
        if differs and self._refuses:
            unit.firsts = None
            names = ", ".join(self._names)
            unit.refused = Refused(
                f"an event with the same {names} but other content was accepted before, at position {first}",
                status=self._conflict_status,
                title="Conflicting duplicate",
            )
            return
        if unit.firsts is None:
            unit.firsts = [0] * len(unit.events)
        unit.firsts[n] = first

    def stored(self, units: Sequence[Any]) -> None:
        """The rows of these units are in the log."""
        for unit in units:
            if unit.firsts is not None:
                self.duplicates += len(unit.firsts) - unit.firsts.count(0)
        if self._turn is not None:
            self._turn.tell_end(self._main.number, self._main.next)
        if self._staged:
            self._index.put(self._staged, self._staged_end, self._staged_ms)
            self._staged = {}

    def repeated(self, id: str, source: str | None) -> list[Repeated]:
        """See `gateway_core.contract.capabilities.Deduplicates`."""
        return self._found.of(id, source)

    # -- status -----------------------------------------------------------------------------------------------------

    def info(self, now_ns: int) -> dict[str, Any]:
        """For status."""
        index = self._index
        return {
            "window_s": self._window_ms / 1000,
            "key": self._names,
            "keys": index.keys + self._count_of_others(),
            "bytes": index.size + (0 if self._others is None else self._others.size),
            "duplicates": self.duplicates,
            "conflicts": self._found.conflicts,
            "without_key": self.keyless,
            "reaches_back_s": None if not self.is_short(now_ns) else round(now_ns / 1e9 - self._forgot_ms / 1000, 1),
        }

    def fault(self, now_ns: int) -> str:
        """Why it does less than it was asked for; "" if it does all."""
        if not self.is_short(now_ns):
            return ""
        hours = (now_ns / 1e9 - self._forgot_ms / 1000) / 3600
        return (
            f"duplicates are found for {hours:.1f} hours only, instead of {self._window_ms / 3_600_000:g}: there are"
            " more keys than `max_keys`; set it to more, or `window` to less"
        )

    def is_short(self, now_ns: int) -> bool:
        """Whether keys were dropped that the window still has, because there were too many."""
        return self._forgot_ms > now_ns // 1_000_000 - self._window_ms

    @property
    def _forgot_ms(self) -> int:
        mine = self._index.forgot_ms
        return mine if self._others is None else max(mine, self._others.forgot_ms)


def _unlike(event: Event, text: str | bytes, data: Any) -> bool:
    """Whether an event has other content than what is stored: `data` may be a `bytearray`, too."""
    try:
        attributes = _decode(text)
    except msgspec.MsgspecError:
        return True
    attributes.pop(TRACE, None)
    return unlike(event, attributes, data)


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON may have
        return text.encode("utf-8", "surrogatepass")


def _within(ms: int) -> int:
    """A time that fits into a tail."""
    return min(max(0, ms), SPAN - 1)


def _rows_of(reader: LogReader, shard: int, start: int, end: int = END) -> Iterator[tuple[int, int, bytes]]:
    """The sequence, time and key of each row that has one, of these sequences. What is damaged is left out."""
    try:
        if reader.has_keys(shard):
            for table in ("kept_keys", "events"):
                for row in reader.keys(shard, table, start, end):
                    if len(row[2]) == KEY + 4:
                        yield row
    except sqlite3.DatabaseError as e:
        log.error(
            "%s: the keys of its newest events can't be read, which may be stored again if they are sent again: %s",
            shard_file(reader.folder, shard),
            e,
        )
