"""The recent past of a gateway: its counts once a second, while somebody looks at a page that shows rates.

Nobody looks: nothing is counted, and the past is dropped.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from anyio import to_thread
from gateway_inspect.rates import between, failed
from gateway_serving.slices import finished
from msgspec.structs import replace

from gateway_core.contract.status import DeliveryStatus, GatewayStatus

EVERY_S = 1.0
PART = 5
"""With very many entries samples are rarer, so that all of them take less than a part in so many of the time."""
KEPT = 300
MOST_KEPT = 60_000
"""Entries in all samples together, if that leaves `FEWEST` samples."""
FEWEST = 7
FEW = 200
"""So many triggers take no time worth mentioning."""
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
    """Takes samples while somebody looks. `status` reads the gateway's at once, `sliced` while events keep flowing."""

    def __init__(self, status: Callable[[], GatewayStatus], sliced: Callable[[], Awaitable[GatewayStatus]]) -> None:
        self._status = status
        self._sliced = sliced
        self.samples: deque[Sample] = deque(maxlen=KEPT)
        self._every_s = EVERY_S
        self._single: Sample | None = None  # for a page that was asked while nobody looks
        self._making = anyio.Lock()
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
            began = time.monotonic()
            sample = await self._made()
            self.samples.append(sample)
            while len(self.samples) > max(FEWEST, MOST_KEPT // (len(sample.counts) + 1)):
                await to_thread.run_sync(_dissolve, self.samples.popleft())
            self._every_s = max(EVERY_S, PART * (time.monotonic() - began))
            await anyio.sleep(self._every_s)

    async def _made(self) -> Sample:
        status = await self._sliced()
        return Sample(time.monotonic(), status, await finished(_counts(status)))

    async def ready(self) -> None:
        """A sample is there that is new enough for a page, and the rates that go with it."""
        async with self._making:
            if self._newest is None:
                self._single = await self._made()
                asyncio.get_running_loop().call_later(_LINGERS_S, self._forget, self._single)
        if self.samples and len(self.current.triggers) > FEW:
            await to_thread.run_sync(self.rates)

    def _forget(self, sample: Sample) -> None:
        self._single = None if self._single is sample else self._single
        asyncio.get_running_loop().run_in_executor(None, _dissolve, sample)

    @property
    def _newest(self) -> Sample | None:
        newest = self.samples[-1] if self.samples else self._single
        return newest if newest and time.monotonic() - newest.at < 2 * self._every_s else None

    @property
    def current(self) -> GatewayStatus:
        """The status of the newest sample; a new one if nobody looks yet."""
        newest = self._newest
        return newest.status if newest else self._status()

    def rates(self) -> dict[str, Any]:
        """Rates and durations of everything, lately (`gateway_inspect.rates.between`), sorted by name. They are made
        once for each sample, and must not be changed."""
        last = self.samples[-1] if self.samples else None
        if last is None:
            current = self.current
            return between(current, current, 0.0, "name")
        if self._rates is None or self._rates[0] is not last:
            first = self._first(last)
            self._rates = (last, between(first.status, last.status, last.at - first.at, "name"))
        return self._rates[1]

    def rates_of(self, section: str, name: str) -> dict[str, Any]:
        """Those of one entry; empty if there is none."""
        last = self.samples[-1] if self.samples else None
        after = _only(last.status if last else self.current, section, name)
        first = self._first(last) if last else None
        before = _only(first.status, section, name) if first else after
        found = between(before, after, last.at - first.at if last and first else 0.0, "name")[section]
        return found[0] if found else {}

    def _first(self, last: Sample) -> Sample:
        """The sample from which on rates are lately."""
        return next(sample for sample in list(self.samples) if last.at - sample.at <= _LATELY_S or sample is last)

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
        samples = list(self.samples)
        values = [self._of(sample, section, name, count) for sample in samples]
        if not rate:
            return values
        times = [sample.at for sample in samples]
        pairs = zip(zip(values, times, strict=True), zip(values[1:], times[1:], strict=True), strict=False)
        return [max(0.0, b - a) / (until - since) for (a, since), (b, until) in pairs if until > since]

    def _of(self, sample: Sample, section: str, name: str, count: str) -> float:
        return sample.counts.get((section, name), {}).get(count, 0)


def _counts(status: GatewayStatus) -> Generator[None, None, dict[tuple[str, str], dict[str, float]]]:
    found = {}
    for section, names in _COUNTED.items():
        for entry in status.entries(section):
            counts = found[section, entry.name] = {name: getattr(entry, name) or 0 for name in names}
            if isinstance(entry, DeliveryStatus):
                counts["failed"] = failed(entry)
            yield
    return found


def _dissolve(sample: Sample) -> None:
    """Empties a sample that no page shows any more, one entry after the other: to drop all at once takes long."""
    for entries in (sample.status.brokers, sample.status.triggers, sample.status.bridges):
        while entries:
            entries.pop()
    while sample.counts:
        sample.counts.popitem()


def _only(status: GatewayStatus, section: str, name: str) -> GatewayStatus:
    """A status with this entry only."""
    found = [entry for entry in status.entries(section) if entry.name == name]
    return replace(status, **{**{other: [] for other in _COUNTED}, section: found})
