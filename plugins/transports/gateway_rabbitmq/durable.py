"""The plugin's durable names: queues that it declares. A config without RabbitMQ imports no models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway_core.contract.durable import NO_LOGIN, Contents, DurableName, Noted, login_for, sources

if TYPE_CHECKING:
    from gateway_core.contract.config_model import GatewayConfig

_LIMIT_S = 10.0


def names(config: GatewayConfig, noted: Sequence[Noted]) -> Iterator[DurableName]:
    """See `DurableNames`. A queue that must exist is somebody else's."""
    for use in sources(config, "rabbitmq"):
        o: Any = use.ref.options
        if o.declare and not o.hides("queue"):
            yield DurableName(
                transport="rabbitmq",
                what="RabbitMQ queue",
                where=_server(o),
                name=o.queue,
                owner=use.owner,
                place=use.place,
                keeps=f"queue: {o.queue}",
                said=True,
            )


def _server(options: Any) -> str:
    return str(options.where)


def remove(name: DurableName, config: GatewayConfig, data_dir: Path) -> None:
    """See `DurableNames`: deletes the queue at the server, with what waits in it."""
    from .client_config import RabbitConfig
    from .session import delete_queue

    if (options := login_for(config, RabbitConfig, _server, name)) is None:
        raise OSError(NO_LOGIN)
    delete_queue(options, name.name, _LIMIT_S)


def look(name: DurableName, config: GatewayConfig, data_dir: Path) -> Contents:
    """See `DurableNames`. The server does not count what its consumers have and did not acknowledge."""
    from .client_config import RabbitConfig
    from .session import queue_contents

    if (options := login_for(config, RabbitConfig, _server, name)) is None:
        raise OSError(NO_LOGIN)
    waiting, consumers = queue_contents(options, name.name, _LIMIT_S)
    users = f"{consumers} {'consumer' if consumers == 1 else 'consumers'}" if consumers else ""
    return Contents(waiting, users)
