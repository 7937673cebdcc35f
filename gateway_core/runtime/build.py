"""Builds the objects of a config: every broker, trigger and bridge with its components, connected but not started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from ..config.registry import Registry
from ..contract import filters
from ..contract.capabilities import (
    Deduplicates,
    DelayingChannel,
    Gathering,
    LimitingInFlight,
    TellsHeaders,
    offers,
    pulls,
)
from ..contract.clock import Clock
from ..contract.component import BuildContext, ComponentRef, SourceRef
from ..contract.config_model import BridgeConfig, DeliveryConfig, GatewayConfig, StartSince, TriggerConfig
from ..contract.config_node import Place, dotted
from ..contract.deduplicate_config import DeduplicateConfig, key_headers
from ..contract.errors import StartError
from ..contract.event_data import UnreadableData
from ..contract.filter_guard import FilterGuard
from ..contract.interfaces import Admission, Filter, ReadingSink, Sink
from ..contract.owner import Owner
from ..contract.settings import Settings
from ..contract.start_position import EARLIEST, LATEST, StartPosition
from ..contract.tracing import Tracer
from ..delivery import Budget, Subscription, deliveries
from ..delivery.dead_letter import DeadLetterWriter
from ..delivery.deliveries import OrderKeyOf
from ..delivery.due import due_of
from ..pipeline import compose
from ..pipeline.bridge import Bridge, Bridged
from ..pipeline.broker import Broker, ReadingTrigger, Trigger
from ..pipeline.guards import GuardedObserver
from ..pipeline.intake import BoundSource, SwitchableIntake
from ..pipeline.metering import Meter
from .durable_names import ConfigNames


@dataclass(frozen=True, slots=True)
class Built:
    """Everything that a gateway runs (`contract.topology.Topology`). It never changes: a reload makes another one."""

    brokers: Mapping[str, Broker] = field(default_factory=dict)
    triggers: Mapping[str, Trigger | ReadingTrigger] = field(default_factory=dict)
    orphans: Mapping[str, TriggerConfig] = field(default_factory=dict)  # triggers whose broker does not exist
    bridges: Mapping[str, Bridged] = field(default_factory=dict)
    observers: tuple[GuardedObserver, ...] = ()

    def bound_sources(self) -> Iterator[BoundSource]:
        """The sources of all brokers and bridges."""
        for broker in self.brokers.values():
            yield from broker.bound_sources
        for bridged in self.bridges.values():
            yield bridged.bound_source

    def subscriptions(self) -> Iterator[Subscription]:
        """Those of all triggers and bridges that deliver."""
        for trigger in self.triggers.values():
            if isinstance(trigger, Trigger):
                yield trigger.subscription
        for bridged in self.bridges.values():
            yield bridged.bridge.subscription


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
        self._observers: tuple[GuardedObserver, ...] = ()
        self._tracer: Tracer | None = None
        self._context = BuildContext(
            owner="",
            data_dir=settings.data_dir.absolute(),
            clock=clock,
            registry=registry,
            worker=worker,
            workers=settings.workers,
        )
        self.names = self._named()

    def build(self) -> Built:
        """Raises `StartError` with the path in the config if a component can't be built."""
        self._observers = tuple(self._observer(ref, i) for i, ref in enumerate(self._config.observers))
        self._tracer = next((o.tracer for o in self._observers if o.tracer is not None), None)
        self._context = replace(self._context, traces=self._tracer is not None)
        brokers = {name: self.broker(name) for name in self._config.brokers}
        wanted = self._config.triggers.items()
        triggers = {name: self.trigger(name, brokers[of.broker]) for name, of in wanted if of.broker in brokers}
        orphans = {name: of for name, of in wanted if of.broker not in brokers}
        bridges = {name: self.bridge(name) for name in self._config.bridges}
        return Built(brokers, triggers, orphans, bridges, self._observers)

    def _named(self) -> ConfigNames:
        names = ConfigNames(self._config, self._registry, self._context.data_dir)
        self._context = replace(self._context, names=names.by_place())
        return names

    def renewed(self, config: GatewayConfig) -> Builder:
        """A builder for another config of the same gateway, with the same observers and bounds."""
        other = copy(self)
        other._config = config
        other.names = other._named()
        return other

    def _make(self, ref: ComponentRef, place: Place, **changes: Any) -> Any:
        return self._registry.build(ref, replace(self._context, **{"owner": dotted(place), "place": place, **changes}))

    def _observer(self, ref: ComponentRef, number: int) -> GuardedObserver:
        place = ("observers", number)
        before = [other.name for other in self._config.observers[:number]]
        name = f"{ref.name}#{number}" if ref.name in before else ref.name  # unique, because it labels metrics
        return GuardedObserver(self._make(ref, place), name, f"{dotted(place)} ({ref.name})")

    def _meter(self) -> Meter | None:
        return Meter(self._clock) if self._metrics else None

    def broker(self, name: str) -> Broker:
        """One broker of the config."""
        config, place = self._config.brokers[name], ("brokers", name)
        channel = self._make(config.channel, (*place, "channel"), broker=name)
        if config.deduplicate is not None:
            self._deduplicate(channel, config.channel.name, config.deduplicate, (*place, "deduplicate"))
        sink, traced = self.dead_letter(name)
        dead_letters = DeadLetterWriter("broker", name, traced, self._clock, self._observers)
        broker = Broker(
            name,
            config.channel.name,
            channel,
            sink,
            dead_letters,
            self._observers,
            self._meter(),
            deduplicates=config.deduplicate is not None,
        )
        broker.bound_sources = [self.bound_source(broker, i) for i in range(len(config.ingress))]
        return broker

    def _deduplicate(self, channel: Any, word: str, config: DeduplicateConfig, place: Place) -> None:
        if not offers(channel, Deduplicates):
            able = [
                f"`{offer.component.name}`"
                for offer in self._registry.offers("channel")
                if offer.component.guarantees is not None and offer.component.guarantees.deduplicates == "yes"
            ]
            raise StartError(
                f"{dotted(place)}: the channel `{word}` can't deduplicate; those that can: {', '.join(able) or 'none'}"
            )
        try:
            channel.deduplicate(config)
        except StartError as e:
            raise StartError(f"{dotted(place)}: {e}") from e

    def dead_letter(self, name: str) -> tuple[Sink, Sink]:
        """A broker's dead letter, without and with tracing."""
        sink = self._make(self._config.brokers[name].dead_letter, ("brokers", name, "dead_letter"), broker=name)
        return sink, compose.giving_up(sink, name, name, self._tracer)

    def bound_source(self, broker: Broker, number: int) -> BoundSource:
        """One of a broker's sources."""
        ref = self._config.brokers[broker.name].ingress[number]
        place = ("brokers", broker.name, "ingress", number)
        owner = Owner(dotted(place))
        source = self._make(ref, place, broker=broker.name, owner=owner)
        once = self._config.brokers[broker.name].deduplicate
        if once is not None and (headers := key_headers(once.key)):
            if not offers(source, TellsHeaders):
                raise StartError(
                    f"{dotted(place)}: `{ref.name}` has no headers of requests, and the key of `deduplicate` needs"
                    f" {b', '.join(headers).decode()}: let the key name attributes only, or give this source a broker"
                    " of its own"
                )
            source.tell_headers(headers)
        traced = compose.traced_source(self._tracer, broker.name, ref.name, source)
        intake = SwitchableIntake(broker, traced, self.admissions(ref, place, broker.name))
        return BoundSource(ref, source, intake, owner)

    def admissions(self, ref: SourceRef, place: Place, broker: str) -> list[Admission]:
        """What the events of a source of this broker or bridge must fulfil."""
        context = replace(self._context, owner=dotted(place), place=place, broker=broker)
        found = [made(self._config, ref, context) for made in self._registry.admissions]
        return [admission for admission in found if admission is not None]

    def _filter(self, config: TriggerConfig | BridgeConfig, place: Place) -> tuple[Filter, FilterGuard | None]:
        """The filter, and its guard if it comes from plugins."""
        if config.filters:
            unreadable = UnreadableData()
            built = [
                self._make(ref, (*place, "filters", i), unreadable=unreadable) for i, ref in enumerate(config.filters)
            ]
            guard = FilterGuard(filters.all_of(built), dotted((*place, "filters")), unreadable=unreadable)
            return guard.filter, guard
        if isinstance(config, TriggerConfig) and config.filter:
            return filters.attributes_filter(config.filter), None
        return filters.match_all(), None

    def trigger(self, name: str, broker: Broker, dead_letter: Sink | None = None) -> Trigger | ReadingTrigger:
        """One trigger of the config. `dead_letter` is the new one of its broker, if that changes."""
        config, place = self._config.triggers[name], ("triggers", name)
        wanted, guard = self._filter(config, place)
        names = {"broker": broker.name, "trigger": name}
        sink = self._make(config.subscriber, (*place, "subscriber"), wants_reply=True, **names)
        start = _start_position(config, self._clock)
        if (config.delay or config.deliver_at) and (
            offers(sink, ReadingSink) or not offers(broker.channel, DelayingChannel)
        ):
            what = "a subscriber that reads the channel itself" if offers(sink, ReadingSink) else "this channel"
            raise StartError(f"triggers.{name}: {what} can't delay events: use a broker with the channel `log`")
        if offers(sink, ReadingSink):
            options = {"attributes": dict(config.filter), "filters": [{r.name: r.raw} for r in config.filters]}
            return ReadingTrigger(name, broker, wanted, sink, start, options, guard)
        sinks = [sink]
        dead_letter = dead_letter or broker.dead_letter
        if config.dead_letter is not None:
            dead_letter = self._make(config.dead_letter, (*place, "dead_letter"), **names)
            sinks.append(dead_letter)
        policy = config.delivery.over(self._config.brokers[broker.name].delivery)
        policy = _with_window(policy, sink)
        meter = self._meter()
        subscription = Subscription(
            name,
            sink,
            policy,
            self._clock,
            dead_letter=compose.giving_up(dead_letter, name, broker.name, self._tracer),
            publish=compose.replying(broker.name, broker.reply, tracer=self._tracer),
            budget=self._budget,
            observers=self._observers,
            order_key_of=self._order_key_of(policy, place, **names),
            send=compose.sending(sink, name, broker.name, meter=meter, tracer=self._tracer),
            filter=guard,
            broker=broker.name,
        )
        attribute = config.deliver_at.attribute if config.deliver_at is not None else None
        due = due_of(config.delay, attribute, guard.undecided if guard is not None else ())
        return Trigger(name, broker, wanted, subscription, dead_letter, start, sinks, meter, due)

    def _order_key_of(self, policy: DeliveryConfig, place: Place, **changes: Any) -> OrderKeyOf | None:
        if policy.order == "unordered":
            return None
        if policy.order == "partition":
            return deliveries.of_partition
        if policy.order_key is None:
            return deliveries.of_key
        mapper: OrderKeyOf = self._make(policy.order_key, (*place, "delivery", "order_key"), **changes)
        return mapper

    def bridge(self, name: str, bound_source: BoundSource | None = None) -> Bridged:
        """One bridge of the config. It gets a new source, or the given one, which does not yet feed this bridge."""
        config, place = self._config.bridges[name], ("bridges", name)
        source = bound_source.source if bound_source else self._make(config.source, (*place, "source"), broker=name)
        fetched = pulls(source)
        policy = DeliveryConfig() if fetched else BridgeConfig.model_fields["delivery"].default
        if "delivery" in config.model_fields_set:  # else it is the default for sources that can't wait
            policy = config.delivery.over(policy)
        wanted, guard = self._filter(config, place) if config.filters else (None, None)
        meter = self._meter()
        bridge = Bridge(name, wanted, self._observers)
        dead_letter = None
        if config.dead_letter is not None:
            dead_letter = self._make(config.dead_letter, (*place, "dead_letter"), broker=name)
        sink = self._make(config.sink, (*place, "sink"), broker=name)
        policy = _with_window(policy, sink)
        if policy.hold_while_down and not fetched:  # nothing is held for senders that wait
            policy = policy.model_copy(update={"hold_while_down": False})
        bridge.sender_waits = not fetched
        bridge.subscription = Subscription(
            name,
            sink,
            policy,
            self._clock,
            dead_letter=compose.giving_up(dead_letter, name, name, self._tracer) if dead_letter else None,
            give_back=None if fetched else bridge.give_back,
            left=None if fetched else bridge.left,
            budget=self._budget,
            observers=self._observers,
            order_key_of=self._order_key_of(policy, place, broker=name),
            send=compose.sending(sink, name, name, meter=meter, tracer=self._tracer),
            what="bridge",
            filter=guard,
        )
        bridge.subscription.feed = bridge
        sinks = [sink] if dead_letter is None else [sink, dead_letter]
        traced = compose.traced_source(self._tracer, name, config.source.name, source)
        intake = SwitchableIntake(bridge, traced, self.admissions(config.source, (*place, "source"), name))
        bound_source = bound_source or BoundSource(config.source, source, intake, dotted((*place, "source")))
        return Bridged(name, bridge, bound_source, dead_letter, sinks, meter)


def _start_position(config: TriggerConfig, clock: Clock) -> StartPosition:
    """Where the trigger begins if its channel does not know it yet."""
    if isinstance(config.start, StartSince):
        return StartPosition.at_time(config.start.time_ns(clock.now_ns()))
    return EARLIEST if config.start == "earliest" else LATEST


def _with_window(policy: DeliveryConfig, sink: Sink) -> DeliveryConfig:
    """The policy with the number of concurrent attempts that suits this sink, unless the config sets one, but never
    more than the sink can have under way: an attempt that waits for a connection would waste its time, and a try."""
    wanted = policy.max_in_flight
    if "max_in_flight" not in policy.model_fields_set and offers(sink, Gathering):
        wanted = sink.in_flight or wanted
    most = sink.most_in_flight if offers(sink, LimitingInFlight) else None
    wanted = min(wanted, most) if most else wanted
    return policy if wanted == policy.max_in_flight else policy.model_copy(update={"max_in_flight": wanted})
