"""The components of a config that have another end, for checks of connections."""

from __future__ import annotations

from collections.abc import Iterator

from gateway_core.config.model import GatewayConfig
from gateway_core.contract.component import ComponentRef


def component_refs(config: GatewayConfig) -> Iterator[tuple[str, ComponentRef]]:
    """Sources, sinks, channels and dead letters, each with its path in the config."""
    for name, broker in config.brokers.items():
        for i, ref in enumerate(broker.ingress):
            yield f"brokers.{name}.ingress[{i}]", ref
        yield f"brokers.{name}.channel", broker.channel
        yield f"brokers.{name}.dead_letter", broker.dead_letter
    for name, trigger in config.triggers.items():
        yield f"triggers.{name}.subscriber", trigger.subscriber
        if trigger.dead_letter is not None:
            yield f"triggers.{name}.dead_letter", trigger.dead_letter
    for name, bridge in config.bridges.items():
        yield f"bridges.{name}.source", bridge.source
        yield f"bridges.{name}.sink", bridge.sink
        if bridge.dead_letter is not None:
            yield f"bridges.{name}.dead_letter", bridge.dead_letter
