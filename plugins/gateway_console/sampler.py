"""The recent past of a gateway: its counts once a second, while somebody looks at a page that shows rates.

Nobody looks: nothing is counted, and the past is dropped.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from gateway_inspect.rates import between

from gateway_core.contract.status import GatewayStatus

EVERY_S = 1.0
KEPT = 300
_LINGERS_S = 30.0
_LATELY_S = 5.0


@dataclass(frozen=True, slots=True)
class Sample:
    """The status at one moment (`time.monotonic`)."""

    at: float
    status: GatewayStatus
    counts: dict[tuple[str, str], dict[str, float]]
    """Numbers of each entry, by section ("triggers") and name."""


_COUNTED = {
    "brokers": ("accepted", "refused", "dead_lettered"),
    "triggers": ("delivered", "attempts", "retried", "dead_lettered", "lag", "in_flight", "waiting"),
    "bridges": ("accepted", "delivered", "attempts", "retried", "dead_lettered", "lag", "in_flight", "waiting"),
}


class Sampler:
    """Takes samples while somebody looks. `status` reads the gateway's."""

    def __init__(self, status: Callable[[], GatewayStatus]) -> None:
        self._status = status
        self.samples: deque[Sample] = deque(maxlen=KEPT)
        self.watchers = 0
        self.on_watch: Callable[[], None] = lambda: None
        """Is called when somebody begins or ends to look."""
        self._some = anyio.Event()
        self._rates: tuple[Sample, dict[str, Any]] | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Samples are taken inside."""
        self.watchers += 1
        self._some.set()
        self.on_watch()
        try:
            yield
        finally:
            self.watchers -= 1
            self.on_watch()

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while True:
            if not self.watchers:
                with anyio.move_on_after(_LINGERS_S if self.samples else None):
                    self._some = anyio.Event()
                    await self._some.wait()
                if not self.watchers:
                    self.samples.clear()
                    self._rates = None
                    continue
            self.take()
            await anyio.sleep(EVERY_S)

    def take(self) -> Sample:
        """Takes a sample now."""
        status = self._status()
        counts = {
            (section, entry.name): {name: getattr(entry, name) or 0 for name in names}
            for section, names in _COUNTED.items()
            for entry in status.entries(section)
        }
        sample = Sample(time.monotonic(), status, counts)
        self.samples.append(sample)
        return sample

    @property
    def current(self) -> GatewayStatus:
        """The status of the newest sample; a new one if nobody looks yet."""
        newest = self.samples[-1] if self.samples else None
        return newest.status if newest and time.monotonic() - newest.at < 2 * EVERY_S else self._status()

    def rates(self) -> dict[str, Any]:
        """Rates and durations of everything, lately (`gateway_inspect.rates.between`), sorted by name. They are made
        once for each sample, and must not be changed."""
        last = self.samples[-1] if self.samples else None
        if last is None:
            current = self._status()
            return between(current, current, 0.0, "name")
        if self._rates is None or self._rates[0] is not last:
            first = self._first(last)
            self._rates = (last, between(first.status, last.status, last.at - first.at, "name"))
        return self._rates[1]

    def rates_of(self, section: str, name: str) -> dict[str, Any]:
        """Those of one entry; empty if there is none."""
        return next((entry for entry in self.rates()[section] if entry["name"] == name), {})

    def _first(self, last: Sample) -> Sample:
        """The sample from which on rates are lately."""
        return next(sample for sample in self.samples if last.at - sample.at <= _LATELY_S or sample is last)

    def rate(self, section: str, name: str, count: str) -> float | None:
        """How much a count grew per second, lately; None before there are two samples."""
        if len(self.samples) < 2:
            return None
        last = self.samples[-1]
        first = self._first(last)
        if first is last:
            first = self.samples[-2]
        return max(0.0, (self._of(last, section, name, count) - self._of(first, section, name, count))) / (
            last.at - first.at
        )

    def series(self, section: str, name: str, count: str, *, rate: bool) -> list[float]:
        """A count at each sample, oldest first; with `rate`, its growth per second between them."""
        values = [self._of(sample, section, name, count) for sample in self.samples]
        if not rate:
            return values
        times = [sample.at for sample in self.samples]
        pairs = zip(zip(values, times, strict=True), zip(values[1:], times[1:], strict=True), strict=False)
        return [max(0.0, b - a) / (until - since) for (a, since), (b, until) in pairs if until > since]

    def _of(self, sample: Sample, section: str, name: str, count: str) -> float:
        return sample.counts.get((section, name), {}).get(count, 0)
