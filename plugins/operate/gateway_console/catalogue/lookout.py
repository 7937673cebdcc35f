"""When workers count for the catalogue: while somebody has a page of it open, and some minutes after."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Sequence
from typing import Any

import anyio
from gateway_inspect.browse import browse
from gateway_inspect.service import InspectService
from gateway_inspect.tap.taps import Taps

from gateway_core.contract.one_line import one_line
from gateway_core.contract.services import GatewayView

from .catalogue import Catalogue
from .counter import MOST_KEYS, MOST_NAME, MOST_SAMPLES, Counter, SeenEvents, names_of, sample

SERVICE = "console"
QUESTION = "catalogue"
EVERY_S = 1.0
LINGERS_S = 180.0
"""How long the first worker continues after the last look."""
_ASKED_S = 20.0
"""How long another one continues after it was asked last."""
log = logging.getLogger("tidegate.console")


class Lookout:
    """One worker's counter. That of the first worker also collects what the others have counted."""

    def __init__(self, gateway: GatewayView) -> None:
        self._gateway = gateway
        self._counter: Counter | None = None
        self._until = 0.0
        self._wanted = anyio.Event()
        self._told: tuple[str, SeenEvents] | None = None
        self._heard: list[str] = []
        self._collecting = anyio.Lock()
        self._number = 0
        self._seeded = False
        self.catalogue: Catalogue | None = None

    def _taps(self) -> Taps:
        found = self._gateway.services["inspect"]
        assert isinstance(found, InspectService)
        return found.taps

    def _go_on(self, for_s: float) -> Counter:
        self._until = time.monotonic() + for_s
        if self._counter is None:
            self._counter = Counter()
            self._taps().watch(self._counter)
            self._wanted.set()
        return self._counter

    def look(self) -> Catalogue:
        """Somebody looks: what was seen so far. Only the first worker is asked."""
        self._go_on(LINGERS_S)
        if self.catalogue is None:
            self.catalogue = Catalogue(self._gateway.clock.now_ns())
        return self.catalogue

    def answer(self, heard: Sequence[str]) -> tuple[str, SeenEvents]:
        """What this worker has seen, as JSON values, with the name of this answer. An answer that the first worker has
        not `heard` in time is part of the next one."""
        seen = self._go_on(_ASKED_S).take()
        if self._told is not None and self._told[0] not in heard:
            seen = joined(self._told[1], seen)
        self._number += 1
        self._told = f"{os.getpid()}-{self._number}", seen
        return self._told

    async def collect(self) -> Catalogue:
        """Looks, and adds what all workers have seen until now."""
        catalogue = self.look()
        await self._collect(catalogue)
        return catalogue

    async def _collect(self, catalogue: Catalogue) -> None:
        async with self._collecting:
            if not self._seeded:
                self._seeded = True
                await self._seed(catalogue)
            if self._counter is not None:
                catalogue.feed(self._counter.take())
            answers = await self._gateway.peers.ask(SERVICE, {QUESTION: self._heard})
            self._heard = [name for name, _ in answers]
            for _, seen in answers:
                catalogue.feed(read(seen))
            catalogue.workers = 1 + len(answers), self._gateway.workers
            catalogue.mark(time.monotonic())

    async def _seed(self, catalogue: Catalogue) -> None:
        """Looks into the newest events in the channels that can be browsed, from before the catalogue began."""
        try:
            found = await browse(self._gateway.topology, {}, 0, catalogue.since_ns)
        except sqlite3.Error as e:
            log.warning("the catalogue begins without past events: %s", one_line(e))
            return
        for broker, event in found.events:
            type_, source = names_of(event)
            made = sample(broker, event)
            if made is None or not type_ or max(len(type_), len(source)) > MOST_NAME:
                continue
            catalogue.count(broker, type_, source, 1, event.received_ns)
            catalogue.look_into(*made)
            catalogue.seeded += 1

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while True:
            self._wanted = anyio.Event()
            if self._counter is None:
                await self._wanted.wait()
            while time.monotonic() < self._until:
                if self.catalogue is not None:
                    await self._collect(self.catalogue)
                await anyio.sleep(EVERY_S)
            if self._counter is not None:
                self._taps().unwatch(self._counter)
            self._counter = self.catalogue = self._told = None
            self._seeded = False


def joined(one: SeenEvents, two: SeenEvents) -> SeenEvents:
    """Both as one, within the bounds."""
    counts = [*one.counts, *two.counts]
    others = one.others + two.others + sum(count for _, _, _, count, _ in counts[MOST_KEYS:])
    return SeenEvents(counts[:MOST_KEYS], [*two.samples, *one.samples][:MOST_SAMPLES], others)


def read(answer: Any) -> SeenEvents:
    """What another worker answered (`SeenEvents` as JSON values)."""
    counts, samples, others = answer
    return SeenEvents([tuple(each) for each in counts], [tuple(each) for each in samples], others)
