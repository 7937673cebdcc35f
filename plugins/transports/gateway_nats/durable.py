"""The plugin's durable names: consumers, and streams of channels. A config without NATS imports no models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway_core.contract.durable import Contents, DurableName, Noted, channels, login_for, sources

if TYPE_CHECKING:
    from gateway_core.contract.config_model import GatewayConfig

    from .client_config import NatsConfig

CONSUMER, STREAM = "NATS consumer", "NATS stream"


def names(config: GatewayConfig, noted: Sequence[Noted]) -> Iterator[DurableName]:
    """See `DurableNames`. The queue groups of core NATS keep nothing."""
    for use in sources(config, "nats"):
        o: Any = use.ref.options
        if o.jetstream:
            consumer = o.consumer_of(use.entry)
            yield DurableName(
                transport="nats",
                what=CONSUMER,
                where=_servers(o),
                name=f"{o.stream}/{consumer}" if o.stream else consumer,
                owner=use.owner,
                facts={"stream": o.stream or "", "consumer": consumer, "topics": [o.visible("subject")]},
                place=use.place,
                keeps=f"consumer: {consumer}",
                said=o.consumer is not None,
            )
    for use in channels(config, "jetstream"):
        o = use.ref.options
        stream = o.stream_of(use.entry)
        at: dict[str, Any] = {"transport": "nats", "where": _servers(o)}
        keeps = f"stream: {stream}"
        yield DurableName(**at, what=STREAM, name=stream, owner=use.owner, place=use.place, keeps=keeps)
        for name, trigger in config.triggers.items():
            if trigger.broker == use.entry:
                consumer = o.consumer_of(name)
                yield DurableName(
                    **at,
                    what=CONSUMER,
                    name=f"{stream}/{consumer}",
                    owner=f"triggers.{name}",
                    facts={"stream": stream, "consumer": consumer, "topics": [o.subject_of(use.entry)]},
                    place=("triggers", name),
                )


def _servers(options: Any) -> str:
    return str(options.visible("servers"))


def remove(name: DurableName, config: GatewayConfig, data_dir: Path) -> None:
    """See `DurableNames`: deletes a consumer at the server."""
    from .probe import delete_consumer

    if name.what == STREAM:
        raise OSError("it holds events: delete it with NATS's own tools once nothing needs them")
    delete_consumer(*_place(name, config))


def look(name: DurableName, config: GatewayConfig, data_dir: Path) -> Contents:
    """See `DurableNames`."""
    from .probe import consumer_contents

    return Contents() if name.what == STREAM else consumer_contents(*_place(name, config))


def _place(name: DurableName, config: GatewayConfig) -> tuple[NatsConfig, str, str, str]:
    """The server's options, the stream (or "" and a subject of it), and the consumer."""
    from .client_config import NatsConfig

    options = login_for(config, NatsConfig, _servers, name) or NatsConfig.model_validate({"servers": name.where})
    return options, str(name.facts["stream"]), str(name.facts["topics"][0]), str(name.facts["consumer"])
