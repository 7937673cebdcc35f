"""What all workers have seen: types and sources with counts, times, examples and the shape of their data."""

from __future__ import annotations

import json
from base64 import b64decode
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from gateway_schema.inferred import Budget, Shape

from gateway_core.contract.event_data import is_json

from .counter import SeenEvents

MOST_TYPES = 500
MOST_SOURCES = 2000
MOST_OF_A_TYPE = 100
"""Sources, media types and attributes of a type that are kept by name."""
KEPT = 60
RATE_OVER_S = 10.0


class Rates:
    """How a count grew: its values at the last calls of `mark`."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque(maxlen=KEPT)

    def mark(self, now: float, count: int) -> None:
        """The count now (`time.monotonic`)."""
        self._marks.append((now, count))

    @property
    def now(self) -> float | None:
        """The growth per second over the last seconds; None before there are two marks."""
        if len(self._marks) < 2:
            return None
        until, last = self._marks[-1]
        since, first = next(mark for mark in self._marks if until - mark[0] <= RATE_OVER_S)
        return (last - first) / (until - since) if until > since else None

    @property
    def series(self) -> list[float]:
        """The growth per second between the marks, oldest first."""
        marks = list(self._marks)
        pairs = pairwise(marks)
        return [(b - a) / (until - since) for (since, a), (until, b) in pairs if until > since]


@dataclass
class Counted:
    """Events of one type or source: how many, and when the first and the last one came (ns of Unix time)."""

    count: int = 0
    first_ns: int = 0
    last_ns: int = 0
    rates: Rates = field(default_factory=Rates)

    def add(self, count: int, last_ns: int, first_ns: int = 0) -> None:
        """Counts events."""
        self.count += count
        first = first_ns or last_ns
        self.first_ns = min(self.first_ns, first) if self.first_ns else first
        self.last_ns = max(self.last_ns, last_ns)


@dataclass
class SourceSeen(Counted):
    """A source, and the types of its events."""

    types: set[str] = field(default_factory=set)


@dataclass
class TypeSeen(Counted):
    """A type. `attributes` says how many of the `samples` had each attribute, and `json` how many had JSON data;
    `example` is the newest sample in CloudEvents JSON, without its data if they are large (`example_size` bytes)."""

    brokers: dict[str, int] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)
    samples: int = 0
    attributes: dict[str, dict[str, int]] = field(default_factory=dict)
    media: dict[str, int] = field(default_factory=dict)
    json: int = 0
    shape: Shape = field(default_factory=lambda: Shape(Budget()))
    example: dict[str, Any] | None = None
    example_ns: int = 0
    example_size: int = 0
    example_broker: str = ""

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the data that were JSON; empty if none were."""
        return self.shape.schema()

    def required(self) -> list[str]:
        """Attributes that every sample had."""
        return [name for name, kinds in self.attributes.items() if sum(kinds.values()) == self.samples]


class Catalogue:
    """Everything that was seen since `since_ns` (Unix time), and the `seeded` newest events in the channels before."""

    def __init__(self, since_ns: int) -> None:
        self.since_ns = since_ns
        self.seeded = 0
        self.workers = 1, 1
        """How many workers have told what they saw lately, and how many there are."""
        self.types: dict[str, TypeSeen] = {}
        self.sources: dict[str, SourceSeen] = {}
        self.others = 0
        """Events that are counted nowhere else: of too many or too long types and sources."""

    def feed(self, seen: SeenEvents) -> None:
        """Adds what a worker has seen."""
        self.others += seen.others
        for broker, type_, source, count, last_ns in seen.counts:
            self.count(broker, type_, source, count, last_ns)
        for broker, received_ns, size, event in seen.samples:
            self.look_into(broker, received_ns, size, event)

    def count(self, broker: str, type_: str, source: str, count: int, last_ns: int) -> None:
        """Counts events."""
        found = self.types.get(type_)
        if found is None:
            if len(self.types) >= MOST_TYPES:
                self.others += count
                return
            found = self.types[type_] = TypeSeen()
        found.add(count, last_ns)
        _more(found.brokers, broker, count)
        _more(found.sources, source, count)
        of_it = self.sources.get(source)
        if of_it is None and len(self.sources) < MOST_SOURCES:
            of_it = self.sources[source] = SourceSeen()
        if of_it is not None:
            of_it.add(count, last_ns)
            if len(of_it.types) < MOST_OF_A_TYPE:
                of_it.types.add(type_)

    def look_into(self, broker: str, received_ns: int, size: int, event: Mapping[str, Any]) -> None:
        """Takes a sample into account. `size` is that of its data."""
        found = self.types.get(str(event.get("type") or event.get("eventType") or ""))
        if found is None:
            return
        found.samples += 1
        for name, value in event.items():
            if name in ("data", "data_base64"):
                continue
            if name in found.attributes or len(found.attributes) < MOST_OF_A_TYPE:
                _more(found.attributes.setdefault(name, {}), _kind(value), 1)
        media = event.get("datacontenttype")
        if isinstance(media, str):
            _more(found.media, media, 1)
        is_json, value = payload(event)
        if is_json:
            found.json += 1
            found.shape.see(value)
        if received_ns >= found.example_ns or found.example is None:
            found.example, found.example_ns, found.example_size = dict(event), received_ns, size
            found.example_broker = broker

    def mark(self, now: float) -> None:
        """Call it about each second: rates are between these calls."""
        for entry in (*self.types.values(), *self.sources.values()):
            entry.rates.mark(now, entry.count)


def _more(counts: dict[str, int], name: str, count: int) -> None:
    if name in counts or len(counts) < MOST_OF_A_TYPE:
        counts[name] = counts.get(name, 0) + count


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return {int: "integer", str: "string"}.get(type(value), "object")


def payload(event: Mapping[str, Any]) -> tuple[bool, Any]:
    """Whether the data of an event in CloudEvents JSON are JSON, and their value (JSON Event Format section 3.1)."""
    if not is_json(str(event.get("datacontenttype") or "application/json")):
        return False, None
    if "data" in event:
        return True, event["data"]
    if "data_base64" in event:
        try:
            return True, json.loads(b64decode(event["data_base64"]))
        except (ValueError, TypeError, RecursionError):
            return False, None
    return False, None


def by_count(counted: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The most frequent first; equal ones by name."""
    return sorted(counted, key=lambda each: (-(each[1] if isinstance(each[1], int) else each[1].count), each[0]))
