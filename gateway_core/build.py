"""From a config to objects: every broker, trigger and bridge with its components, wired but not started."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from . import filters
from .bridge import Bridge
from .broker import Broker, ReadingTrigger, Trigger
from .clock import Clock
from .component import BuildContext, ComponentRef
from .config.check import effective_delivery
from .config.model import BridgeConfig, DeliveryConfig, GatewayConfig, TriggerConfig
from .delivery import Budget, Subscription, lanes
from .delivery.burials import Letters
from .delivery.lanes import LaneOf
from .guards import FilterGuard, GuardedObserver
from .intake import Inlet
from .interfaces import Filter, ReadingSink, Send, Sink
from .meter import Meter
from .registry import Registry
from .settings import Settings
from .spans import Tracing
from .status import Earlier


@dataclass(slots=True)
class Bridged:
    """A bridge with its ends; `sinks` are those to start and stop with it."""

    name: str
    bridge: Bridge
    inlet: Inlet
    dead_letter: Sink | None
    sinks: list[Sink]
    meter: Meter | None = None


@dataclass(slots=True)
class Built:
    """Everything that a gateway runs."""

    brokers: dict[str, Broker] = field(default_factory=dict)
    triggers: dict[str, Trigger | ReadingTrigger] = field(default_factory=dict)
    orphans: dict[str, TriggerConfig] = field(default_factory=dict)  # triggers whose broker does not exist
    bridges: dict[str, Bridged] = field(default_factory=dict)
    observers: tuple[GuardedObserver, ...] = ()
    earlier: Earlier = field(default_factory=Earlier)


class Builder:
    """Builds one worker's share of a gateway."""

    def __init__(
        self, config: GatewayConfig, settings: Settings, registry: Registry, clock: Clock, worker: int = 0
    ) -> None:
        self._config = config
        self._clock = clock
        self._registry = registry
        self._budget = Budget()
        self._metrics = settings.metrics
        self._built = Built()
        self._tracing = Tracing(None)
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
        built.observers = tuple(self._observer(ref, i) for i, ref in enumerate(self._config.observers))
        self._tracing = Tracing(next((o.tracer for o in built.observers if o.tracer is not None), None))
        self._context = replace(self._context, traces=self._tracing.on)
        for name in self._config.brokers:
            built.brokers[name] = self.broker(name)
        for name, trigger in self._config.triggers.items():
            if trigger.broker in built.brokers:
                built.triggers[name] = self.trigger(name, built.brokers[trigger.broker])
            else:
                built.orphans[name] = trigger
        for name in self._config.bridges:
            built.bridges[name] = self.bridge(name)
        return built

    def renewed(self, config: GatewayConfig) -> Builder:
        """A builder for another config of the same gateway, with the same observers and bounds."""
        other = copy(self)
        other._config = config
        return other

    def _make(self, ref: ComponentRef, owner: str, **changes: Any) -> Any:
        return self._registry.build(ref, replace(self._context, owner=owner, **changes))

    def _observer(self, ref: ComponentRef, number: int) -> GuardedObserver:
        owner = f"observers[{number}]"
        before = [other.name for other in self._config.observers[:number]]
        name = f"{ref.name}#{number}" if ref.name in before else ref.name  # a metric's label: unique
        return GuardedObserver(self._make(ref, owner), name, f"{owner} ({ref.name})")

    def _meter(self) -> Meter | None:
        return Meter(self._clock) if self._metrics else None

    def broker(self, name: str) -> Broker:
        """One broker of the config."""
        config, owner = self._config.brokers[name], f"brokers.{name}"
        channel = self._make(config.channel, f"{owner}.channel", broker=name)
        broker = Broker(name, config.channel.name, channel, *self.letters(name), self._built.observers, self._meter())
        broker.inlets = [self.inlet(broker, i) for i in range(len(config.ingress))]
        return broker

    def letters(self, name: str) -> tuple[Sink, Letters]:
        """A broker's dead letter."""
        sink = self._make(self._config.brokers[name].dead_letter, f"brokers.{name}.dead_letter", broker=name)
        traced = self._tracing.dead_letter(sink, name, name)
        return sink, Letters(name, traced, self._clock, self._built.observers)

    def inlet(self, broker: Broker, number: int) -> Inlet:
        """One of a broker's ways in."""
        ref = self._config.brokers[broker.name].ingress[number]
        owner = f"brokers.{broker.name}.ingress[{number}]"
        source = self._make(ref, owner, broker=broker.name)
        return Inlet(ref, source, self._tracing.door(broker, broker.name, ref.name, source), owner)

    def _filter(self, config: TriggerConfig | BridgeConfig, owner: str) -> tuple[Filter, FilterGuard | None]:
        """The filter, and the guard around those that plugins bring."""
        if config.filters:
            built = [self._make(ref, f"{owner}.filters[{i}]") for i, ref in enumerate(config.filters)]
            guard = FilterGuard(filters.all_of(built), f"{owner}.filters")
            return guard.filter, guard
        if isinstance(config, TriggerConfig) and config.filter:
            return filters.attributes_filter(config.filter), None
        return filters.match_all(), None

    def trigger(self, name: str, broker: Broker, letters: Sink | None = None) -> Trigger | ReadingTrigger:
        """One trigger of the config. `letters` is the dead letter that its broker will have, where that changes."""
        config, owner = self._config.triggers[name], f"triggers.{name}"
        wanted, guard = self._filter(config, owner)
        names = {"broker": broker.name, "trigger": name}
        sink = self._make(config.subscriber, f"{owner}.subscriber", wants_reply=True, **names)
        from_start = config.start == "earliest"
        if isinstance(sink, ReadingSink):
            options = {"attributes": dict(config.filter), "filters": [{r.name: r.raw} for r in config.filters]}
            return ReadingTrigger(name, broker, wanted, sink, from_start, options, guard)
        sinks = [sink]
        dead_letter = letters or broker.dead_letter
        if config.dead_letter is not None:
            dead_letter = self._make(config.dead_letter, f"{owner}.dead_letter", **names)
            sinks.append(dead_letter)
        policy = effective_delivery(self._config.brokers[broker.name].delivery, config.delivery)
        policy = _with_window(policy, sink)
        meter = self._meter()
        subscription = Subscription(
            name,
            sink,
            policy,
            self._clock,
            dead_letter=self._tracing.dead_letter(dead_letter, name, broker.name),
            publish=self._tracing.replies(broker.name, broker.publish),
            budget=self._budget,
            observers=self._built.observers,
            lane_of=self._lane_of(policy, owner, **names),
            send=self._tracing.send(_timed(sink.send, meter), sink, name, broker.name),
            filter=guard,
        )
        return Trigger(name, broker, wanted, subscription, dead_letter, from_start, sinks, meter)

    def _lane_of(self, policy: DeliveryConfig, owner: str, **changes: Any) -> LaneOf | None:
        if policy.order == "unordered":
            return None
        if policy.order == "partition":
            return lanes.of_partition
        if policy.order_key is None:
            return lanes.of_key
        mapper: LaneOf = self._make(policy.order_key, f"{owner}.delivery.order_key", **changes)
        return mapper

    def bridge(self, name: str, inlet: Inlet | None = None) -> Bridged:
        """One bridge of the config, with a source of its own or an inlet that is there already (which does not lead to
        it yet)."""
        config, owner = self._config.bridges[name], f"bridges.{name}"
        source = inlet.source if inlet else self._make(config.source, f"{owner}.source", broker=name)
        pulls = getattr(source, "pulls", False)
        policy = DeliveryConfig() if pulls else BridgeConfig.model_fields["delivery"].default
        if "delivery" in config.model_fields_set:  # else it is the default, which holds for sources that can't wait
            policy = effective_delivery(policy, config.delivery)
        wanted, guard = self._filter(config, owner) if config.filters else (None, None)
        meter = self._meter()
        bridge = Bridge(name, wanted, self._built.observers)
        dead_letter = None
        if config.dead_letter is not None:
            dead_letter = self._make(config.dead_letter, f"{owner}.dead_letter", broker=name)
            traced = self._tracing.dead_letter(dead_letter, name, name)
            bridge.letters = Letters(name, traced, self._clock, self._built.observers)
        sink = self._make(config.sink, f"{owner}.sink", broker=name)
        policy = _with_window(policy, sink)
        bridge.subscription = Subscription(
            name,
            sink,
            policy,
            self._clock,
            dead_letter=self._tracing.dead_letter(dead_letter, name, name) if dead_letter else None,
            give_back=None if pulls else bridge.give_back,
            budget=self._budget,
            observers=self._built.observers,
            lane_of=self._lane_of(policy, owner, broker=name),
            send=self._tracing.send(_timed(sink.send, meter), sink, name, name),
            what="bridge",
            filter=guard,
        )
        bridge.subscription.feed = bridge
        sinks = [sink] if dead_letter is None else [sink, dead_letter]
        door = self._tracing.door(bridge, name, config.source.name, source)
        inlet = inlet or Inlet(config.source, source, door, f"{owner}.source")
        return Bridged(name, bridge, inlet, dead_letter, sinks, meter)


def _timed(send: Send, meter: Meter | None) -> Send:
    return send if meter is None else meter.sending(send)


def _with_window(policy: DeliveryConfig, sink: Sink) -> DeliveryConfig:
    """The policy with as many attempts at once as serve this sink best, where the config does not say, and no more than
    it can have under way: an attempt that only waits for a connection would use up its time, and a try, for nothing."""
    wanted = policy.max_in_flight
    if "max_in_flight" not in policy.model_fields_set:
        wanted = getattr(sink, "in_flight", None) or wanted
    most = getattr(sink, "most_in_flight", None)
    return policy.model_copy(update={"max_in_flight": min(wanted, most) if most else wanted})
