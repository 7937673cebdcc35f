"""The plugin's durable names: queues that it declares. A config without RabbitMQ imports no models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway_core.contract.durable import DurableName, Noted, logins, sources

if TYPE_CHECKING:
    from gateway_core.config.model import GatewayConfig

_LIMIT_S = 10.0


def names(config: GatewayConfig, noted: Sequence[Noted]) -> Iterator[DurableName]:
    """See `DurableNames`. A queue that must exist is somebody else's."""
    for use in sources(config, "rabbitmq"):
        o: Any = use.ref.options
        if o.declare and not o.hides("queue"):
            yield DurableName(
                transport="rabbitmq",
                what="RabbitMQ queue",
                where=f"amqp://{o.where}",
                name=o.queue,
                owner=use.owner,
                place=use.place,
                keeps=f"queue: {o.queue}",
                said=True,
            )


def remove(name: DurableName, config: GatewayConfig, data_dir: Path) -> None:
    """See `DurableNames`: deletes the queue at the server, with what waits in it."""
    from .client_config import RabbitConfig
    from .session import delete_queue

    for options in logins(config):
        if isinstance(options, RabbitConfig) and f"amqp://{options.where}" == name.where:
            delete_queue(options, name.name, _LIMIT_S)
            return
    raise OSError("no component of the config has this server: name a config that has one, for its login")
