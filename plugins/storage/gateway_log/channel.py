"""The channel `log`: a broker's events in SQLite files on this machine (`gateway_core.contract.interfaces.Channel`).

The path of an event: `append` encodes its attributes and puts it in the writer's queue; the writer's thread commits the
waiting events and wakes the event loop once; there, the senders are answered and the events are offered to
subscriptions.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from anyio import to_thread
from anyio.abc import TaskGroup

from gateway_core.contract.capabilities import Found, GivenUp, GivenUpCount, Repeated
from gateway_core.contract.clock import Timer
from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Overloaded, Refused, StartError, StorageError, TidegateError
from gateway_core.contract.event import Event, position_of, split_position
from gateway_core.contract.files import folder_fault
from gateway_core.contract.interfaces import Accepted, Filter, Receiver
from gateway_core.contract.moments import written
from gateway_core.contract.replayable import Stretch
from gateway_core.contract.shortage import may_pass
from gateway_core.contract.start_position import LATEST, StartPosition

from . import again, fates_elsewhere, meta, rewinds
from .chunks import ChunkReader
from .config import LogConfig
from .cursor import CursorChanges
from .damage import DamagedShards
from .deduplication import Deduplication
from .delays import DelayedFeed, DelayFiles, DueOf
from .disk_reserve import DiskFull, sync_failed
from .fates_elsewhere import FatesElsewhere
from .feeder import Feeder, LogFeed, Tail
from .folder import LogFolder
from .quarantine import Quarantine
from .reader import TRACE, shard_file
from .readers import LogReaderFeed
from .retention import Retention
from .rows import Unreadable
from .search import at, browse, find, given_up, given_up_by, given_up_counts, redelivered
from .shard import Shard
from .subscriptions import Subscriptions
from .wal_file import file_bytes
from .writer import Commit, Unit, Writer

if TYPE_CHECKING:
    from gateway_core.contract.deduplicate_config import DeduplicateConfig

log = logging.getLogger("tidegate.log")

FLUSH_S = 0.05
"""Cursors are written this soon after a change."""
REMEMBER_S = 10.0
"""How often the log's progress is recorded outside of its files."""
RETRY_S = 5.0
REWIND_S = 10.0
LOOK_S = 5.0
LONG_S = 60.0
"""A rate of growth means nothing before the oldest event is this old."""
PROBE_S = 1.0
"""How often a write is attempted while the log can't be written."""
_T = TypeVar("_T")
_encode = msgspec.json.Encoder().encode
_KEYS = (bytes, type(None))


class LogChannel:
    """One worker's part of a broker's log."""

    def __init__(self, config: LogConfig, context: BuildContext) -> None:
        self.appended = self.failed = 0
        self._config = config
        self._context = context
        self._clock = context.clock
        folder = context.data_dir / "log" / context.broker
        if not context.offline and (why := folder_fault(folder.absolute())):
            raise StartError(f"{context.owner}: can't create the folder {folder}: {why}")
        self._folder = LogFolder(folder, context.worker, context.workers)
        if not context.offline:
            self._folder.look()
        self._queued = 0  # bytes
        self._fault: StorageError | None = StorageError("not open")  # why events can't be written
        self._full = False
        self._cursors_safe = True  # of the last attempted commit
        self._taking = False
        self._flush: Timer | None = None
        self._looking: Timer | None = None
        self._remembered_at = 0.0
        self._writer: Writer | None = None
        self._deduplication: Deduplication | None = None
        self._due_of: dict[str, DueOf | None] = {}  # by subscription

    def deduplicate(self, config: DeduplicateConfig) -> None:
        """See `gateway_core.contract.capabilities.Deduplicates`."""
        self._deduplication = Deduplication(config, self._folder.path, self._context.worker, self._context.workers)

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self, tasks: TaskGroup) -> None:
        """Opens this worker's shards. Raises `StartError`."""
        self._loop = asyncio.get_running_loop()
        shards, reserve = await self._loop.run_in_executor(None, self._folder.open, self._config.sync)
        self._shards, self._reserve = shards, reserve
        self._tails = [self._tail_of(s) for s in shards]
        oldest = await self._loop.run_in_executor(None, lambda: [shard.oldest_ns() for shard in shards])
        for tail, of, oldest_ns in zip(self._tails, shards, oldest, strict=True):
            tail.begins, tail.oldest_ns = of.begins, oldest_ns
        self._damage = DamagedShards(self._folder.path, {s.number: s.damaged for s in shards if s.damaged})
        self._tail = self._tails[0]
        self._quarantine = Quarantine(self._folder.path, [s.number for s in shards], self._find_damage)
        self._chunks = ChunkReader(self._folder.path, self._loop, self._quarantine.report)
        self._feeder = Feeder(self._tails, self._chunks, self._loop)
        self._elsewhere = FatesElsewhere(self._folder.path, self._clock, self._loop)
        self._delays = DelayFiles(self._folder.path, self._loop)
        await self._loop.run_in_executor(None, self._delays.open, [s.number for s in shards])
        self._subscriptions = Subscriptions(self._folder, shards, self._tails, self._feeder)
        if self._deduplication is not None:
            await self._loop.run_in_executor(None, self._open_keys, self._deduplication, shards)
        self._writer = Writer(shards, reserve, self._loop, self._committed, self._damaged, self._deduplication)
        self._retention = self._make_retention(shards, self._writer)
        self._writer.start()
        self._fault = reserve.error() if reserve.full else None
        self._full = reserve.full
        if reserve.full:
            log.error("%s: until then, this gateway delivers events but accepts none", self._fault)

    def _tail_of(self, shard: Shard) -> Tail:
        tail = Tail(shard.number, shard.first, shard.next, shard.routed, self._changed)
        tail.any_given_up = shard.any_given_up
        tail.now_ns = self._clock.now_ns
        return tail

    def _open_keys(self, deduplication: Deduplication, shards: Sequence[Shard]) -> None:
        try:
            deduplication.open(shards, self._clock.now_ns())
        except BaseException:
            deduplication.close()
            for shard in shards:
                shard.close()
            raise

    def _make_retention(self, shards: Sequence[Shard], writer: Writer) -> Retention:
        config, workers, folder = self._config, self._context.workers, self._folder.path
        return Retention(
            config.retention,
            config.check_interval_s,
            workers,
            shards,
            self._reserve,
            self._tails,
            folder,
            self._subscriptions.departures,
            self._clock,
            writer.put_later,
            self._loop.call_soon_threadsafe,
        )

    async def open(self) -> None:
        """Gives all subscriptions their cursors, makes these durable, and starts to feed. Raises `StorageError`."""
        self._subscriptions.leave_unused(readers_too=self._context.worker == 0)
        await self._feeder.begin()
        for feed in tuple(self._feeder.feeds.values()):
            feed.begin()
        if (error := await self._write_cursors()) and not self._full:
            raise error
        if error is None:
            await self._rewound()
        self._taking = True
        self._changed()  # acknowledgements meanwhile have set no timer
        self._retention.start()
        if self._context.workers > 1 or fates_elsewhere.any_left(self._folder.path):
            self._look_soon(0.0)

    async def stop(self) -> None:
        """Finishes appends, makes all cursors durable, and closes."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        taking, self._taking = self._taking, False
        self._retention.stop()
        if self._flush is not None:
            self._flush.cancel()
        if self._looking is not None:
            self._looking.cancel()
        for feed in self._feeder.feeds.values():
            feed.end()
        await self._elsewhere.stop()
        await self._settled(writer)
        if taking:  # the last commits have been offered by now
            self._put_cursors(writer)
            await self._settled(writer)
        await self._loop.run_in_executor(None, self._close, writer)

    def _close(self, writer: Writer) -> None:
        self._chunks.close()
        self._delays.close()
        writer.close()

    async def _settled(self, writer: Writer) -> None:
        """Returns once everything queued before is written, and the loop has been told."""
        done = self._loop.create_future()
        writer.put(lambda: self._loop.call_soon_threadsafe(done.set_result, None))
        await done

    # -- appends ----------------------------------------------------------------------------------------------------

    def append_again(self, events: Sequence[Event], done: Accepted) -> None:
        """See `gateway_core.contract.capabilities.Deduplicates`."""
        self.append(events, done, again=True)

    def repeated(self, id: str, source: str | None) -> Sequence[Repeated]:
        """See `gateway_core.contract.capabilities.Deduplicates`."""
        return [] if self._deduplication is None else self._deduplication.repeated(id, source)

    async def first_of(self, event: Event) -> Repeated | None:
        """See `gateway_core.contract.capabilities.KnowsKeys`."""
        keys, writer = self._deduplication, self._writer
        if keys is None or writer is None or not self._taking:
            return None
        answer: asyncio.Future[Repeated | StorageError | None] = self._loop.create_future()

        def tell(found: Repeated | StorageError | None) -> None:
            if not answer.done():
                answer.set_result(found)

        def look() -> None:
            found: Repeated | StorageError | None
            try:
                found = keys.first_of(event, self._clock.now_ns())
            except StorageError as e:
                found = e
            except (OSError, sqlite3.Error) as e:
                found = StorageError(f"the keys of duplicates can't be read: {e}")
            self._loop.call_soon_threadsafe(tell, found)

        writer.put(look)
        try:
            found = await asyncio.wait_for(answer, LOOK_S)
        except TimeoutError:  # the disk is busy, or the gateway stops
            raise StorageError("the log is busy") from None
        if isinstance(found, StorageError):
            raise found
        return found

    def append(self, events: Sequence[Event], done: Accepted, *, again: bool = False) -> None:
        """Writes events to stable storage; calls `done(None)` once all of them are there."""
        if not self._taking or self._writer is None:
            self._refuse(events, done, Overloaded("the log is not open"))
            return
        if self._full:
            self._refuse(events, done, self._reserve.error())
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
        except Exception as e:  # a codec or source should not let this through; it must not affect other events
            why = f"an event can't be stored: {e}"
            self._refuse(events, done, Overloaded(why) if may_pass(e) else Refused(why, status=500))
            return
        if self._queued and self._queued + size > self._config.max_queue_bytes:
            self._refuse(events, done, Overloaded("the disk is too slow: too many events are waiting to be written"))
            return
        self._queued += size
        self._writer.append(Unit(events, attributes, size, self._clock.now_ns(), done, again))

    def _refuse(self, events: Sequence[Event], done: Accepted, error: TidegateError) -> None:
        self.failed += len(events)
        self._loop.call_soon(done, error)

    def _committed(self, commit: Commit) -> None:
        """Handles an attempted commit: answers the senders, then feeds the subscriptions."""
        self._set_writable(commit.error)
        if commit.failed:
            self._changed(PROBE_S)
            self._put_back(commit.failed)
        self._cursors_safe = not commit.failed
        size = sum(unit.size for unit in commit.units)
        self._queued -= size
        events: list[Event] = []
        if commit.error is None:
            position = position_of(commit.shard, commit.first)
            if self._deduplication is None:
                for unit in commit.units:
                    for event in unit.events:
                        event.position = position
                        position += 1
                    events += unit.events
            else:
                events = _placed(commit.units, position)
            self.appended += len(events)
        else:
            self.failed += sum(len(unit.events) for unit in commit.units)
        for unit in commit.units:
            try:
                unit.done(commit.error if self._deduplication is None else commit.error or unit.refused)
            except Exception:
                log.exception("the answer to an append failed")
        if events:
            self._tail.oldest_ns = self._tail.oldest_ns or events[0].received_ns
            self._feeder.route(events, size)
            self._changed()

    # -- damage -----------------------------------------------------------------------------------------------------

    def _find_damage(self, shard: int, found: Unreadable) -> None:
        """Called on the reading thread."""
        with suppress(RuntimeError):  # the loop is gone
            self._loop.call_soon_threadsafe(self._damaged, shard, found.reason)

    def _damaged(self, number: int, why: str) -> None:
        """A file turned out to be damaged: it is no longer written. A new shard replaces it if it is the main
        one."""
        if number in self._damage or self._writer is None:
            return
        self._damage.add(number, why)
        self._replacing = self._loop.create_task(self._replace(number, why, self._writer))

    async def _replace(self, number: int, why: str, writer: Writer) -> None:
        folder = self._folder
        try:
            await to_thread.run_sync(meta.change, folder.path, lambda known: known.broken(number, why))
            if number != self._tail.shard:
                writer.put(lambda: writer.freeze(number, why))
                return
            shard = await to_thread.run_sync(self._next_shard)
        except (StartError, OSError) as e:
            log.error("can't create a file to replace %s: %s", shard_file(folder.path, number), e)
            self._clock.call_later(RETRY_S, lambda: self._damage.forget(number))
            return
        if self._writer is not writer:
            shard.close()
            return
        writer.put(lambda: writer.switch(shard, why, self._switched))

    def _next_shard(self) -> Shard:
        shard = self._folder.next(self._shards, self._config.sync)
        if self._deduplication is not None:
            try:
                shard.key_rows()
            except BaseException:
                shard.close()
                raise
        return shard

    def _switched(self, shard: Shard) -> None:
        """From now on, all commits go to this shard."""
        tail = self._tail_of(shard)
        self._shards.insert(0, shard)
        self._tails.insert(0, tail)
        self._tail = tail
        self._subscriptions.add(shard, tail)
        self._feeder.switch(tail)
        self._retention.add(shard, tail)
        self._changed()
        log.warning("events are now written to %s", shard.path)

    def _set_writable(self, error: StorageError | None) -> None:
        if error is None and self._fault is not None:
            log.warning("the log %s is writable again", self._folder.path)
        self._fault = error
        # events are accepted again once the cursors are durable, including those of new triggers
        self._full = isinstance(error, DiskFull)
        if error is not None:
            self._changed(PROBE_S)
        if self._full and self._taking:
            self._retention.relieve()

    # -- cursors ----------------------------------------------------------------------------------------------------

    def _changed(self, within_s: float = FLUSH_S) -> None:
        """A cursor or the end has changed: it is written with a commit soon."""
        if self._flush is None and self._taking:
            self._flush = self._clock.call_later(within_s, self._flush_cursors)

    def _flush_cursors(self) -> None:
        self._flush = None
        if self._writer is None:
            return
        self._put_cursors(self._writer)
        now = self._clock.monotonic()
        if now >= self._remembered_at + REMEMBER_S:
            self._remembered_at = now
            self._loop.run_in_executor(None, self._remember, self._shards[0])

    def _remember(self, shard: Shard) -> None:
        try:
            shard.remember()
        except StartError as e:
            log.warning("%s", e)
            if sync_failed(e.__cause__) and self._writer is not None:
                self._writer.failed(e.__cause__ or e)

    def _put_cursors(self, writer: Writer) -> None:
        for tail in self._tails:
            if tail.stale or (tail is self._tail and self._fault is not None):
                writer.put(tail.take())

    def _put_back(self, changes: Sequence[CursorChanges]) -> None:
        for change in changes:
            next(t for t in self._tails if t.shard == change.shard).put_back(change)

    async def _write_cursors(self) -> StorageError | None:
        """Makes all cursors durable now."""
        assert self._writer is not None
        self._put_cursors(self._writer)
        await self._settled(self._writer)
        safe = self._fault is None and self._cursors_safe
        return None if safe else StorageError(f"log: {self._folder.path} can't be written")

    # -- what other workers leave -----------------------------------------------------------------------------------

    def _look_soon(self, within_s: float) -> None:
        self._looking = self._clock.call_later(within_s, self._look)

    def _look(self) -> None:
        if self._taking:
            self._picking = self._loop.create_task(self._pick_up())

    async def _pick_up(self) -> None:
        """Writes what other workers know of events in the shards of this one."""
        try:
            tails = {tail.shard: tail for tail in self._tails}
            left = await self._loop.run_in_executor(None, fates_elsewhere.found, self._folder.path, tails)
            for _, shard, fates in left:
                for fate in fates:
                    tails[shard].note(fate)
            if left and self._writer is not None and await self._write_cursors() is None:
                await self._loop.run_in_executor(None, fates_elsewhere.forget, left)
        except OSError as e:
            log.warning("what other workers left in %s can't be read: %s", self._folder.path, e)
        if self._taking and self._context.workers > 1:
            self._look_soon(fates_elsewhere.LOOK_S)

    # -- subscriptions ----------------------------------------------------------------------------------------------

    def attach(self, name: str, filter: Filter, receiver: Receiver, *, start: StartPosition = LATEST) -> LogFeed:
        """Adds a subscription. After `open` it starts at once, and its cursor is durable once it has `joined`. The log
        has no other writers or readers, so nothing is ever rejected or withdrawn. Raises `StartError` if the time of a
        `start` can't be looked up; see `starts`."""
        due_of = self._due_of.get(name)

        def make() -> LogFeed:
            feed: LogFeed
            if due_of is None and not self._delays.shards:
                feed = LogFeed(name, filter, receiver.offer, self._feeder.wake)
            else:
                feed = DelayedFeed(name, filter, receiver, self._feeder.wake, due_of, self._delays, self._clock)
            feed.elsewhere = self._elsewhere.note
            return feed

        return self._subscriptions.attach(name, filter, make, start=start, live=self._taking)

    def delay(self, name: str, due_of: DueOf | None) -> None:
        """See `gateway_core.contract.capabilities.DelayingChannel`."""
        self._due_of[name] = due_of

    async def joined(self, name: str) -> None:
        """See `capabilities.Joined`: the cursor survives a crash. If the disk is full, no events come in either, and
        the cursor is written once there is room."""
        if self._taking and await self._write_cursors() is None:
            await self._rewound()

    def attach_reader(self, name: str, filter: Filter, *, start: StartPosition = LATEST) -> LogReaderFeed:
        """Adds a sink that reads the shards' files itself. Raises `StartError`."""
        return self._subscriptions.attach_reader(name, filter, start=start)

    def detach(self, name: str) -> None:
        """Ends a subscription; its cursor is kept but no longer prevents the deletion of events, except in a reload."""
        self._subscriptions.detach(name)

    def hold(self, wanted: Container[str] | None) -> None:
        """See `gateway_core.contract.capabilities.Retains`."""
        self._subscriptions.hold(wanted)

    # -- past events ------------------------------------------------------------------------------------------------

    async def stretch(self, from_ns: int, to_ns: int) -> Stretch:
        """See `gateway_core.contract.replayable.Replayable`."""
        return await self._of_files(again.stretch, self._folder.path, from_ns, to_ns)

    async def read_again(self, partition: int, first: int, end: int, most: int) -> tuple[Sequence[Event], int]:
        """See `gateway_core.contract.replayable.Replayable`."""
        return await self._of_files(again.read, self._folder.path, partition, first, end, most)

    async def keep(self, name: str, firsts: Mapping[int, int] | None) -> None:
        """See `gateway_core.contract.replayable.Replayable`."""
        await self._of_files(again.keep, self._folder.path, name, firsts)

    async def keep_only(self, names: Container[str]) -> None:
        """See `gateway_core.contract.replayable.Replayable`."""
        await self._of_files(again.keep_only, self._folder.path, names)

    async def check_rewind(self, name: str, workers: int) -> None:
        """See `gateway_core.contract.replayable.Rewinds`."""

    async def stand_aside(self, name: str) -> None:
        """See `gateway_core.contract.replayable.Rewinds`. It is not offered anything while it is halted."""
        await self.joined(name)

    async def stay(self, name: str) -> None:
        """See `gateway_core.contract.replayable.Rewinds`."""

    async def settled(self, name: str) -> Callable[[int], bool]:
        """See `gateway_core.contract.replayable.Rewinds`."""
        own = self._subscriptions.feed(name)
        others = await self._of_files(again.places, self._folder.path, name, self._subscriptions.shards)

        def settled(position: int) -> bool:
            shard, sequence = split_position(position)
            if shard in others:
                return others[shard].is_before(sequence)
            return own is not None and own.delivery_state(position) in ("passed", "before")

        return settled

    async def decide_rewind(self, name: str, firsts: Mapping[int, int]) -> None:
        """See `gateway_core.contract.replayable.Rewinds`."""
        try:
            await to_thread.run_sync(rewinds.decide, self._folder.path, name, firsts)
        except OSError as e:
            raise StorageError(f"that trigger {name} goes back can't be written: {e.strerror or e}") from e

    async def rewind(self, name: str, firsts: Mapping[int, int]) -> None:
        """See `gateway_core.contract.replayable.Rewinds`. The files have what was decided."""
        subscriptions = self._subscriptions
        until = self._clock.monotonic() + REWIND_S
        while subscriptions.busy(name):
            if self._clock.monotonic() > until:
                raise StorageError(f"the log is still being read for trigger {name}: try again")
            await asyncio.sleep(0.01)
        await self._store_cursors(name)  # and what was given up
        back = await self._of_files(rewinds.left, self._folder.path, name, subscriptions.shards)
        if not back or subscriptions.feed(name) is None:
            return
        decided: dict[int, int] = {}
        for _, shard, first in back:
            decided[shard] = min(first, decided.get(shard, first))
        given_up = await self._of_files(again.given_up, self._folder.path, name, decided)
        subscriptions.rewind(name, decided, given_up)
        subscriptions.rewound += back
        await self._store_cursors(name)
        await self._rewound()

    async def _store_cursors(self, name: str) -> None:
        if not self._taking:
            raise StorageError(f"the gateway stops: trigger {name} goes back at its next start")
        if error := await self._write_cursors():
            raise error

    async def _rewound(self) -> None:
        """The cursors are durable: rewinds that they have done are over."""
        done, self._subscriptions.rewound = self._subscriptions.rewound, []
        try:
            if done:
                await to_thread.run_sync(rewinds.did, done)
        except OSError as e:  # after a restart they go back again
            log.warning("that triggers went back can't be written in %s: %s", self._folder.path, e.strerror or e)

    async def _of_files(self, call: Callable[..., _T], *args: Any) -> _T:
        """What a call that reads the files returns. Raises `StorageError`."""
        try:
            return await to_thread.run_sync(call, *args)
        except (sqlite3.Error, OSError, StartError) as e:
            raise StorageError(f"the log can't be read: {e}") from e

    # -- status -----------------------------------------------------------------------------------------------------

    async def find(self, id: str, source: str | None, rest: Any = None, within_s: float = 0.5) -> Found:
        """See `gateway_core.contract.capabilities.Searchable`; searches the shards of all workers."""
        return await to_thread.run_sync(find, self._folder.path, id, source, rest, within_s)

    async def browse(self, wanted: Mapping[str, str], since_ns: int, until_ns: int, *more: Any) -> Found:
        """See `gateway_inspect.browse.Browsable`; searches the shards of all workers."""
        return await to_thread.run_sync(browse, self._folder.path, wanted, since_ns, until_ns, *more)

    async def at(self, position: int) -> Event | None:
        """See `gateway_inspect.browse.Browsable`."""
        return await to_thread.run_sync(at, self._folder.path, position)

    async def given_up(self, position: int) -> Mapping[str, GivenUp]:
        """See `gateway_core.contract.capabilities.TellsGivenUp`."""
        return await to_thread.run_sync(given_up, self._folder.path, position)

    def given_up_by(self, name: str, wanted: Container[tuple[str, str]]) -> Mapping[tuple[str, str], Sequence[int]]:
        """See `gateway_core.contract.capabilities.FindsGivenUp`."""
        try:
            return given_up_by(self._folder.path, name, wanted)
        except sqlite3.Error as e:
            raise StorageError(f"what was given up can't be read: {e}") from e

    def redelivered(self) -> Mapping[tuple[str, int], GivenUp]:
        """See `gateway_core.contract.capabilities.TellsRedelivered`."""
        try:
            return redelivered(self._folder.path)
        except sqlite3.Error as e:
            raise StorageError(f"what was given up can't be read: {e}") from e

    def given_up_counts(self) -> Sequence[GivenUpCount]:
        """See `gateway_core.contract.capabilities.TellsGivenUp`."""
        return given_up_counts(self._folder.path)

    def _replayable(self, size: int) -> dict[str, Any]:
        """How far back events can be replayed: when the `oldest` was accepted, and in how many seconds `max_bytes` is
        reached at the rate since then, so that the oldest ones are deleted earlier than their age asks."""
        oldest_ns = min((tail.oldest_ns for tail in self._tails if tail.oldest_ns), default=0)
        if not oldest_ns:
            return {"oldest": None, "full_in_s": None}
        most, span_s = self._config.retention.max_bytes, (self._clock.now_ns() - oldest_ns) / 1e9
        full_in_s = None
        if most is not None and span_s >= LONG_S:
            left = most // self._context.workers - size
            full_in_s = max(0, round(left * span_s / size)) if size else None
        return {"oldest": written(oldest_ns), "full_in_s": full_in_s}

    def info(self) -> dict[str, Any]:
        """The channel's status. `first` and `next` are positions in this worker's main shard; `events` and `bytes`
        cover all shards that it owns."""
        if self._writer is None:
            none = dict.fromkeys(("events", "bytes", "first", "next", "unrouted"), 0)
            return {"writable": False, "error": "not open", **none, "shards": {}}
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
            **self._replayable(sum(s["bytes"] for s in shards.values())),
            "shards": shards,
            "waiting_bytes": self._queued,
            "failed": self.failed,
            "quarantined": self._quarantine.events,
            "faults": self._damage.faults(self._quarantine.faults()),
            **({} if self._deduplication is None else self._told_of(self._deduplication)),
        }

    def _told_of(self, deduplication: Deduplication) -> dict[str, Any]:
        now_ns = self._clock.now_ns()
        faults = self._damage.faults(self._quarantine.faults())
        if fault := deduplication.fault(now_ns):
            faults = {**faults, "deduplication": fault}
        return {"faults": faults, "deduplication": deduplication.info(now_ns)}


def _placed(units: Sequence[Unit], position: int) -> list[Event]:
    """The events that were stored, from this position on; duplicates get that of the first."""
    stored: list[Event] = []
    for unit in units:
        if unit.refused is not None:
            continue
        firsts = unit.firsts
        if firsts is None:
            for event in unit.events:
                event.position = position
                position += 1
            stored += unit.events
            continue
        for event, first in zip(unit.events, firsts, strict=True):
            if first:
                event.position, event.duplicate = first, True
            else:
                event.position = position
                position += 1
                stored.append(event)
    return stored
