"""Warns of servers that lose entries in a crash, for `tidegate check --connect`."""

from __future__ import annotations

from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.config_walk import component_refs
from gateway_core.contract.errors import Probe

from .config import RedisSinkConfig, RedisSourceConfig

LIMIT_S = 5.0


def durability(config: GatewayConfig) -> list[Probe]:
    """Warns of servers that lose entries in a crash. A server that can't be asked is reported elsewhere. Imports redis
    only if the config has one."""
    probes: dict[str, Probe] = {}
    for path, ref in component_refs(config):
        options = ref.options
        if isinstance(options, RedisSinkConfig | RedisSourceConfig) and options.end not in probes:
            from .connect import risk

            try:
                text = risk(options, LIMIT_S)
            except OSError:
                continue
            if text:
                probes[options.end] = Probe(path, options.end, True, f"warning: {text}")
    return list(probes.values())
