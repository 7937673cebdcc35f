"""All dead letters at a glance: their groups and their times, kept until a file changes."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from gateway_core.contract.capabilities import GivenUp, GivenUpCount

from .dead_letters import DeadLetter, Query, Stores, given_up_counts, stores_of
from .durable import Left
from .line import last_ns
from .redelivered import Redelivered, of_gateway
from .replaying import was_event

if TYPE_CHECKING:
    from gateway_core.contract.config_model import GatewayConfig
    from gateway_core.contract.services import GatewayView

MOST = 100_000
"""Dead letters that are kept here. What is beyond them is only counted."""
BARS = 48
_REST = 5.0
"""The files are read again after at least this many times what the last reading took."""


_FRESH_S = 1.0


@dataclass(frozen=True, slots=True)
class Entry:
    """The summary of a dead letter. `at_ns` is the time of its last attempt, 0 if it is unknown; `sendable` is False
    for input that never was an event."""

    id: str
    trigger: str
    broker: str
    code: str
    stage: str
    reason: str
    type: str
    source: str
    event_id: str
    attempts: str
    at_ns: int
    group: str
    sendable: bool
    redelivered: GivenUp | None
    """How its trigger has delivered the event since."""


@dataclass(slots=True)
class Group:
    """Dead letters of the same trigger, stage, status and reason; `newest` is one of them."""

    id: str
    newest: Entry
    count: int = 0
    first_ns: int = 0
    last_ns: int = 0
    bars: list[int] = field(default_factory=lambda: [0] * BARS)


@dataclass(frozen=True, slots=True)
class Selection:
    """What a query selects: entries, newest first, and their groups, the largest first. `bars` has how many failed in
    each part of the time between `first_ns` and `last_ns`."""

    entries: Sequence[Entry]
    groups: Sequence[Group]
    bars: Sequence[int]
    first_ns: int
    last_ns: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All dead letters as they were read. `beyond` says how many more there are than `MOST`; `unreadable` is that of
    `Stores`, `imported` counts by broker and trigger what came from elsewhere."""

    entries: Sequence[Entry] = ()
    beyond: int = 0
    unreadable: Sequence[str] = ()
    number: int = 0
    triggers: Sequence[str] = ()
    imported: Mapping[tuple[str, str], int] = field(default_factory=dict)


class Overview:
    """Reads the dead letters of a gateway when their files have changed, in threads."""

    def __init__(self, gateway: GatewayView) -> None:
        self._gateway = gateway
        self._lock = threading.Lock()
        self._config: GatewayConfig | None = None
        self._stores: Stores | None = None
        self._state: object = None
        self._took_s = 0.0
        self._read_at = float("-inf")
        self._snapshot = Snapshot()
        self._known: Redelivered = {}
        self._known_again = float("-inf")
        self._gone: list[tuple[str, Sequence[GivenUpCount]]] = []
        self._gone_again = float("-inf")
        self.left: Sequence[Left] = ()
        """What earlier configs have left, when `elsewhere` was asked last."""

    def stores(self) -> Stores:
        """The stores of the config in force."""
        return stores_of(self._gateway)

    def current(self) -> Snapshot:
        """What the files hold, or held a moment ago. It may take a while: call it in a thread. Raises `OSError`."""
        with self._lock:
            config = self._gateway.config
            if self._stores is None or config is not self._config:
                self._stores, self._config, self._state = self.stores(), config, None
            files, began = self._stores.state(), time.monotonic()
            if began >= self._known_again:
                self._known = of_gateway(self._gateway)
                self._known_again = time.monotonic() + max(_FRESH_S, _REST * (time.monotonic() - began))
            state = None if files is None else (files, self._known)
            known = state is not None and state == self._state
            if known or (self._state is not None and began < self._read_at + _REST * self._took_s):
                return self._snapshot
            self._snapshot = _read(self._stores, self._snapshot.number + 1)
            self._state = state
            self._read_at = time.monotonic()
            self._took_s = self._read_at - began
            return self._snapshot

    def select(self, query: Query) -> tuple[Snapshot, Selection]:
        """What a query selects now. It may take a while: call it in a thread."""
        snapshot = self.current()
        with self._lock:
            return snapshot, _selected(self, snapshot.number, query)

    async def elsewhere(self, query: Query) -> list[dict[str, Any]]:
        """What was given up and is in no store (`Stores.elsewhere`), no older than a moment."""
        began = time.monotonic()
        if began >= self._gone_again:
            brokers = [(name, broker.channel) for name, broker in self._gateway.topology.brokers.items()]
            self._gone = await to_thread.run_sync(given_up_counts, brokers)
            self.left = await to_thread.run_sync(lambda: self.stores().left_behind())
            took = time.monotonic() - began
            self._gone_again = began + max(_FRESH_S, _REST * took)
        stores = await to_thread.run_sync(self.stores)
        snapshot = await to_thread.run_sync(self.current)
        return [
            each
            for name, counts in self._gone
            for each in stores.elsewhere(name, counts, query, snapshot.imported, self.left)
        ]

    def _select(self, query: Query) -> Selection:
        reason = (query.reason or "").lower()
        found = [
            entry
            for entry in self._snapshot.entries
            if (query.trigger is None or entry.trigger == query.trigger)
            and (query.group is None or entry.group == query.group)
            and (query.broker is None or entry.broker == query.broker)
            and (not query.ids or entry.id in query.ids)
            and (query.redelivered is None or query.redelivered == (entry.redelivered is not None))
            and reason in entry.reason.lower()
        ]
        return grouped(found)


@lru_cache(maxsize=16)
def _selected(overview: Overview, number: int, query: Query) -> Selection:
    return overview._select(query)


def grouped(entries: Iterable[Entry]) -> Selection:
    """The selection of these entries."""
    found = sorted(entries, key=lambda entry: entry.at_ns, reverse=True)
    times = [entry.at_ns for entry in found if entry.at_ns]
    first, last = (times[-1], times[0]) if times else (0, 0)
    width = max(1, (last - first) // BARS + 1)
    bars, groups = [0] * BARS, dict[str, Group]()
    for entry in found:
        group = groups.get(entry.group)
        if group is None:
            group = groups[entry.group] = Group(entry.group, entry, last_ns=entry.at_ns)
        group.count += 1
        if entry.at_ns:
            group.first_ns = entry.at_ns
            bar = (entry.at_ns - first) // width
            group.bars[bar] += 1
            bars[bar] += 1
    return Selection(found, sorted(groups.values(), key=lambda group: -group.count), bars, first, last)


def _read(stores: Stores, number: int) -> Snapshot:
    entries: list[Entry] = []
    beyond, imported = 0, Counter[tuple[str, str]]()
    for dead_letter in stores.dead_letters(Query()):
        if len(entries) < MOST:
            entries.append(entry_of(dead_letter))
        else:
            beyond += 1
        if dead_letter.imported:
            imported[dead_letter.owner] += 1
    triggers = sorted({entry.trigger for entry in entries})
    return Snapshot(entries, beyond, stores.unreadable, number, triggers, imported)


def entry_of(dead_letter: DeadLetter) -> Entry:
    """The summary of a dead letter."""
    fact = dead_letter.fact
    return Entry(
        id=dead_letter.id,
        trigger=sys.intern(fact("tidegatetrigger")),
        broker=dead_letter.broker,
        code=sys.intern(fact("knativeerrorcode")),
        stage=sys.intern(fact("tidegatestage")),
        reason=sys.intern(fact("tidegatereason")),
        type=sys.intern(fact("type")),
        source=sys.intern(fact("source")),
        event_id=fact("id"),
        attempts=fact("tidegateattempts"),
        at_ns=last_ns(dead_letter.event),
        group=dead_letter.group,
        sendable=was_event(dead_letter),
        redelivered=dead_letter.redelivered,
    )
