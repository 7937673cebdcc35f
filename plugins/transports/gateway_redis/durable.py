"""The plugin's durable names: consumer groups of streams. A config without Redis imports no models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway_core.contract.config_extension import ConfigFinding
from gateway_core.contract.config_node import Place, dotted
from gateway_core.contract.durable import NO_LOGIN, Contents, DurableName, Noted, login_for, sources

if TYPE_CHECKING:
    from gateway_core.contract.config_model import GatewayConfig

_LIMIT_S = 10.0


def names(config: GatewayConfig, noted: Sequence[Noted]) -> Iterator[DurableName]:
    """See `DurableNames`."""
    for use in sources(config, "redis"):
        o: Any = use.ref.options
        group = o.group_of(use.entry)
        for stream in o.streams if not o.hides("streams") else ():
            yield DurableName(
                transport="redis",
                what="Redis group",
                where=_server(o),
                name=f"{stream}/{group}",
                owner=use.owner,
                facts={"stream": stream, "group": group},
                place=use.place,
                keeps=f"group: {group}",
                said=o.group is not None,
            )


def consumers(config: GatewayConfig) -> Iterator[ConfigFinding]:
    """Two sources that would read a stream as one consumer take each other's entries for their own."""
    known: dict[tuple[str, ...], Place] = {}
    for use in sources(config, "redis"):
        o: Any = use.ref.options
        for stream in o.streams:
            key = (o.where, stream, o.group_of(use.entry), o.consumer or f"broker {use.entry}")
            before = known.setdefault(key, use.place)
            if before != use.place:
                shown = "its stream" if o.hides("streams") else f"the stream {stream}"
                yield ConfigFinding(
                    f"reads {shown} as the same consumer of the same group as {dotted(before)}",
                    use.place,
                    "name the stream in one of them, or give one a `consumer` of its own",
                )


def _server(options: Any) -> str:
    return str(options.where)


def remove(name: DurableName, config: GatewayConfig, data_dir: Path) -> None:
    """See `DurableNames`: destroys the group at the server; the stream stays."""
    from .connect import destroy_group
    from .connection_config import RedisConfig

    if (options := login_for(config, RedisConfig, _server, name)) is None:
        raise OSError(NO_LOGIN)
    destroy_group(options, str(name.facts["stream"]), str(name.facts["group"]), _LIMIT_S)


def look(name: DurableName, config: GatewayConfig, data_dir: Path) -> Contents:
    """See `DurableNames`."""
    from .connect import group_contents
    from .connection_config import RedisConfig

    if (options := login_for(config, RedisConfig, _server, name)) is None:
        raise OSError(NO_LOGIN)
    waiting, users = group_contents(options, str(name.facts["stream"]), str(name.facts["group"]), _LIMIT_S)
    return Contents(waiting, users)
