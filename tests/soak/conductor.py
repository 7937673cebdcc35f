"""Plays faults on a world under load, watches that it recovers from each, and brings the run to its end."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gateway_core.contract.errors import TidegateError
from tests.soak import faults
from tests.soak.faults import Fault
from tests.soak.ledger import Control
from tests.soak.samples import Sample, sample
from tests.soak.world import World

SAMPLE_S = 5.0
_LOST = "the gateways have nothing left"
DISK_TOO_FULL, DISK_FREE_AGAIN = 0.7, 0.5
"""The senders pause while the disk is fuller than this: the soak does not test a disk that is too small."""
TABLE_S = 900.0
"""So long a table may stand still while events come."""


@dataclass(slots=True)
class Played:
    """A fault that happened: from `begin` to `healed` it was there, at `recovered` every route flowed again."""

    name: str
    begin: float
    healed: float = 0.0
    recovered: float = 0.0
    detail: str = ""

    @property
    def recovery_s(self) -> float:
        """How long it took until every route flowed again."""
        return max(0.0, self.recovered - self.healed)


@dataclass(slots=True)
class Course:
    """What happened in a run. `broken` are promises that were not kept, each in a sentence."""

    played: list[Played] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    hangs: bool = False
    interrupted: bool = False
    seconds: float = 0.0
    drained_s: float = 0.0


class Hang(Exception):
    """Something does not go on."""


class Conductor:
    """`play()` returns the course when the time is over, at the first hang, or when `interrupt()` was called."""

    def __init__(self, world: World, say: Callable[[str], None]) -> None:
        self.world = world
        self.course = Course()
        self._say = say
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._paused = False

    def interrupt(self) -> None:
        """Ends the run in order, before its time."""
        self.course.interrupted = True
        self._over.set()

    def play(self) -> Course:
        """The whole run, up to the end of the load and the last delivery."""
        world = self.world
        watcher = threading.Thread(target=self._watch, name="watch", daemon=True)
        watching = self._watching = threading.Event()
        watcher.start()
        possible = faults.chosen(world)
        hard = [fault for fault in possible if fault.hard]
        soft = [fault for fault in possible if not fault.hard]
        threads = []
        try:
            self._flowing("the begin")
            for some, seed in ((hard, f"hard {world.options.seed}"), (soft, f"soft {world.options.seed}")):
                thread = threading.Thread(target=self._stream, args=(some, seed), daemon=True)
                thread.start()
                threads.append(thread)
            self._over.wait(world.options.seconds)
            self._over.set()
            for thread in threads:
                thread.join(world.options.recovery_s * 3)
                if thread.is_alive():
                    raise Hang("a fault does not end")
            self.course.seconds = world.elapsed
            if not self.course.hangs:
                self._drain()
        except Hang as hang:
            self._broke(str(hang), hangs=True)
        finally:
            self._over.set()
            if self.course.hangs:
                self._keep_status()
            watching.set()
            watcher.join(60)
        self.course.seconds = self.course.seconds or world.elapsed
        return self.course

    # -- faults ------------------------------------------------------------------------------------------------------

    def _stream(self, some: list[Fault], seed: str) -> None:
        """One fault after the other, until it is over."""
        chance = random.Random(seed)
        try:
            for fault in faults.order(some, seed):
                if self._over.wait(chance.uniform(0.5, 1.5) * self.world.options.every_s):
                    return
                self._strike(fault, random.Random(chance.random()))
        except Hang as hang:
            self._broke(str(hang), hangs=True)

    def _strike(self, fault: Fault, chance: random.Random) -> None:
        played = Played(fault.name, self.world.elapsed)
        try:
            detail = fault.play(self.world, chance)
        except (AssertionError, OSError, TidegateError, subprocess.TimeoutExpired) as e:
            raise Hang(f"after the fault {fault.name!r} at {played.begin:.0f} s: {str(e)[-400:]}") from e
        if detail is None:
            self.course.skipped[fault.name] += 1
            return
        played.healed, played.detail = self.world.elapsed, detail
        with self._lock:
            self.course.played.append(played)
        if fault.hard:
            self._flowing(f"the fault {fault.name!r} ({detail}) at {played.begin:.0f} s")
        played.recovered = self.world.elapsed

    def _flowing(self, what: str) -> None:
        """Returns when on each route an event was accepted, and one delivered, after this call."""
        marks = {name: (a.said_yes, a.at["out"].first) for name, a in self.world.accounts.items()}
        end = time.monotonic() + self.world.options.recovery_s
        while marks:
            for name, (yes, out) in list(marks.items()):
                account = self.world.accounts[name]
                if account.at["out"].first > out and (account.said_yes > yes or self._paused):
                    del marks[name]
            if time.monotonic() > end:
                stuck = ", ".join(f"{name}: {self._stands(name)}" for name in marks)
                raise Hang(f"{self.world.options.recovery_s:g} s after {what} these routes do not flow: {stuck}")
            if self.course.hangs:
                return
            time.sleep(0.05)

    def _stands(self, route: str) -> str:
        account = self.world.accounts[route]
        return f"{account.said_yes} accepted, {account.open} on their way"

    # -- the end -----------------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        """Ends the load, and waits for all that was accepted to arrive; any progress renews its patience."""
        world, begin = self.world, time.monotonic()
        world.control.sender = Control.END
        if not world.senders.join(world.options.recovery_s * 2):
            raise Hang(f"the senders do not end: {world.senders.tail()}")
        for what in self._left():
            if what:
                self._say(f"the load has ended; open: {what}")
        for name in ("storm", "steady"):
            gateway = getattr(world, name)
            if (code := gateway.stop(world.options.recovery_s)) != 0:
                self._broke(f"SIGTERM ended the gateway {name} with {code}")
        self.course.drained_s = time.monotonic() - begin

    def _left(self) -> Iterator[str]:
        patience, before, since = self.world.options.recovery_s, "", time.monotonic()
        while left := self._open():
            if left != before:
                before, since = left, time.monotonic()
                yield left
            if left.startswith(_LOST) and time.monotonic() - since > 3:
                return
            if time.monotonic() - since > (patience if "table" not in left else max(patience, TABLE_S / 3)):
                raise Hang(f"nothing has moved for {time.monotonic() - since:.0f} s, and open are: {left}")
            time.sleep(1)

    def _open(self) -> str:
        """What is not where it belongs, for people; nothing if all is."""
        found: list[str] = []
        for name in ("storm", "steady"):
            if (status := self.world.status(name)) is None:
                return f"{name} does not answer"
            for trigger in status["triggers"]:
                reader = trigger.get("reader")
                lag = (reader or trigger)["lag"] or 0
                if reader and reader["state"] != "running":
                    found.append(f"{trigger['name']} {reader['state']}")
                elif lag or trigger["in_flight"]:
                    found.append(f"{trigger['name']} {lag}")
        lost = ", ".join(f"{a.open} of {name}" for name, a in self.world.accounts.items() if a.open > 0)
        return ", ".join(found) or (lost and f"{_LOST}, but there are {lost}")

    # -- watching ----------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Samples, keeps the disk from filling up for good, and says how it goes."""
        world, said = self.world, 0.0
        while not self._watching.wait(SAMPLE_S):
            try:
                now = sample(world)
            except OSError:
                continue
            self.course.samples.append(now)
            if world.control.sender != Control.END:
                limit = DISK_FREE_AGAIN if self._paused else DISK_TOO_FULL
                self._paused = world.disk.used > limit and not (world.disk.where / "of-another-program").exists()
                world.control.sender = Control.PAUSE if self._paused else Control.RUN
            if now["t"] - said >= 15 or sys.stderr.isatty():
                said = now["t"]
                self._say(self._line(now))

    def _line(self, now: Sample) -> str:
        before = next((s for s in reversed(self.course.samples) if s["t"] <= now["t"] - 14), self.course.samples[0])
        rate = (now["accepted"] - before["accepted"]) / max(1.0, now["t"] - before["t"])
        return (
            f"{now['t']:7.0f} s  {len(self.course.played):5} faults  {now['accepted']:11,.0f} accepted ({rate:,.0f}/s)"
            f"  {now['on their way']:7,.0f} on their way  steady {now.get('steady: MB', 0):.0f} MB"
            f"  log {now['log: MB']:.0f} MB{'  paused: the disk' if self._paused else ''}"
        )

    def _keep_status(self) -> None:
        """What the gateways say of themselves, for whoever looks into a hang."""
        for name in ("storm", "steady"):
            (self.world.folder / name / "status.json").write_text(json.dumps(self.world.status(name), indent=1))

    def _broke(self, what: str, *, hangs: bool = False) -> None:
        with self._lock:
            self.course.broken.append(what)
        self.course.hangs |= hangs
        self._over.set()
        self._say(f"BROKEN: {what}")
