"""Finds triggers that the channel `jetstream` can't serve as their config says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from gateway_core.config.model import BrokerConfig, GatewayConfig, TriggerConfig
from gateway_core.contract.config_extension import ConfigFinding


@runtime_checkable
class _ReadsChannel(Protocol):
    """The config model of a sink that reads its channel itself."""

    reads_channel: bool


def readers(config: GatewayConfig) -> Iterator[ConfigFinding]:
    """A sink that reads its channel itself needs another channel."""
    for name, trigger, _ in _triggers(config):
        if isinstance(trigger.subscriber.options, _ReadsChannel):
            yield ConfigFinding(
                f"the sink `{trigger.subscriber.name}` reads its channel itself, which the channel `jetstream` of the"
                f" broker {trigger.broker} does not offer",
                ("triggers", name, "subscriber"),
                "use the channel `log` or `kafka`",
            )


def ordered(config: GatewayConfig) -> Iterator[ConfigFinding]:
    """Warns of an order that holds only while one worker of one gateway reads the stream."""
    for name, trigger, broker in _triggers(config):
        order = trigger.delivery.over(broker.delivery).order
        if order != "unordered":
            yield ConfigFinding(
                f"`order: {order}` holds only while one gateway with one worker uses the stream: several share the "
                "events of a channel `jetstream` one by one",
                ("triggers", name),
                "use the channel `kafka` if several gateways or workers must keep the order",
                warning=True,
            )


def _triggers(config: GatewayConfig) -> Iterator[tuple[str, TriggerConfig, BrokerConfig]]:
    for name, trigger in config.triggers.items():
        broker = config.brokers.get(trigger.broker)
        if broker is not None and broker.channel.name == "jetstream":
            yield name, trigger, broker
