"""Warns of servers that lose entries in a crash, for `tidegate check --connect`."""

from __future__ import annotations

from collections.abc import Iterator

from gateway_core.config.model import GatewayConfig
from gateway_core.contract.component import ComponentRef
from gateway_core.contract.errors import Probe

from .config import RedisSinkConfig, RedisSourceConfig
from .connect import risk

LIMIT_S = 5.0


def durability(config: GatewayConfig) -> list[Probe]:
    """Warns of servers that lose entries in a crash. A server that can't be asked is reported elsewhere."""
    probes: dict[str, Probe] = {}
    for path, ref in _refs(config):
        options = ref.options
        if isinstance(options, RedisSinkConfig | RedisSourceConfig) and options.end not in probes:
            try:
                text = risk(options, LIMIT_S)
            except OSError:
                continue
            if text:
                probes[options.end] = Probe(path, options.end, True, f"warning: {text}")
    return list(probes.values())


def _refs(config: GatewayConfig) -> Iterator[tuple[str, ComponentRef]]:
    for name, broker in config.brokers.items():
        for i, ref in enumerate(broker.ingress):
            yield f"brokers.{name}.ingress[{i}]", ref
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
