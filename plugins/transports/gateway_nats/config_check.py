"""Finds triggers that the channel `jetstream` can't serve as their config says, and sources of one consumer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from gateway_core.contract.config_extension import ConfigFinding
from gateway_core.contract.config_model import BrokerConfig, GatewayConfig, TriggerConfig
from gateway_core.contract.config_node import dotted
from gateway_core.contract.durable import Use, sources

if TYPE_CHECKING:
    from .config import NatsSourceConfig


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


def consumers(config: GatewayConfig) -> Iterator[ConfigFinding]:
    """Sources that would use one consumer with two subjects, or with other options. Without the streams' names nobody
    can say whether it is one consumer: the subjects may be in two streams."""
    known: list[tuple[Use, NatsSourceConfig]] = []
    uses = [*sources(config, "nats")]
    if len(uses) < 2:
        return
    from .config import NatsSourceConfig

    for use in uses:
        o = use.ref.options
        if not isinstance(o, NatsSourceConfig) or not o.jetstream:
            continue
        consumer = o.consumer_of(use.entry)
        for before, other in known:
            same = other.consumer_of(before.entry) == consumer and {*other.servers} & {*o.servers}
            if not same or not _differs(o, other) or (o.stream and other.stream and o.stream != other.stream):
                continue
            surely = o.stream is not None and o.stream == other.stream
            text = f"uses the NATS consumer {consumer}, as {dotted(before.place)} does with other subjects or options"
            if not surely:
                text += ": `tidegate run` does not start if both subjects are in one stream"
            yield ConfigFinding(text, use.place, "give one of them a `consumer` of its own", warning=not surely)
        known.append((use, o))


def _differs(one: NatsSourceConfig, other: NatsSourceConfig) -> bool:
    words = ("subject", "max_in_flight", "ack_wait_s", "max_deliveries", "start")
    return any(getattr(one, word) != getattr(other, word) for word in words)
