"""The status in Prometheus's text format, version 0.0.4. `metric_table` lists the metrics.

A gateway with many triggers or bridges (more than `MOST_WHOLE`) leaves out what never moved: of an entry that has done
nothing so far, and that nothing is wrong with, there is only `..._ready`. Once it does something, all of its series are
there, for good. They begin at 0, as those of a small gateway do: the first scrape in which a reader could see them
says 0, which was their value at its scrape before, and the next one says their value. Otherwise `increase()` and
`rate()` would lose what happened in between.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from gateway_core.contract.component import OwnMetric
from gateway_core.contract.record import Record
from gateway_core.contract.status import BOUNDS_S, Durations, GatewayStatus

from .metric_table import BRIDGE, METRICS, OWNERS, PLACE, TRIGGER, MeasuredKind, Metric, Value

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

MOST_WHOLE = 200
"""So many triggers, or bridges, have all of their series, and all buckets."""
FEW_BOUNDS = frozenset((0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0, 3600.0))
"""The bounds of the buckets that more of them have."""
READER_S = 300.0
"""A reader that has not been back for so long is a new one: by then Prometheus takes series for gone."""
_MOST_READERS = 64

Labels = list[tuple[str, str]]
Values = tuple[str, ...]
"""Those of a record's labels."""


def render(status: GatewayStatus, own: Iterable[OwnMetric] = ()) -> str:
    """The status of all workers as text, with the components' `own` metrics. Metrics without values are left out."""
    return b"".join(Exposition(own).pieces(status)).decode()


class Exposition:
    """What one gateway tells the readers of its metrics."""

    def __init__(self, own: Iterable[OwnMetric] = ()) -> None:
        self._own = list(own)
        self._moved = {part.about: _Moved(part) for part in (TRIGGER, BRIDGE)}
        self._seen: dict[str, tuple[float, int]] = {}
        self._number = 0

    def pieces(self, status: GatewayStatus, reader: str = "") -> Iterator[bytes]:
        """The text of one scrape by this reader, in short pieces."""
        before = self._before(reader)
        chosen = {}
        for about, moved in self._moved.items():
            chosen[about] = yield from moved.choose(status, self._number, before)
        for metric in METRICS:
            if (some := chosen.get(metric.part.about)) is not None:
                yield from some.lines(metric)
                continue
            series: dict[str, float] = {}
            for values, record in metric.part.found(status):
                for name, number in _series(metric, list(zip(metric.part.labels, values, strict=True)), record):
                    # two sources that read from the same address are one series
                    series[name] = series.get(name, 0) + number
            yield from _lines(metric, series.items())
        for declared in self._own:
            yield from _lines(declared, dict(_own_series(declared, status.measured)).items())

    def _before(self, reader: str) -> int | None:
        """The number of this reader's scrape before; None if there was none lately. This one gets a number, too."""
        now = time.monotonic()
        self._number += 1
        at, before = self._seen.pop(reader, (-READER_S, 0))
        self._seen[reader] = now, self._number
        while len(self._seen) > _MOST_READERS:
            del self._seen[next(iter(self._seen))]
        return before if now - at < READER_S else None


class _Moved:
    """Which records of a part have moved, each with the number of the scrape that found it out; 0 if all of them were
    shown before it moved, as long as they were few."""

    def __init__(self, part: MeasuredKind) -> None:
        self.part = part
        self._since: dict[Values, int] = {}
        self._metrics = [metric for metric in METRICS if metric.part is part]

    def choose(self, status: GatewayStatus, number: int, before: int | None) -> Generator[bytes, None, _Chosen]:
        """The records of which a scrape of this number shows all; `before` is that of the reader's scrape before."""
        found = []
        for each in self.part.found(status):
            found.append(each)
            yield b""
        few, since = len(found) <= MOST_WHOLE, self._since
        if len(since) > 2 * len(found):
            self._since = since = {values: since[values] for values, _ in found if values in since}
        shown, resting, young = [], [], set()
        for values, record in found:
            if few:
                since[values] = 0
            elif values not in since:
                if self._rests(record):
                    resting.append((values, record))
                    yield b""
                    continue
                since[values] = number
            shown.append((values, record))
            if before is not None and since[values] > before:
                young.add(values)
            yield b""
        return _Chosen(self.part, shown, resting, young, few)

    def _rests(self, record: Record) -> bool:
        return all(_rests(metric, metric.read(record)) for metric in self._metrics)


def _rests(metric: Metric, value: Value) -> bool:
    if metric.always:
        return value == 1
    if isinstance(value, Durations):
        return not any(value.buckets)
    return not (any(value.values()) if isinstance(value, Mapping) else value)


@dataclass(slots=True)
class _Chosen:
    """What a scrape shows of a part: everything of the records that are `shown` (whose counters are 0 still in those
    that are `young`), and of those that rest what is always there."""

    part: MeasuredKind
    shown: list[tuple[Values, Record]]
    resting: list[tuple[Values, Record]]
    young: Collection[Values]
    all_buckets: bool

    def lines(self, metric: Metric) -> Iterator[bytes]:
        """The lines of one metric, those of each record in one piece."""
        records = [*self.shown, *self.resting] if metric.always else self.shown
        pieces = (self._of(metric, values, record) for values, record in records)
        first = next((piece for piece in pieces if piece), b"")
        if first or self.resting:
            yield _head(metric)
        yield first
        yield from pieces

    def _of(self, metric: Metric, values: Values, record: Record) -> bytes:
        labels = list(zip(self.part.labels, values, strict=True))
        series = _series(metric, labels, record, None if self.all_buckets else FEW_BOUNDS)
        if metric.type != "gauge" and values in self.young:
            series = ((name, 0) for name, _ in series)
        return "".join([f"{name} {number}\n" for name, number in series]).encode()


def _head(metric: Metric | OwnMetric) -> bytes:
    return f"# HELP {metric.name} {_help(metric.help)}\n# TYPE {metric.name} {metric.type}\n".encode()


def _lines(metric: Metric | OwnMetric, series: Iterable[tuple[str, float]]) -> Iterator[bytes]:
    begun = False
    for name, number in series:
        if not begun:
            begun = True
            yield _head(metric)
        yield f"{name} {number}\n".encode()


def _own_series(metric: OwnMetric, measured: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for section, label in OWNERS.items():
        for owner, places in measured.get(section, {}).items():
            for place, values in places.items():
                labels, value = [(label, owner), (PLACE, place)], values.get(metric.name)
                if isinstance(value, Mapping):
                    yield from ((_name(metric.name, [*labels, (metric.by, str(k))]), v) for k, v in value.items())
                elif value is not None:
                    yield _name(metric.name, labels), value


def _series(
    metric: Metric, labels: Labels, record: Record, bounds: Collection[float] | None = None
) -> Iterator[tuple[str, float]]:
    value = metric.read(record)
    if isinstance(value, Durations):
        yield from _histogram(metric.name, labels, value, BOUNDS_S if bounds is None else bounds)
    elif isinstance(value, Mapping):
        for key, number in value.items():
            yield _name(metric.name, [*labels, (metric.by, key)]), number
    elif value is not None:
        yield _name(metric.name, labels), value


def _histogram(name: str, labels: Labels, value: Durations, bounds: Collection[float]) -> Iterator[tuple[str, float]]:
    counts = list(accumulate(value.buckets))
    for bound, count in zip((*BOUNDS_S, "+Inf"), counts, strict=True):
        if bound == "+Inf" or bound in bounds:
            yield _name(f"{name}_bucket", [*labels, ("le", str(bound))]), count
    yield _name(f"{name}_sum", labels), value.sum_s
    yield _name(f"{name}_count", labels), counts[-1]


def _name(name: str, labels: Labels) -> str:
    # an empty label is the same as none
    written = ",".join(f'{label}="{_escaped(value)}"' for label, value in labels if value)
    return f"{name}{{{written}}}" if written else name


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _escaped(text: str) -> str:
    return _help(text).replace('"', '\\"')
