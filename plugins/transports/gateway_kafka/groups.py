"""The consumer groups of a config: its Kafka sources, and the triggers of brokers whose channel is Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gateway_core.contract.config_model import GatewayConfig

from .client_config import KafkaConfig
from .config import KafkaChannelConfig, KafkaSourceConfig


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group, the topics that it reads, and its owners: paths in the config, or none if it was named on the
    command line."""

    name: str
    topics: tuple[str, ...]
    options: KafkaConfig
    owners: tuple[str, ...] = ()

    @property
    def cluster(self) -> str:
        """The cluster's addresses."""
        return ",".join(self.options.bootstrap)


def groups_of(config: GatewayConfig) -> list[Group]:
    """All groups, in the config's order. Sources with the same group are merged."""
    found: dict[tuple[str, str], Group] = {}
    for group in _all(config):
        known = found.get((group.cluster, group.name))
        if known is not None:
            topics = tuple(dict.fromkeys((*known.topics, *group.topics)))
            group = Group(group.name, topics, known.options, (*known.owners, *group.owners))
        found[group.cluster, group.name] = group
    return list(found.values())


def _all(config: GatewayConfig) -> Iterator[Group]:
    for name, broker in config.brokers.items():
        for i, ref in enumerate(broker.ingress):
            yield from _of_source(ref.options, name, f"brokers.{name}.ingress[{i}]")
        if isinstance(channel := broker.channel.options, KafkaChannelConfig):
            topics = (channel.topic_of(name),)
            for trigger, its in config.triggers.items():
                if its.broker == name:
                    yield Group(channel.group_of(name, trigger), topics, channel, (f"triggers.{trigger}",))
    for name, bridge in config.bridges.items():
        yield from _of_source(bridge.source.options, name, f"bridges.{name}.source")


def _of_source(options: object, owner: str, path: str) -> Iterator[Group]:
    if isinstance(options, KafkaSourceConfig):
        yield Group(options.group_of(owner), tuple(options.topics), options, (path,))
