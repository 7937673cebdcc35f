"""Sets a trigger back: pauses it, waits for its attempts under way, moves its place in the channel, and lets it go
on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
from gateway_api.routes import Problem

from gateway_core.contract.capabilities import TracksDeliveries
from gateway_core.contract.errors import StorageError
from gateway_core.contract.event import Event, split_position
from gateway_core.contract.replayable import Rewinds
from gateway_core.contract.services import GatewayView
from gateway_core.contract.topology import DeliveryView

from . import selection
from .job import Counts

if TYPE_CHECKING:
    from collections.abc import Mapping

IDLE_S = 60.0
"""How long a rewind waits for attempts under way."""


class Rewinder:
    """Rewinds triggers, one at a time."""

    def __init__(self, gateway: GatewayView) -> None:
        self._gateway = gateway
        self._lock = anyio.Lock()

    async def preview(self, name: str, to_ns: int) -> Counts:
        """The events that it would get again: those since then that match the filter and are settled. Raises
        `Problem`."""
        _, counts = await self._looked(name, to_ns)
        return counts

    async def rewind(self, name: str, to_ns: int) -> Counts:
        """Sets the trigger back. Returns what it gets again. Raises `Problem`."""
        async with self._lock:
            gateway = self._gateway
            was = name in gateway.paused
            gateway.pause(gateway.paused | {name})
            try:
                trigger, delivery, channel = selection.trigger_of(gateway, name)
                await self._idle(delivery)
                firsts, counts = await self._looked(name, to_ns)
                assert isinstance(channel, Rewinds)
                for partition in firsts:
                    delivery.withdraw(partition)
                try:
                    await channel.rewind(trigger.name, firsts)
                except StorageError as e:
                    raise Problem(503, str(e)) from e
            finally:
                if not was:
                    gateway.pause(gateway.paused - {name})
            return counts

    async def _looked(self, name: str, to_ns: int) -> tuple[Mapping[int, int], Counts]:
        gateway = self._gateway
        trigger, _, channel = selection.trigger_of(gateway, name)
        if not isinstance(channel, Rewinds):
            kind = trigger.broker.channel_name
            raise Problem(409, f"the channel {kind} of broker {trigger.broker.name!r} can't set a trigger back")
        if gateway.workers > 1:
            raise Problem(409, "a gateway with several workers can't set a trigger back: use `tidegate replay`")
        now_ns = gateway.clock.now_ns()
        if to_ns > now_ns:
            raise Problem(422, "a trigger is set back: `to` is in the future")
        broker = trigger.broker.name
        found = await selection.stretch_of(channel, broker, to_ns, now_ns + 1, "--to")
        feed = trigger.feed
        assert isinstance(feed, TracksDeliveries)
        matches = selection.matcher(trigger, None, to_ns, 2**63 - 1)
        firsts = {partition: end for partition, (_, end) in found.parts.items()}

        def again(event: Event) -> bool:
            partition, number = split_position(event.position)
            if event.received_ns >= to_ns:
                firsts[partition] = min(firsts[partition], number)
            return matches(event) and feed.delivery_state(event.position) in ("passed", "before")

        try:
            counts = await selection.counted(channel, found.parts, again)
        except StorageError as e:
            raise Problem(503, str(e)) from e
        return firsts, counts

    async def _idle(self, delivery: DeliveryView) -> None:
        with anyio.move_on_after(IDLE_S):
            while delivery.in_flight:  # noqa: ASYNC110 - once in a rewind
                await anyio.sleep(0.01)
            return
        raise Problem(409, f"{delivery.in_flight} attempts are still under way after {IDLE_S:.0f} s: try again")
