"""Finds triggers that the channel `jetstream` can't serve."""

from __future__ import annotations

from collections.abc import Iterator

from gateway_core.config.model import GatewayConfig
from gateway_core.contract.config_extension import ConfigFinding


def readers(config: GatewayConfig) -> Iterator[ConfigFinding]:
    """A sink that reads its channel itself (its config model says `reads_channel`) needs another channel."""
    for name, trigger in config.triggers.items():
        broker = config.brokers.get(trigger.broker)
        if broker is None or broker.channel.name != "jetstream":
            continue
        if getattr(trigger.subscriber.options, "reads_channel", False):
            yield ConfigFinding(
                f"the sink `{trigger.subscriber.name}` reads its channel itself, which the channel `jetstream` of the"
                f" broker {trigger.broker} does not offer",
                ("triggers", name, "subscriber"),
                "use the channel `log` or `kafka`",
            )
