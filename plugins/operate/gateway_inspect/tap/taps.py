"""All open taps of a worker, and what they are attached to. Without taps an event costs nothing more."""

from __future__ import annotations

from collections.abc import Sequence

from gateway_transport.witness import MessageOrigin, Witness, Witnessed

from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Filter, Observer
from gateway_core.contract.services import GatewayView
from gateway_core.contract.topology import Section

from .choice import Choice, TapTarget
from .tap import Tap


class Taps:
    """Attaches taps to the parts of a gateway."""

    def __init__(self, gateway: GatewayView) -> None:
        self._gateway = gateway
        self._clock = gateway.clock
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
        """Removes this observer."""
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
        if self._taps or self._watching:
            self._gateway.watch(self._observers)
        else:
            self._gateway.unwatch(self._observers)
        self.attach_witnesses()

    def attach_witnesses(self) -> None:
        """Tells the sources whether somebody wants to know where events come from."""
        witness = self._came if any(self._watching.values()) else None
        built = self._gateway.topology
        bound = [bound_source for broker in built.brokers.values() for bound_source in broker.bound_sources]
        for each in (*bound, *(bridged.bound_source for bridged in built.bridges.values())):
            if isinstance(each.source, Witnessed):
                each.source.witness(witness)

    def _observers(self, section: Section, name: str) -> Sequence[Observer]:
        part = TapTarget(section.removesuffix("s"), name)
        return (*self._watching, *(tap for tap in self._taps if part.shown_by(tap.choice)))

    def _came(self, events: Sequence[Event], origin: MessageOrigin) -> None:
        for witness in self._watching.values():
            if witness is not None:
                witness(events, origin)
