"""Which events of dead letters a replay of past events, or a rewind, has delivered since: their dead letters stay."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway_core.contract.capabilities import GivenUp, TellsRedelivered
from gateway_core.contract.errors import StorageError
from gateway_core.contract.moments import stamped

if TYPE_CHECKING:
    from gateway_core.contract.services import GatewayView

log = logging.getLogger("tidegate.deadletter")


class At(NamedTuple):
    """An event that was given up: its broker and trigger, and its position; or, where nobody knows that, 0 with its
    source and id."""

    broker: str
    trigger: str
    position: int
    source: str = ""
    id: str = ""


Redelivered = Mapping[At, GivenUp]
"""What is known of events that were delivered after they were given up."""


def of_channels(channels: Iterable[tuple[str, Any]]) -> dict[At, GivenUp]:
    """What these channels, each with its broker, know. It may block."""
    found: dict[At, GivenUp] = {}
    for broker, channel in channels:
        if isinstance(channel, TellsRedelivered):
            try:
                found |= {At(broker, name, at): facts for (name, at), facts in channel.redelivered().items()}
            except (StorageError, sqlite3.Error) as e:
                log.warning("what broker %s delivered again can't be read: %s", broker, e)
    return found


def of_gateway(gateway: GatewayView) -> dict[At, GivenUp]:
    """What the channels of a running gateway know, and its triggers, which remember the last ones whatever the channel
    is. It may block."""
    topology = gateway.topology
    found = of_channels((name, broker.channel) for name, broker in topology.brokers.items())
    for name, trigger in topology.triggers.items():
        if trigger.delivery is not None:
            for id_, source, position, facts in [*trigger.delivery.failures.all_given_up()]:
                if facts.delivered_ns:
                    broker = trigger.broker.name
                    found[At(broker, name, position)] = found[At(broker, name, 0, str(source), str(id_))] = facts
    return found


def told(given_up: GivenUp) -> dict[str, str | None]:
    """When and by what it was delivered, as JSON values."""
    return {"at": stamped(given_up.delivered_ns), "by": given_up.delivered_by or None}
