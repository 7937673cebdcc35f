"""What one worker sees: how many events of each broker, type and source, and a few of them to look into."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from gateway_cloudevents import event_json

from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Observer

MOST_KEYS = 5000
"""Combinations that are counted between two calls of `take`."""
MOST_SAMPLES = 40
"""Events that are kept between two calls of `take`."""
SAMPLES_OF_A_TYPE = 4
MOST_NAME = 512
"""Characters of a type or source; events with longer ones are only counted."""
MOST_DATA = 32 * 1024
"""Bytes of data that are looked into."""


class SeenEvents(NamedTuple):
    """What was seen since the last time, as JSON values. `counts` are (broker, type, source, events, time of the last
    one in ns); `samples` are (broker, received in ns, size of the data, event), the event without data if these are
    large; `others` are events that are not among the counts."""

    counts: list[tuple[str, str, str, int, int]]
    samples: list[tuple[str, int, int, dict[str, Any]]]
    others: int


class Counter(Observer):
    """Counts events as brokers and bridges accept them. It keeps references to a few; `take` reads them."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, Any, Any], list[int]] = {}
        self._samples: list[tuple[str, Event]] = []
        self._sampled: dict[Any, int] = {}
        self._others = 0

    def accepted(self, broker: str, events: Sequence[Event]) -> None:
        counts = self._counts
        type_ = source = found = None
        for event in events:
            attributes = event.attributes
            # many that come together are alike: that is faster to find out than to look each up; but those without
            # `type` may differ in what they have in its place (`names_of`)
            changed = attributes.get("type") != type_ or attributes.get("source") != source
            if found is None or type_ is None or changed:
                key = (broker, type_ := attributes.get("type"), source := attributes.get("source"))
                found = counts.get(key)
                if found is None:
                    found = self._new(key, event)
                    if found is None:
                        continue
            found[0] += 1
            if found[0] <= SAMPLES_OF_A_TYPE and len(self._samples) < MOST_SAMPLES:
                self._sample(broker, event)
            found[1] = event.received_ns

    def _new(self, key: tuple[str, Any, Any], event: Event) -> list[int] | None:
        _, type_, source = names = (key[0], *names_of(event))
        if len(self._counts) >= MOST_KEYS or len(type_) > MOST_NAME or len(source) > MOST_NAME or not type_:
            self._others += 1
            return None
        return self._counts.setdefault(key if None not in key else names, [0, 0])

    def _sample(self, broker: str, event: Event) -> None:
        type_ = event.attributes.get("type")
        count = self._sampled.get(type_, 0)
        if count < SAMPLES_OF_A_TYPE:
            self._sampled[type_] = count + 1
            self._samples.append((broker, event))

    def take(self) -> SeenEvents:
        """What was seen since the last call."""
        counts = [
            (broker, str(type_), str(source), count, last_ns)
            for (broker, type_, source), (count, last_ns) in self._counts.items()
        ]
        samples = [made for broker, event in self._samples if (made := sample(broker, event)) is not None]
        seen = SeenEvents(counts, samples, self._others)
        self._counts, self._samples, self._sampled, self._others = {}, [], {}, 0
        return seen


def names_of(event: Event) -> tuple[str, str]:
    """Type and source of an event; CloudEvents 0.1 has the type as `eventType`."""
    attributes = event.attributes
    return str(attributes.get("type") or attributes.get("eventType") or ""), str(attributes.get("source") or "")


def sample(broker: str, event: Event) -> tuple[str, int, int, dict[str, Any]] | None:
    """An event as JSON values; None if it can't be."""
    size = 0 if event.data is None else len(event.data)
    shown = event if size <= MOST_DATA else Event(event.attributes)
    try:
        made: dict[str, Any] = msgspec.json.decode(event_json.structured(shown))
    except (ValueError, RecursionError):
        return None
    return broker, event.received_ns, size, made
