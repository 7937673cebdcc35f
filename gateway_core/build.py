"""From a config to objects: every broker, trigger and bridge with its components, wired but not started."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from . import filters
from .bridge import Bridge
from .broker import Broker, ReadingTrigger, Trigger
from .clock import Clock
from .component import BuildContext, ComponentRef, DeadLetterRef
from .config.check import effective_delivery
from .config.model import BridgeConfig, BrokerConfig, DeliveryConfig, GatewayConfig, TriggerConfig
from .delivery import Budget, Subscription, lanes
from .delivery.burials import Letters
from .delivery.lanes import LaneOf
from .interfaces import Filter, Observer, ReadingSink, Sink, Source
from .registry import Registry
from .settings import Settings


@dataclass(slots=True)
class Bridged:
    """A bridge with its ends."""

    name: str
    bridge: Bridge
    source: Source
    dead_letter: Sink | None


@dataclass(slots=True)
class Built:
    """Everything that a gateway runs. `sinks` are all sinks and dead letters, each once."""

    brokers: dict[str, Broker] = field(default_factory=dict)
    triggers: dict[str, Trigger | ReadingTrigger] = field(default_factory=dict)
    orphans: dict[str, TriggerConfig] = field(default_factory=dict)  # triggers whose broker does not exist
    bridges: dict[str, Bridged] = field(default_factory=dict)
    sinks: list[Sink] = field(default_factory=list)
    observers: tuple[Observer, ...] = ()


class Builder:
    """Builds one worker's share of a gateway."""

    def __init__(
        self, config: GatewayConfig, settings: Settings, registry: Registry, clock: Clock, worker: int = 0
    ) -> None:
        self._config = config
        self._clock = clock
        self._registry = registry
        self._budget = Budget()
        self._built = Built()
        self._context = BuildContext(
            owner="",
            data_dir=settings.data_dir.absolute(),
            clock=clock,
            registry=registry,
            worker=worker,
            workers=settings.workers,
        )

    def build(self) -> Built:
        """Raises `StartError` where a component can't be built, naming its place in the config."""
        built = self._built
        built.observers = tuple(self._make(ref, f"observers[{i}]") for i, ref in enumerate(self._config.observers))
        for name, broker in self._config.brokers.items():
            built.brokers[name] = self._broker(name, broker)
        for name, trigger in self._config.triggers.items():
            if trigger.broker in built.brokers:
                built.triggers[name] = self._trigger(name, trigger, built.brokers[trigger.broker])
            else:
                built.orphans[name] = trigger
        for name, bridge in self._config.bridges.items():
            built.bridges[name] = self._bridge(name, bridge)
        return built

    def _make(self, ref: ComponentRef, owner: str, **changes: Any) -> Any:
        return self._registry.build(ref, replace(self._context, owner=owner, **changes))

    def _broker(self, name: str, config: BrokerConfig) -> Broker:
        owner = f"brokers.{name}"
        sources = [self._make(ref, f"{owner}.ingress[{i}]", broker=name) for i, ref in enumerate(config.ingress)]
        channel = self._make(config.channel, f"{owner}.channel", broker=name)
        dead_letter = self._dead_letter(config.dead_letter, f"{owner}.dead_letter", broker=name)
        observers = self._built.observers
        letters = Letters(name, dead_letter, self._clock, observers)
        return Broker(name, config.channel.name, channel, sources, dead_letter, observers, letters)

    def _dead_letter(self, ref: DeadLetterRef, owner: str, **changes: Any) -> Sink:
        return self._kept(self._make(ref, owner, **changes))

    def _kept(self, sink: Sink) -> Sink:
        self._built.sinks.append(sink)
        return sink

    def _filter(self, config: TriggerConfig | BridgeConfig, owner: str) -> Filter:
        if config.filters:
            built = [self._make(ref, f"{owner}.filters[{i}]") for i, ref in enumerate(config.filters)]
            return filters.all_of(built)
        if isinstance(config, TriggerConfig) and config.filter:
            return filters.attributes_filter(config.filter)
        return filters.match_all()

    def _trigger(self, name: str, config: TriggerConfig, broker: Broker) -> Trigger | ReadingTrigger:
        owner = f"triggers.{name}"
        wanted = self._filter(config, owner)
        names = {"broker": broker.name, "trigger": name}
        sink = self._make(config.subscriber, f"{owner}.subscriber", wants_reply=True, **names)
        from_start = config.start == "earliest"
        if isinstance(sink, ReadingSink):
            options = {"attributes": dict(config.filter), "filters": [{r.name: r.raw} for r in config.filters]}
            return ReadingTrigger(name, broker, wanted, sink, from_start, options)
        self._kept(sink)
        dead_letter = broker.dead_letter
        if config.dead_letter is not None:
            dead_letter = self._dead_letter(config.dead_letter, f"{owner}.dead_letter", **names)
        policy = effective_delivery(self._config.brokers[broker.name].delivery, config.delivery)
        policy = _with_window(policy, sink)
        subscription = Subscription(
            name,
            sink,
            policy,
            self._clock,
            dead_letter=dead_letter,
            publish=broker.accept,
            budget=self._budget,
            observers=self._built.observers,
            lane_of=self._lane_of(policy, owner, **names),
        )
        return Trigger(name, broker, wanted, subscription, dead_letter, from_start)

    def _lane_of(self, policy: DeliveryConfig, owner: str, **changes: Any) -> LaneOf | None:
        if policy.order == "unordered":
            return None
        if policy.order == "partition":
            return lanes.of_partition
        if policy.order_key is None:
            return lanes.of_key
        mapper: LaneOf = self._make(policy.order_key, f"{owner}.delivery.order_key", **changes)
        return mapper

    def _bridge(self, name: str, config: BridgeConfig) -> Bridged:
        owner = f"bridges.{name}"
        source = self._make(config.source, f"{owner}.source", broker=name)
        pulls = getattr(source, "pulls", False)
        policy = effective_delivery(
            DeliveryConfig() if pulls else BridgeConfig.model_fields["delivery"].default, config.delivery
        )
        wanted = self._filter(config, owner) if config.filters else None
        bridge = Bridge(name, wanted, self._built.observers)
        dead_letter = None
        if config.dead_letter is not None:
            dead_letter = self._dead_letter(config.dead_letter, f"{owner}.dead_letter", broker=name)
            bridge.letters = Letters(name, dead_letter, self._clock, self._built.observers)
        sink = self._kept(self._make(config.sink, f"{owner}.sink", broker=name))
        policy = _with_window(policy, sink)
        bridge.subscription = Subscription(
            name,
            sink,
            policy,
            self._clock,
            dead_letter=dead_letter,
            give_back=None if pulls else bridge.give_back,
            budget=self._budget,
            observers=self._built.observers,
            lane_of=self._lane_of(policy, owner, broker=name),
        )
        bridge.subscription.feed = bridge
        return Bridged(name, bridge, source, dead_letter)


def _with_window(policy: DeliveryConfig, sink: Sink) -> DeliveryConfig:
    """The policy with as many attempts at once as serve this sink best, where the config does not say."""
    most = getattr(sink, "in_flight", None)
    if most is None or "max_in_flight" in policy.model_fields_set:
        return policy
    return policy.model_copy(update={"max_in_flight": most})
