"""What `tidegate check` says of the client library."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from gateway_core.contract.component import ComponentRef
from gateway_core.contract.config_extension import ConfigFinding
from gateway_core.contract.config_node import Place
from gateway_core.contract.durable import Use, channels, sources

if TYPE_CHECKING:
    from gateway_core.contract.config_model import GatewayConfig


def clients(config: GatewayConfig) -> Iterator[ConfigFinding]:
    """Warns once of a version of aiokafka that the plugin does not know."""
    for use in _uses(config):
        options: Any = use.ref.options
        if options.client.name != "aiokafka":
            continue
        from .aio.versions import unknown

        try:
            why = unknown(version("aiokafka"))
        except PackageNotFoundError:  # the component says what to install
            return
        if why:
            text = f"only public functions of aiokafka are used: {why}"
            yield ConfigFinding(text, use.place, "see docs/discussion/aiokafka.md for what differs", warning=True)
        return


def _uses(config: GatewayConfig) -> Iterator[Use]:
    yield from sources(config, "kafka")
    yield from channels(config, "kafka")
    for place, ref in _sinks(config):
        if ref is not None and ref.name == "kafka" and ref.options is not None:
            yield Use(place, ref)


def _sinks(config: GatewayConfig) -> Iterator[tuple[Place, ComponentRef | None]]:
    for name, broker in config.brokers.items():
        yield ("brokers", name, "dead_letter"), broker.dead_letter
    for name, trigger in config.triggers.items():
        yield ("triggers", name, "subscriber"), trigger.subscriber
        yield ("triggers", name, "dead_letter"), trigger.dead_letter
    for name, bridge in config.bridges.items():
        yield ("bridges", name, "sink"), bridge.sink
        yield ("bridges", name, "dead_letter"), bridge.dead_letter
