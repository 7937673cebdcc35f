"""Which events a replay or a rewind selects, and how many these are. Nothing is sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping

import anyio
import anyio.lowlevel
from gateway_api.filter_texts import BadFilter, compile_all
from gateway_api.routes import Problem

from gateway_core.contract import event_data
from gateway_core.contract.errors import StorageError
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Filter
from gateway_core.contract.moments import written
from gateway_core.contract.replayable import Replayable, Stretch
from gateway_core.contract.services import GatewayView
from gateway_core.contract.topology import DeliveryView, TriggerView

from .job import Counts

CHUNK = 250
"""How many events are read at once: decoding them holds up the others of this process for a few milliseconds."""
STEP = 50
"""After so many events the loop has its turn."""


def trigger_of(gateway: GatewayView, name: str) -> tuple[TriggerView, DeliveryView, Replayable]:
    """A trigger whose events can be sent again. Raises `Problem`."""
    trigger = gateway.topology.triggers.get(name)
    if trigger is None:
        others = ", ".join(sorted(gateway.topology.triggers)[:20]) or "none"
        raise Problem(404, f"there is no trigger {name!r}; triggers: {others}")
    if trigger.delivery is None:
        raise Problem(409, f"the subscriber of {name!r} reads the channel itself: only it can repeat that")
    channel = trigger.broker.channel
    if not isinstance(channel, Replayable):
        kind = trigger.broker.channel_name
        raise Problem(409, f"the channel {kind} of broker {trigger.broker.name!r} can't read past events again")
    return trigger, trigger.delivery, channel


async def stretch_of(channel: Replayable, broker: str, from_ns: int, to_ns: int, option: str) -> Stretch:
    """The positions of a time. `option` is what to change if the channel no longer goes back so far. Raises
    `Problem`."""
    try:
        found = await channel.stretch(from_ns, to_ns)
    except StorageError as e:
        raise Problem(503, str(e)) from e
    if from_ns >= found.whole_from_ns:
        return found
    if not found.oldest_ns:
        raise Problem(409, f"the channel of broker {broker!r} has deleted all events that it once had")
    since = written(found.whole_from_ns)
    raise Problem(
        409,
        f"the channel of broker {broker!r} has deleted events since {written(from_ns)}: all are there from {since} on; "
        f"say {option} {since}",
    )


def extra_filter(gateway: GatewayView, texts: tuple[str, ...]) -> Filter | None:
    """The filter beside the trigger's. Raises `Problem`."""
    try:
        return compile_all(texts, gateway.registry)
    except BadFilter as e:
        raise Problem(422, str(e)) from e


def matcher(trigger: TriggerView, extra: Filter | None, from_ns: int, to_ns: int) -> Callable[[Event], bool]:
    """Whether an event is selected."""
    like_it = filtered(trigger, extra)
    return lambda event: from_ns <= event.received_ns < to_ns and like_it(event)


def filtered(trigger: TriggerView, extra: Filter | None) -> Callable[[Event], bool]:
    """Whether the filters want an event. One that raises wants it, as in live delivery."""
    matches, more = trigger.filter.matches, extra.matches if extra is not None else None

    def wanted(event: Event) -> bool:
        try:
            return matches(event) and (more is None or more(event))
        except Exception:
            return True

    return wanted


async def events_of(channel: Replayable, parts: Mapping[int, tuple[int, int]]) -> AsyncIterator[Event]:
    """All events at these positions, partition by partition. The loop gets its turn between a few. Raises
    `StorageError`."""
    for partition, (first, end) in sorted(parts.items()):
        at = first
        while at < end:
            events, at = await channel.read_again(partition, at, end, CHUNK)
            for number, event in enumerate(events):
                if number % STEP == STEP - 1:
                    await anyio.lowlevel.checkpoint()
                yield event
            if event_data.asked:
                event_data.release()


async def counted(channel: Replayable, parts: Mapping[int, tuple[int, int]], wanted: Callable[[Event], bool]) -> Counts:
    """How many events these are. Raises `StorageError`."""
    counts = Counts(types={})
    async for event in events_of(channel, parts):
        if wanted(event):
            counts.add(event.received_ns, str(event.attributes.get("type") or event.attributes.get("eventType")))
    return counts
