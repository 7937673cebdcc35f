"""The channel `log`: a broker's events in SQLite files on this machine (`gateway_core.interfaces.Channel`).

The way of an event: `append` encodes its attributes and puts it in the writer's queue; the writer's thread commits what
waits and wakes the event loop once; there the senders are answered, and the events are offered to subscriptions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
from anyio import to_thread
from anyio.abc import TaskGroup

from gateway_core.abilities import Found
from gateway_core.clock import Timer
from gateway_core.component import BuildContext
from gateway_core.errors import Overloaded, Refused, StartError, StorageError, TidegateError
from gateway_core.event import Event
from gateway_core.interfaces import Accepted, Filter, Receiver

from . import meta, readers
from .chunks import ChunkReader
from .config import LogConfig
from .feed import LogFeed
from .feeder import Feeder
from .folder import LogFolder
from .places import Changes, Place
from .quarantine import Quarantine
from .reader import TRACE, position_of, shard_file
from .readers import LogReaderFeed
from .retention import Retention
from .room import DiskFull
from .rows import Unreadable
from .search import find
from .shard import Shard, file_bytes
from .tail import Tail
from .writer import Commit, Unit, Writer

log = logging.getLogger("tidegate.log")

FLUSH_S = 0.05
"""Places are written this soon after they changed."""
REMEMBER_S = 10.0
"""How far the log has come is noted outside its files this often."""
RETRY_S = 5.0
PROBE_S = 1.0
"""A write is tried this often while the log can't be written."""
_encode = msgspec.json.Encoder().encode


_KEYS = (bytes, type(None))


class LogChannel:
    """One worker's part of a broker's log."""

    def __init__(self, config: LogConfig, context: BuildContext) -> None:
        self.appended = self.failed = 0
        self._config = config
        self._context = context
        self._clock = context.clock
        self._folder = LogFolder(context.data_dir / "log" / context.broker, context.worker, context.workers)
        self._known: dict[int, dict[str, Place]] = {}
        self._routed: dict[int, int] = {}
        self._reading: set[str] = set()
        self._queued = 0  # bytes
        self._fault: StorageError | None = StorageError("not open")  # why events can't be written
        self._full = False
        self._places_safe = True  # of the last commit that was tried
        self._taking = False
        self._flush: Timer | None = None
        self._remembered_at = 0.0
        self._writer: Writer | None = None

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self, tasks: TaskGroup) -> None:
        """Opens the shards of this worker. Raises `StartError`."""
        self._loop = asyncio.get_running_loop()
        shards, room = await self._loop.run_in_executor(None, self._folder.open, self._config.sync)
        self._shards, self._room = shards, room
        self._tails = [Tail(s.number, s.first, s.next, s.routed, self._changed) for s in shards]
        self._known = {s.number: s.places for s in shards}
        self._routed = {s.number: s.routed for s in shards}
        self._lost = {s.number for s in shards if s.places_lost}
        self._damage = {s.number: s.damaged for s in shards if s.damaged}
        for shard in shards:
            if shard.damaged:
                log.error("%s", self._damage_of(shard.number))
        self._tail = self._tails[0]
        self._quarantine = Quarantine(self._folder.path, [s.number for s in shards], self._find_damage)
        self._chunks = ChunkReader(self._folder.path, self._loop, self._quarantine.report)
        self._feeder = Feeder(self._tails, self._chunks, self._loop)
        self._writer = Writer(shards, room, self._loop, self._committed, self._damaged)
        self._retention = self._make_retention(shards, self._writer)
        self._writer.start()
        self._fault = room.error() if room.full else None
        self._full = room.full
        if room.full:
            log.error("%s: this gateway only delivers until there is room, and takes no events", self._fault)

    def _make_retention(self, shards: Sequence[Shard], writer: Writer) -> Retention:
        config, workers = self._config, self._context.workers
        return Retention(
            *(config.retention, config.check_interval_s, workers, shards, self._room, self._tails, self._folder.path),
            *(self._clock, writer.put_later, self._loop.call_soon_threadsafe),
        )

    async def open(self) -> None:
        """Gives all subscriptions their places, makes them durable, and begins to feed. Raises `StorageError`."""
        for tail in self._tails:
            for name, place in self._known[tail.shard].items():
                if place.next is None and name not in self._feeder.feeds:
                    self._part(tail, name, Place(self._routed[tail.shard], place.pending))
        if self._context.worker == 0:
            for name in set(readers.names(self._folder.path)) - self._reading:
                readers.detach(self._folder.path, name)
        await self._feeder.begin()
        if (error := await self._write_places()) and not self._full:
            raise error
        self._taking = True
        self._changed()  # what was acknowledged meanwhile set no timer
        self._retention.start()

    def _part(self, tail: Tail, name: str, place: Place) -> None:
        self._known[tail.shard][name] = place
        tail.part(name, place)

    async def stop(self) -> None:
        """Finishes appends, makes all places durable, closes."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        taking, self._taking = self._taking, False
        self._retention.stop()
        if self._flush is not None:
            self._flush.cancel()
        await self._settled(writer)
        if taking:  # what was committed last has been offered by now
            self._put_places(writer)
            await self._settled(writer)
        await self._loop.run_in_executor(None, self._close, writer)

    def _close(self, writer: Writer) -> None:
        self._chunks.close()
        writer.close()

    async def _settled(self, writer: Writer) -> None:
        """Returns when all that was put before is written, and the loop knows of it."""
        done = self._loop.create_future()
        writer.put(lambda: self._loop.call_soon_threadsafe(done.set_result, None))
        await done

    # -- appends ----------------------------------------------------------------------------------------------------

    def append(self, events: Sequence[Event], done: Accepted) -> None:
        """Brings events into stable storage; `done(None)` follows when all of them are there."""
        if not self._taking or self._writer is None:
            self._refuse(events, done, Overloaded("the log is not open"))
            return
        if self._full:
            self._refuse(events, done, self._room.error())
            return
        attributes: list[bytes] = []
        size = 0
        try:
            for event in events:
                trace = event.trace
                text = _encode(event.attributes if trace is None else {**event.attributes, TRACE: trace})
                attributes.append(text)
                data = event.data
                if (data.__class__ is not bytes and data is not None) or event.key.__class__ not in _KEYS:
                    raise TypeError("data and key must be bytes or None")
                size += 64 + len(text) + (len(data) if data else 0)
        except Exception as e:  # what no codec or source should let through: it must not fail those beside it
            self._refuse(events, done, Refused(f"an event can't be stored: {e}", status=500))
            return
        if self._queued and self._queued + size > self._config.max_queue_bytes:
            self._refuse(events, done, Overloaded("the disk is behind: too many events wait to be written"))
            return
        self._queued += size
        self._writer.append(Unit(events, attributes, size, self._clock.now_ns(), done))

    def _refuse(self, events: Sequence[Event], done: Accepted, error: TidegateError) -> None:
        self.failed += len(events)
        self._loop.call_soon(done, error)

    def _committed(self, commit: Commit) -> None:
        """A commit was tried: answers those who wait, then feeds."""
        self._set_writable(commit.error)
        if commit.failed:
            self._changed(PROBE_S)
            self._put_back(commit.failed)
        self._places_safe = not commit.failed
        size = sum(unit.size for unit in commit.units)
        self._queued -= size
        events: list[Event] = []
        if commit.error is None:
            position = position_of(commit.shard, commit.first)
            for unit in commit.units:
                for event in unit.events:
                    event.position = position
                    position += 1
                events += unit.events
            self.appended += len(events)
        else:
            self.failed += sum(len(unit.events) for unit in commit.units)
        for unit in commit.units:
            try:
                unit.done(commit.error)
            except Exception:
                log.exception("the answer to an append failed")
        if events:
            self._feeder.route(events, size)
            self._changed()

    # -- damage -----------------------------------------------------------------------------------------------------

    def _find_damage(self, shard: int, found: Unreadable) -> None:
        """On the reading thread."""
        with suppress(RuntimeError):  # the loop is gone
            self._loop.call_soon_threadsafe(self._damaged, shard, found.reason)

    def _damaged(self, number: int, why: str) -> None:
        """A file turned out to be damaged: nothing more is written to it. A new shard takes over from the main one."""
        if number in self._damage or self._writer is None:
            return
        self._damage[number] = why
        log.error("%s", self._damage_of(number))
        self._replacing = self._loop.create_task(self._replace(number, why, self._writer))

    async def _replace(self, number: int, why: str, writer: Writer) -> None:
        folder = self._folder
        try:
            await to_thread.run_sync(meta.change, folder.path, lambda known: known.broken(number, why))
            if number != self._tail.shard:
                writer.put(lambda: writer.freeze(number, why))
                return
            shard = await to_thread.run_sync(folder.next, self._shards, self._config.sync)
        except (StartError, OSError) as e:
            log.error("no other file can take over from %s: %s", shard_file(folder.path, number), e)
            self._clock.call_later(RETRY_S, lambda: self._damage.pop(number, None))  # the next fault tries again
            return
        if self._writer is not writer:
            shard.close()
            return
        writer.put(lambda: writer.switch(shard, why, self._switched))

    def _switched(self, shard: Shard) -> None:
        """All commits from now on are to this shard."""
        tail = Tail(shard.number, shard.first, shard.next, shard.routed, self._changed)
        self._shards.insert(0, shard)
        self._tails.insert(0, tail)
        self._tail = tail
        self._known[shard.number], self._routed[shard.number] = {}, shard.routed
        self._feeder.switch(tail)
        self._retention.add(shard, tail)
        self._changed()
        log.warning("events go to %s from now on", shard.path)

    def _damage_of(self, number: int) -> str:
        return (
            f"{shard_file(self._folder.path, number)} is damaged ({self._damage[number]}): nothing more is written to"
            " it, events to come go to another file, and what can be read of it is delivered; save the rest with"
            f" {meta.remedy(self._folder.path)} while the gateway is stopped"
        )

    def _faults(self) -> dict[str, str]:
        damage = {shard_file(self._folder.path, n).name: self._damage_of(n) for n in self._damage}
        lost = self._quarantine.faults()
        return {name: "; ".join(d[name] for d in (damage, lost) if name in d) for name in {**damage, **lost}}

    def _set_writable(self, error: StorageError | None) -> None:
        if error is None and self._fault is not None:
            log.warning("the log %s can be written again", self._folder.path)
        self._fault = error
        # events are taken again when the places are durable: those of triggers that are new since then count
        self._full = isinstance(error, DiskFull)
        if error is not None:
            self._changed(PROBE_S)
        if self._full and self._taking:
            self._retention.relieve()

    # -- places -----------------------------------------------------------------------------------------------------

    def _changed(self, within_s: float = FLUSH_S) -> None:
        """A place changed, or the end did: it is written with the next commit after a while."""
        if self._flush is None and self._taking:
            self._flush = self._clock.call_later(within_s, self._flush_places)

    def _flush_places(self) -> None:
        self._flush = None
        if self._writer is None:
            return
        self._put_places(self._writer)
        now = self._clock.monotonic()
        if now >= self._remembered_at + REMEMBER_S:
            self._remembered_at = now
            self._loop.run_in_executor(None, self._remember, self._shards[0])

    def _remember(self, shard: Shard) -> None:
        try:
            shard.remember()
        except StartError as e:
            log.warning("%s", e)

    def _put_places(self, writer: Writer) -> None:
        for tail in self._tails:
            if tail.stale or (tail is self._tail and self._fault is not None):
                writer.put(tail.take())

    def _put_back(self, changes: Sequence[Changes]) -> None:
        for change in changes:
            next(t for t in self._tails if t.shard == change.shard).put_back(change)

    async def _write_places(self) -> StorageError | None:
        """Makes all places durable now."""
        assert self._writer is not None
        self._put_places(self._writer)
        await self._settled(self._writer)
        safe = self._fault is None and self._places_safe
        return None if safe else StorageError(f"log: {self._folder.path} can't be written")

    # -- subscriptions ----------------------------------------------------------------------------------------------

    def attach(self, name: str, filter: Filter, receiver: Receiver, *, from_start: bool = False) -> LogFeed:
        """Adds a subscription. After `open`, it begins at once, and its place is durable when it has `joined`. Nobody
        else writes to the log or shares it: nothing is rejected or withdrawn."""
        feed = self._feeder.attach(name, filter, receiver.offer, from_start)
        for tail in self._tails:
            place = self._known[tail.shard].get(name)
            if place is None and tail.shard in self._lost:
                place = Place(tail.first)
            cursor = self._feeder.place(feed, filter, tail, place, self._routed[tail.shard])
            if self._taking or tail.shard in self._lost:
                tail.mark(cursor)
            if self._taking:
                self._feeder.wake(cursor)
        return feed

    async def joined(self, name: str) -> None:
        """See `abilities.Joined`: a crash does not forget the place. Where the disk is full no event comes in either,
        and the place is written when there is room."""
        if self._taking:
            await self._write_places()

    def attach_reader(self, name: str, filter: Filter, *, from_start: bool = False) -> LogReaderFeed:
        """Adds a sink that reads the shards' files by itself. Raises `StartError`."""
        self._reading.add(name)
        self._feeder.watch(name, filter)
        start = readers.attach(
            self._folder.path, name, self._folder.firsts if from_start else lambda: self._folder.ends(self._tails)
        )
        return LogReaderFeed(name, self._folder.path, start, lambda: self._folder.ends(self._tails))

    def detach(self, name: str) -> None:
        """Ends a subscription; its place is kept but keeps no event from being deleted."""
        if name in self._reading:
            self._reading.discard(name)
            readers.detach(self._folder.path, name)
        for shard, place in self._feeder.detach(name).items():
            self._known[shard][name] = place

    # -- looking in -------------------------------------------------------------------------------------------------

    async def find(self, id: str, source: str | None, rest: Any = None, within_s: float = 0.5) -> Found:
        """See `gateway_core.abilities.Searchable`; the shards of all workers are looked at."""
        return await to_thread.run_sync(find, self._folder.path, id, source, rest, within_s)

    def info(self) -> dict[str, Any]:
        """For status. `first` and `next` are positions in this worker's own shard; `events` and `bytes` are those of
        all shards that it owns."""
        if self._writer is None:
            return {
                "writable": False,
                "error": "not open",
                "events": 0,
                "bytes": 0,
                "first": 0,
                "next": 0,
                "unrouted": 0,
                "shards": {},
            }
        shards = {
            str(t.shard): {"first": t.first, "next": t.end, "events": t.end - t.first, "bytes": file_bytes(s.path)}
            for s, t in zip(self._shards, self._tails, strict=True)
        }
        return {
            "writable": self._fault is None,
            "error": None if self._fault is None else str(self._fault),
            "events": sum(s["events"] for s in shards.values()),
            "bytes": sum(s["bytes"] for s in shards.values()),
            "first": position_of(self._tail.shard, self._tail.first),
            "next": position_of(self._tail.shard, self._tail.end),
            "unrouted": self._feeder.unrouted,
            "shards": shards,
            "waiting_bytes": self._queued,
            "failed": self.failed,
            "quarantined": self._quarantine.events,
            "faults": self._faults(),
        }
