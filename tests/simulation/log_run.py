"""Drives the real log on a simulated disk, through its public methods: appends, acknowledgements, readers, retention,
checkpoints, faults and crashes, and says what must hold after each start.

A log that deduplicates (`once`) also gets events that were sent before, whatever became of them.

A run is a list of lives, each a list of acts that are drawn from a seed. All that the log said after the disk stopped
does not count: nobody has heard it.
"""

from __future__ import annotations

import asyncio
import errno
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal

from gateway_log.channel import LogChannel
from gateway_log.config import LogConfig
from gateway_log.reader import LogReader, to_event
from gateway_log.verify import faults
from gateway_testing import FakeClock

from gateway_core.config.registry import Registry
from gateway_core.contract.component import BuildContext
from gateway_core.contract.deduplicate_config import DeduplicateConfig
from gateway_core.contract.errors import StartError, StorageError
from gateway_core.contract.event import Event
from gateway_core.contract.filters import match_all
from gateway_core.contract.interfaces import Outcome
from gateway_core.contract.start_position import EARLIEST
from tests.simulation.disk import MIB, Disk, Rule
from tests.simulation.log_lives import Act, Crash, Life, drawn

SUBSCRIBERS = ("quick", "slow")
READER = "table"
AGE_S = 100.0
PATIENCE_S = 60.0


@dataclass
class Subscriber:
    """Takes events while it has room, and acknowledges them when told."""

    name: str
    run: Run
    room: int = 8
    held: list[Event] = field(default_factory=list)
    feed: Any = None

    def offer(self, event: Event) -> bool:
        if len(self.held) >= self.room:
            return False
        self.held.append(event)
        self.run.check_offer(self.name, event)
        return True

    def reject(self, event: Event, outcome: Outcome) -> None:
        raise AssertionError("the log rejects nothing")

    def withdraw(self, partition: int) -> Sequence[int]:
        raise AssertionError("the log withdraws nothing")

    def ack(self, event: Event) -> None:
        self.held.remove(event)
        assert event.position is not None
        self.feed.ack(event.position)
        if not self.run.disk.stopped:
            self.run.acked[self.name].add(event.attributes["id"])


class Broken(AssertionError):
    """The log broke a promise."""


class Run:
    """The log of one run, and what is known about it."""

    def __init__(self, disk: Disk, random: Random, sync: Literal["full", "normal"], once: bool = False) -> None:
        self.disk = disk
        self.once = once
        self.repeated: set[str] = set()
        self.deleted: set[str] = set()
        self.first: dict[str, int] = {}  # where each event was first seen in the log
        self.random = random
        self.sync = sync
        self.folder = disk.folder / "log" / "default"
        self.clock = FakeClock()
        self.count = 0
        self.sent: dict[str, Event] = {}
        self.units: list[list[str]] = []
        self.stored: dict[str, int] = {}  # the sender knows: their sequences
        self.refused: set[str] = set()
        self.acked: dict[str, set[str]] = {name: set() for name in SUBSCRIBERS}
        self.passed: dict[int, str] = {}  # what the reader has read, by sequence
        self.cuts = 0  # power cuts
        self.broke: list[str] = []  # found where nobody would hear an exception
        self.channel: LogChannel | None = None
        self.rules: list[Rule] = []

    # -- a life -----------------------------------------------------------------------------------------------------

    async def live(self, life: Life) -> None:
        """One start, its acts, its end; then what is on the disk is checked."""
        if life.stop_at:
            self.disk.stop_at(self.disk.steps + life.stop_at)
        try:
            await self._start()
            for act in life.acts:
                if self.disk.stopped:
                    break
                await getattr(self, f"_{act.name}")(act)
        except (StartError, StorageError, sqlite3.Error) as e:
            if not (self.disk.stopped or self.rules):
                raise Broken(f"the log does not open on a disk without faults: {e}") from e
        await self._end(life)
        self._check_disk(life.crash)

    async def _end(self, life: Life) -> None:
        if life.crash != "clean":
            self.disk.stop()
        self.disk.stop_at(0)
        if self.channel is not None:
            await self.channel.stop()
            self.channel = None
        self.rules = []
        if life.crash == "power":
            self.cuts += 1
        if life.crash == "clean":
            self.disk.heal()
            self.disk.fill(self.disk.size)
        else:
            self.disk.crash(life.crash)

    async def _start(self) -> None:
        retention = {"max_age_s": AGE_S, "max_bytes": None}
        config = LogConfig.model_validate({"sync": self.sync, "retention": retention})
        context = BuildContext(*("brokers.default.channel", self.disk.folder, self.clock, Registry()), broker="default")
        self.channel = channel = LogChannel(config, context)
        if self.once:
            channel.deduplicate(DeduplicateConfig(window=10_000_000, max_keys=1000))
        try:
            await channel.start(None)  # type: ignore[arg-type]
        except StartError:
            self.channel = None
            raise
        self.subscribers = [Subscriber(name, self) for name in SUBSCRIBERS]
        for s in self.subscribers:
            s.feed = channel.attach(s.name, match_all(), s, start=EARLIEST)
        self.reader = channel.attach_reader(READER, match_all())
        await channel.open()
        if not self.disk.stopped:
            self._check_reader()

    # -- acts -------------------------------------------------------------------------------------------------------

    async def _append(self, act: Act) -> None:
        answers = self._send(act)
        await asyncio.wait_for(asyncio.gather(*answers), PATIENCE_S)
        await self._quiet()

    async def _burst(self, act: Act) -> None:
        self._send(act)
        await asyncio.sleep(0)

    def _send(self, act: Act) -> list[asyncio.Future[None]]:
        return [self._unit([self._next(act.size) for _ in range(1 + n % 3)]) for n in range(act.number)]

    def _next(self, size: int) -> Event:
        if not self.once or not self.sent or self.random.random() < 0.6:
            return self._event(size)
        # mostly one of the newest: what became of it is known least
        known = list(self.sent)
        id = self.random.choice(known if self.random.random() < 0.3 else known[-8:])
        sent = self.sent[id]
        self.repeated.add(id)
        self.refused.discard(id)
        return Event(dict(sent.attributes), sent.data, key=sent.key)

    def _event(self, size: int) -> Event:
        self.count += 1
        data = Random(self.count).randbytes(size)
        attributes = {"specversion": "1.0", "id": str(self.count), "source": "/s", "type": "t", "n": self.count}
        event = Event(attributes, data, key=b"k%d" % self.count if self.count % 3 else None)
        self.sent[str(self.count)] = event
        return event

    def _unit(self, events: Sequence[Event]) -> asyncio.Future[None]:
        assert self.channel is not None
        ids = [e.attributes["id"] for e in events]
        self.units.append(ids)
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: BaseException | None) -> None:
            answer.set_result(None)
            if self.disk.stopped:
                return
            if error is None:
                for event in events:
                    self._check_first(event, "the sender hears")
                self.stored |= {id: (e.position or 0) & (1 << 48) - 1 for id, e in zip(ids, events, strict=True)}
            elif not any(rule.hits for rule in self.rules):  # a failed write may be on the disk all the same
                self.refused |= set(ids) - self.repeated

        self.channel.append(events, done)
        return answer

    async def _ack(self, act: Act) -> None:
        for s in self.subscribers:
            for _ in range(act.number):
                if s.held:
                    s.ack(self.random.choice(s.held))
            s.feed.resume()
        await self._quiet()

    async def _room(self, act: Act) -> None:
        self.subscribers[act.number % 2].room = act.number - 1
        for s in self.subscribers:
            s.feed.resume()
        await self._quiet()

    async def _flush(self, act: Act) -> None:
        self.clock.advance(0.06)
        await self._quiet()

    async def _wait(self, act: Act) -> None:
        await asyncio.sleep(0.0005 * act.number)

    async def _remember(self, act: Act) -> None:
        self.clock.advance(10.0)
        await self._quiet()

    async def _old(self, act: Act) -> None:
        self.clock.advance(AGE_S + 11.0)
        await self._quiet()

    async def _read(self, act: Act) -> None:
        """The reader takes some of what is new, and says so; others may read it first."""
        with LogReader(self.folder) as reader:
            at = max(self.passed, default=0) + 1
            rows = [to_event(0, row) for row in reader.read(0, at)][: act.number * 3]
        taken = {(e.position or 0) & (1 << 48) - 1: str(e.attributes["id"]) for e in rows}
        if not taken or self.disk.stopped:
            return
        # it counts even if it fails: the reader has them
        self.passed |= taken
        try:
            await asyncio.to_thread(self.reader.advance, {"0": max(taken) + 1})
        except OSError:
            if not (self.disk.stopped or self.rules):
                raise

    async def _write(self, act: Act) -> None:
        self._rule("write", act)

    async def _sync(self, act: Act) -> None:
        self._rule("sync", act)

    def _rule(self, kind: str, act: Act) -> None:
        self.rules.append(self.disk.fail(kind, errno.EIO, skip=act.number - 1, times=1 + act.size % 2))

    async def _full(self, act: Act) -> None:
        self.disk.fill(leave=act.size * act.number)
        self.rules.append(Rule("full", errno.ENOSPC, "*", 0, 0))

    async def _space(self, act: Act) -> None:
        self.disk.fill(self.disk.size)
        self.clock.advance(1.1)
        await self._quiet()

    async def _quiet(self) -> None:
        """Until nothing was written for some moments, so that equal acts write about the same."""
        before, same = -1, 0
        for _ in range(2000):
            await asyncio.sleep(0.0005)
            same = same + 1 if self.disk.steps == before else 0
            before = self.disk.steps
            if same == 3:
                return

    # -- what must hold ---------------------------------------------------------------------------------------------

    def check_offer(self, name: str, event: Event) -> None:
        """Called for each offer."""
        self._check_bytes(event, f"{name} was offered")

    def _check_bytes(self, event: Event, what: str) -> None:
        sent = self.sent.get(event.attributes["id"])
        if sent is None or (event.attributes, event.data, event.key) != (sent.attributes, sent.data, sent.key):
            self.broke.append(f"{what} what nobody sent: {event.attributes}")

    def _check_disk(self, crash: Crash) -> None:
        """What a reader finds before the next start."""
        if not (self.folder / "shard-000.db").exists():
            there: dict[str, int] = {}
        else:
            with LogReader(self.folder) as reader:
                try:
                    events = [to_event(0, row) for row in reader.read(0, 1)] if reader.shards() else []
                except sqlite3.OperationalError:
                    if self.stored:
                        raise
                    events = []  # it was being created: a reader can't finish that
            for event in events:
                self._check_bytes(event, "the log has")
            there = {str(e.attributes["id"]): (e.position or 0) & (1 << 48) - 1 for e in events}
            if len(there) != len(events):
                self.broke.append("an event is in the log twice")
        if self.once:
            self._check_once(events if there else [], crash)
        self._check_stored(there, crash)
        for id in sorted(self.refused & there.keys(), key=int):
            self.broke.append(f"event {id} was refused, and is in the log")
        for unit in self.units:
            unit = [id for id in unit if id not in self.repeated]
            kept = [id for id in unit if id in there]
            if kept and kept != unit and not self._all_done(set(unit) - set(kept)):
                self.broke.append(f"only {kept} of the batch {unit} are in the log")

    def _check_once(self, events: Sequence[Event], crash: Crash) -> None:
        """Of accepted events with one key within the window, exactly one is in the log, and it stays where it is."""
        end = max(((e.position or 0) & (1 << 48) - 1 for e in events), default=0)
        if self.sync == "normal" and crash == "power":  # the last moments may be missing
            self.first = {id: at for id, at in self.first.items() if at <= end}
        for event in events:
            self._check_first(event, "the log has")

    def _check_first(self, event: Event, what: str) -> None:
        if not self.once:
            return
        at = (event.position or 0) & (1 << 48) - 1
        id = str(event.attributes["id"])
        if self.first.setdefault(id, at) != at:
            self.broke.append(f"{what} event {id} at {at}, and it was stored at {self.first[id]}")

    def _check_stored(self, there: dict[str, int], crash: Crash) -> None:
        missing = {id for id in self.stored if id not in there}
        deleted = {id for id in missing if self._all_done({id})}
        missing -= deleted | self.deleted
        if self.once:  # their keys outlive them
            self.deleted |= deleted
        if self.sync == "normal" and crash == "power" and missing:
            first = min(self.stored[id] for id in missing)
            after = [id for id, sequence in there.items() if sequence >= first]
            if after:
                self.broke.append(f"{sorted(missing, key=int)} are lost, though {after} came later")
        elif missing:
            self.broke.append(f"{sorted(missing, key=int)} were accepted, and are lost")
        for id, sequence in there.items():
            if self.stored.get(id, sequence) != sequence:
                self.broke.append(f"event {id} was {self.stored[id]}, and is {sequence}")
        self.stored = dict(there)
        oldest = min(there.values(), default=0)
        self.passed = {s: id for s, id in self.passed.items() if there.get(id) == s or s < oldest}

    def _all_done(self, ids: set[str]) -> bool:
        """Whether retention might have deleted them."""
        passed = set(self.passed.values())
        return all(id in passed and all(id in acked for acked in self.acked.values()) for id in ids)

    def _check_reader(self) -> None:
        start = self.reader.start.get("0", 1)
        for id, sequence in self.stored.items():
            if sequence < start and self.passed.get(sequence) != id:
                self.broke.append(f"the reader would begin at {start}, and has not read {id} at {sequence}")

    async def finish(self) -> None:
        """A start on a good disk: everybody gets everything, and nothing twice after a clean stop."""
        await self._start()
        assert self.channel is not None
        for s in self.subscribers:
            s.room = 10**9
            s.feed.resume()
        await self._until(lambda: self._all_acked())
        expected = set(self.stored)
        for name, acked in self.acked.items():
            if not expected <= acked:
                self.broke.append(f"{name} never got {sorted(expected - acked, key=int)}")
        await self._append(Act("append", 2, 100))
        await self._until(lambda: self._all_acked())
        info = self.channel.info()
        if not info["writable"] or info["faults"]:
            self.broke.append(f"the log is not well: {info}")
        await self._end(Life((), "clean"))
        self._check_disk("clean")
        self.broke += [f"verify says: {fault}" for fault in faults(self.folder)]
        await self._start()
        await self._quiet()
        for s in self.subscribers:
            if s.held:
                self.broke.append(f"{s.name} gets {len(s.held)} events again after a clean stop")
        await self._end(Life((), "clean"))

    def _all_acked(self) -> bool:
        for s in self.subscribers:
            for event in list(s.held):
                s.ack(event)
        return all(s.feed.lag() == 0 for s in self.subscribers)

    async def _until(self, condition: Callable[[], bool]) -> None:
        for _ in range(20_000):
            if condition():
                return
            await asyncio.sleep(0.001)
        raise Broken("the log does not get quiet")


def run(
    folder: Path, seed: int, lives: Sequence[Life], sync: Literal["full", "normal"] = "full", *, once: bool = False
) -> Run:
    """One run. Raises `Broken`."""
    random = Random(seed)
    with Disk(folder, random, 8 * MIB) as disk:
        made = Run(disk, random, sync, once)

        async def whole() -> None:
            for life in lives:
                await made.live(life)
                _raise(made)
            await made.finish()

        asyncio.run(whole())
        _raise(made)
    return made


def run_of_seed(folder: Path, seed: int, *, storm: bool = False, once: bool = False) -> Run:
    """The run of a seed, of a log that deduplicates if `once`. Raises `Broken`."""
    random = Random(seed)
    sync: Literal["full", "normal"] = random.choice(("full", "normal"))
    faulty = random.random() < 0.5
    lives = [drawn(random, faulty=faulty, storm=storm) for _ in range(random.randrange(1, 5))]
    return run(folder, seed, lives, sync, once=once)


def _raise(made: Run) -> None:
    if made.broke:
        raise Broken("; ".join(made.broke))
