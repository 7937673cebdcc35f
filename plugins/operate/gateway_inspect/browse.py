"""Past events by what they say: all brokers' channels, newest first, in steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from gateway_core.contract.capabilities import Found
from gateway_core.contract.errors import StorageError
from gateway_core.contract.event import Event
from gateway_core.contract.topology import Topology

MOST = 50
"""How many events a step finds of each broker."""


@runtime_checkable
class Browsable(Protocol):
    """A channel whose past events can be chosen by their attributes."""

    async def browse(
        self,
        wanted: Mapping[str, str],
        since_ns: int,
        until_ns: int,
        rest: Any = None,
        most: int = MOST,
        within_s: float = 0.5,
    ) -> Found:
        """Events with these values of attributes (one that ends with `*` is a prefix) that were received from
        `since_ns` to before `until_ns`, newest first: about `most` of them, or those that are found in `within_s`
        seconds. `rest` comes from the step before. Raises `StorageError` if the channel can't be read now."""

    async def at(self, position: int) -> Event | None:
        """The event at this position; None if it is gone. Raises `StorageError`."""


@dataclass(frozen=True, slots=True)
class Browsed:
    """One step: the events with the names of their brokers, newest first; how many were `searched`; the `rest` for the
    next step, None after the last; and the brokers whose channels can't be browsed, with the reasons in `faults` if
    they can't be read now."""

    events: list[tuple[str, Event]] = field(default_factory=list)
    searched: int = 0
    rest: dict[str, Any] | None = None
    unsearchable: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


async def browse(
    built: Topology,
    wanted: Mapping[str, str],
    since_ns: int,
    until_ns: int,
    broker: str | None = None,
    rest: Mapping[str, Any] | None = None,
) -> Browsed:
    """A step of a search in the channels of all brokers, or of one."""
    found: list[tuple[str, Event]] = []
    left: dict[str, Any] = {}
    faults: list[str] = []
    searched, unsearchable = 0, []
    for name, of_it in built.brokers.items():
        if broker not in (None, name):
            continue
        channel = of_it.channel
        if not isinstance(channel, Browsable):
            unsearchable.append(name)
        elif rest is None or name in rest:
            try:
                step = await channel.browse(wanted, since_ns, until_ns, (rest or {}).get(name))
            except StorageError as e:
                unsearchable.append(name)
                faults.append(f"{name}: {e}")
                continue
            searched += step.searched
            found += [(name, event) for event in step.events]
            if step.rest is not None:
                left[name] = step.rest
    found.sort(key=lambda each: each[1].received_ns, reverse=True)
    return Browsed(found, searched, left or None, unsearchable, faults)


def agrees(value: Any, wanted: str) -> bool:
    """Whether an attribute's value is the wanted one, or begins as it does if that ends with `*`."""
    if wanted.endswith("*"):
        return str(value or "").startswith(wanted[:-1])
    return str(value) == wanted
