"""Finds triggers that the channel `jetstream` can't serve as their config says, and sources with one consumer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from gateway_core.config.model import BrokerConfig, GatewayConfig, TriggerConfig
from gateway_core.contract.component import SourceRef
from gateway_core.contract.config_extension import ConfigFinding
from gateway_core.contract.config_node import Place, dotted

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


def one_consumer(config: GatewayConfig) -> Iterator[ConfigFinding]:
    """Two sources with one consumer of one stream that are not the same: the server has either, and refuses the other.
    It is a fault where both name the stream, and a warning where the server knows the streams of their subjects."""
    before: dict[tuple[object, ...], list[tuple[Place, NatsSourceConfig]]] = {}
    for place, owner, ref in _sources(config):
        options = ref.options
        if not isinstance(options, NatsSourceConfig) or not options.jetstream:
            continue
        earlier = before.setdefault((*options.servers, options.domain, options.consumer_of(owner)), [])
        for other_place, other in earlier:
            known = options.stream is not None and options.stream == other.stream
            if _differs(options, other) and (known or options.stream is None or other.stream is None):
                has = "has" if known else "has, if one stream has both subjects,"
                yield ConfigFinding(
                    f"its consumer `{options.consumer_of(owner)}` is that of `{dotted(other_place)}`, which {has} other"
                    " subjects or options",
                    place,
                    "give each its own `consumer`",
                    warning=not known,
                )
                break
        earlier.append((place, options))


def _differs(one: NatsSourceConfig, other: NatsSourceConfig) -> bool:
    words = ("subject", "max_in_flight", "ack_wait_s", "max_deliveries", "start")
    return any(getattr(one, word) != getattr(other, word) for word in words)


def _sources(config: GatewayConfig) -> Iterator[tuple[Place, str, SourceRef]]:
    for name, broker in config.brokers.items():
        for number, ref in enumerate(broker.ingress):
            yield ("brokers", name, "ingress", number), name, ref
    for name, bridge in config.bridges.items():
        yield ("bridges", name, "source"), name, bridge.source


def _triggers(config: GatewayConfig) -> Iterator[tuple[str, TriggerConfig, BrokerConfig]]:
    for name, trigger in config.triggers.items():
        broker = config.brokers.get(trigger.broker)
        if broker is not None and broker.channel.name == "jetstream":
            yield name, trigger, broker
