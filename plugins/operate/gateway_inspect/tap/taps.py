"""All open taps of a worker, and what they are attached to. Without taps an event costs nothing more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gateway_transport.witness import Origin, Witness, Witnessed

from gateway_core.contract.clock import Clock
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Filter, Observer
from gateway_core.pipeline.broker import Trigger
from gateway_core.runtime.build import Built

from .choice import Choice, Part
from .tap import Tap


class Taps:
    """Attaches taps to the parts of a gateway."""

    def __init__(self, built: Built, clock: Clock) -> None:
        self._built = built
        self._clock = clock
        self._taps: list[Tap] = []
        self._watching: dict[Observer, Witness | None] = {}

    def open(self, choice: Choice, filter: Filter | None) -> Tap:
        """Opens a tap that sees what happens from now on."""
        tap = Tap(choice, filter, self._clock)
        self._taps.append(tap)
        self.attach()
        return tap

    def close(self, tap: Tap) -> None:
        """Closes a tap."""
        if tap in self._taps:
            self._taps.remove(tap)
            self.attach()
        tap.close()

    def watch(self, observer: Observer, witness: Witness | None = None) -> None:
        """Lets an observer see what happens in all parts from now on; `witness` also where events come from."""
        self._watching[observer] = witness
        self.attach()

    def unwatch(self, observer: Observer) -> None:
        """Ends that."""
        if observer in self._watching:
            del self._watching[observer]
            self.attach()

    def close_all(self) -> None:
        """Closes all taps when the gateway stops."""
        self._watching.clear()
        for tap in list(self._taps):
            self.close(tap)
        self.attach()

    def attach(self) -> None:
        """Attaches the open taps to the parts that they show. Call it when parts or taps have changed."""
        for part, observed in self._parts():
            taps = tuple(tap for tap in self._taps if part.shown_by(tap.choice))
            observed.observe((*self._built.observers, *self._watching, *taps))
        witness = self._came if any(self._watching.values()) else None
        sources = [source for broker in self._built.brokers.values() for source in broker.sources]
        for source in (*sources, *(bridged.bound_source.source for bridged in self._built.bridges.values())):
            if isinstance(source, Witnessed):
                source.witness(witness)

    def _came(self, events: Sequence[Event], origin: Origin) -> None:
        for witness in self._watching.values():
            if witness is not None:
                witness(events, origin)

    def _parts(self) -> Iterator[tuple[Part, Any]]:
        for broker in self._built.brokers.values():
            yield Part("broker", broker.name), broker
        for trigger in self._built.triggers.values():
            if isinstance(trigger, Trigger):
                yield Part("trigger", trigger.name), trigger.subscription
        for bridged in self._built.bridges.values():
            yield Part("bridge", bridged.name), bridged.bridge
