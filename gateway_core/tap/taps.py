"""All open taps of a worker, and what they are attached to. Where nobody taps, nothing stands in an event's way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..broker import Trigger
from ..build import Built
from ..clock import Clock
from ..interfaces import Filter
from .choice import Choice, Part
from .tap import Tap


class Taps:
    """Attaches taps to the parts of a gateway."""

    def __init__(self, built: Built, clock: Clock) -> None:
        self._built = built
        self._clock = clock
        self._taps: list[Tap] = []

    def open(self, choice: Choice, filter: Filter | None) -> Tap:
        """A new tap; it sees what happens from now on."""
        tap = Tap(choice, filter, self._clock)
        self._taps.append(tap)
        self.attach()
        return tap

    def close(self, tap: Tap) -> None:
        """Ends a tap."""
        if tap in self._taps:
            self._taps.remove(tap)
            self.attach()
        tap.close()

    def close_all(self) -> None:
        """Ends all: the gateway stops."""
        for tap in list(self._taps):
            self.close(tap)

    def attach(self) -> None:
        """Brings every part to the taps that are open; to be called when parts or taps have changed."""
        for part, observed in self._parts():
            taps = tuple(tap for tap in self._taps if part.shown_by(tap.choice))
            observed.observe((*self._built.observers, *taps))

    def _parts(self) -> Iterator[tuple[Part, Any]]:
        for broker in self._built.brokers.values():
            yield Part("broker", broker.name), broker
        for trigger in self._built.triggers.values():
            if isinstance(trigger, Trigger):
                yield Part("trigger", trigger.name), trigger.subscription
        for bridged in self._built.bridges.values():
            yield Part("bridge", bridged.name), bridged.bridge
