"""The replacement of a running gateway's config by another one: only what changed is restarted.

`plan` finds the changes without applying them; `Replacement` applies them to a draft of what runs. A changed trigger
passes its cursor to its successor; an unchanged source stays open, and feeds whatever is behind it then.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ..contract.capabilities import Retains, pulls
from ..contract.component_errors import text_of_error
from ..contract.config_model import GatewayConfig, TriggerConfig
from ..contract.config_node import Place, dotted
from ..contract.errors import ConfigError, Fault, StartError
from ..contract.interfaces import Admission, Sink
from ..contract.owner import Owner
from ..contract.status import Entry
from ..contract.tasks import quietly
from ..pipeline.bridge import Bridged
from ..pipeline.broker import Broker, ReadingTrigger, Trigger
from ..pipeline.intake import BoundSource
from .build import Builder, Built
from .parts import Parts
from .rotation import only_secrets_differ
from .status import bridge_status

log = logging.getLogger("tidegate.reload")


Names = Mapping[str, list[str]]


@dataclass(frozen=True)
class Changes:
    """Names that are `added`, `removed` or `changed`. A changed broker keeps its channel, and gets other sources or
    another dead letter. `sections` of plugins that differ change what sources admit."""

    brokers: Names
    triggers: Names
    bridges: Names
    sections: Sequence[str] = ()

    def __bool__(self) -> bool:
        kinds = (self.brokers, self.triggers, self.bridges)
        return bool(self.sections) or any(names for kind in kinds for names in kind.values())

    def __str__(self) -> str:
        told = [
            f"{what} {kind} {', '.join(names)}"
            for kind, section in (("brokers", self.brokers), ("triggers", self.triggers), ("bridges", self.bridges))
            for what, names in section.items()
            if names
        ]
        return "; ".join([*told, *(f"changed section {name}" for name in self.sections)])


def plan(old: GatewayConfig, new: GatewayConfig) -> Changes:
    """The changes. Raises `ConfigError` for those that need a restart."""
    _check_possible(old, new)
    brokers, triggers = _compared(old.brokers, new.brokers), _compared(old.triggers, new.triggers)
    begun = [*brokers["added"], *brokers["removed"]]
    for name in old.triggers.keys() & new.triggers.keys() - {*triggers["changed"]}:
        trigger = new.triggers[name]
        if trigger.broker in begun or (trigger.broker in brokers["changed"] and _differs(trigger, old, new)):
            triggers["changed"].append(name)
    sections = [name for name in new.sections if old.section(name) != new.section(name)]
    return Changes(brokers, triggers, _compared(old.bridges, new.bridges), sections)


def _check_possible(old: GatewayConfig, new: GatewayConfig) -> None:
    faults = []
    for name in old.triggers.keys() & new.triggers.keys():
        was, wanted = old.triggers[name].broker, new.triggers[name].broker
        if was != wanted:  # Knative Broker specification, Trigger: the broker is immutable
            text = f"the broker of a trigger can't be changed (it is `{was}`, not `{wanted}`)"
            faults.append(Fault(text, f"triggers.{name}.broker", remedy="remove it and add it under another name"))
    for name in old.brokers.keys() & new.brokers.keys():
        if not only_secrets_differ(old.brokers[name].channel, new.brokers[name].channel):
            text = "the channel of a broker can't be changed while the gateway runs: its events stay where they are"
            faults.append(Fault(text, f"brokers.{name}.channel", remedy="restart the gateway once they are delivered"))
        if old.brokers[name].deduplicate != new.brokers[name].deduplicate:
            text = "how a broker deduplicates can't be changed while the gateway runs"
            faults.append(Fault(text, f"brokers.{name}.deduplicate", remedy="restart the gateway"))
    if not only_secrets_differ(old.observers, new.observers):
        faults.append(Fault("observers can't be changed while the gateway runs", "observers", remedy="restart it"))
    if faults:
        raise ConfigError(faults)


def _compared(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, list[str]]:
    return {
        "added": [n for n in new if n not in old],
        "removed": [n for n in old if n not in new],
        "changed": [n for n in new if n in old and old[n] != new[n]],
    }


def _differs(trigger: TriggerConfig, old: GatewayConfig, new: GatewayConfig) -> bool:
    """Whether a trigger inherits something from its broker that changed."""
    was, now = old.brokers[trigger.broker], new.brokers[trigger.broker]
    if trigger.dead_letter is None and was.dead_letter != now.dead_letter:
        return True
    return trigger.delivery.over(was.delivery) != trigger.delivery.over(now.delivery)


@dataclass
class Fresh:
    """What is built for the new config before the old one is changed."""

    brokers: dict[str, Broker] = field(default_factory=dict)
    bound_sources: dict[str, list[BoundSource]] = field(default_factory=dict)  # of changed brokers, with kept ones
    dead_letters: dict[str, tuple[Sink, Sink]] = field(default_factory=dict)  # without and with tracing
    triggers: dict[str, Trigger | ReadingTrigger] = field(default_factory=dict)
    bridges: dict[str, Bridged] = field(default_factory=dict)
    admissions: list[tuple[BoundSource, list[Admission]]] = field(default_factory=list)  # of the sources that run


class Draft:
    """What runs while a replacement is under way. `built` makes of it what the gateway runs afterwards."""

    def __init__(self, before: Built) -> None:
        self.brokers = dict(before.brokers)
        self.triggers = dict(before.triggers)
        self.bridges = dict(before.bridges)
        self._before = before

    def built(self, wanted: Mapping[str, TriggerConfig]) -> Built:
        """As of now; of the `wanted` triggers, those that do not run have no broker."""
        triggers = dict(self.triggers)
        orphans = {name: config for name, config in wanted.items() if name not in triggers}
        return Built(dict(self.brokers), triggers, orphans, dict(self.bridges), self._before.observers)


class Replacement:
    """One change from a config to the next. `counted` is what parts that ended had counted, by section."""

    def __init__(
        self,
        parts: Parts,
        builder: Builder,
        before: Built,
        old: GatewayConfig,
        new: GatewayConfig,
        stopping: Callable[[], bool],
    ) -> None:
        """Raises `ConfigError` or `StartError` without changing anything. Once the gateway is `stopping`, no more parts
        are replaced."""
        self.changes = plan(old, new)
        self.builder = builder.renewed(new)
        self.failed: dict[Place, str] = {}  # what could not be started
        self.counted: list[tuple[str, Entry]] = []
        self._parts = parts
        self._before = before
        self._draft = Draft(before)
        self._old = old
        self._new = new
        self._stopping = stopping
        self._fresh = self._build()

    def built(self) -> Built:
        """What runs now."""
        return self._draft.built(self._new.triggers)

    def kept(self) -> Built:
        """What ran before, without what the new config does not have."""
        before, new = self._before, self._new
        return replace(
            before,
            brokers={n: part for n, part in before.brokers.items() if n in new.brokers},
            triggers={n: part for n, part in before.triggers.items() if n in new.triggers},
            bridges={n: part for n, part in before.bridges.items() if n in new.bridges},
        )

    def _build(self) -> Fresh:
        changes, builder, built, fresh = self.changes, self.builder, self._draft, Fresh()
        fresh.admissions = list(self._admissions())
        for name in changes.brokers["added"]:
            fresh.brokers[name] = builder.broker(name)
        for name in changes.brokers["changed"]:
            broker = built.brokers[name]
            if self._old.brokers[name].dead_letter != self._new.brokers[name].dead_letter:
                fresh.dead_letters[name] = builder.dead_letter(name)
            kept = {
                i: bound_source
                for bound_source in broker.bound_sources
                if (i := self._place(bound_source, name)) is not None
            }
            wanted = range(len(self._new.brokers[name].ingress))
            fresh.bound_sources[name] = [kept.get(i) or builder.bound_source(broker, i) for i in wanted]
        for name in (*changes.triggers["added"], *changes.triggers["changed"]):
            owner = self._new.triggers[name].broker
            found = fresh.brokers.get(owner) or built.brokers.get(owner)
            if found is not None and owner in self._new.brokers:
                dead_letter = fresh.dead_letters.get(owner)
                fresh.triggers[name] = builder.trigger(name, found, dead_letter[0] if dead_letter else None)
        for name in (*changes.bridges["added"], *changes.bridges["changed"]):
            before = built.bridges.get(name)
            same = before is not None and before.bound_source.ref == self._new.bridges[name].source
            if before is not None and pulls(before.bound_source.source):
                same = False  # it starts once the old bridge has settled everything
            fresh.bridges[name] = builder.bridge(name, before.bound_source if before is not None and same else None)
        return fresh

    def _admissions(self) -> Iterator[tuple[BoundSource, list[Admission]]]:
        make = self.builder.admissions
        for name in self._draft.brokers.keys() & self._new.brokers.keys():
            for before, bound_source in enumerate(self._draft.brokers[name].bound_sources):
                i = self._place(bound_source, name)
                found = make(bound_source.ref, ("brokers", name, "ingress", before if i is None else i), name)
                if i is None:  # until it is stopped: the new policies alone rely on another gate
                    found = [*bound_source.intake.admissions, *found]
                yield bound_source, found
        for name in self._draft.bridges.keys() & self._new.bridges.keys():
            bound_source = self._draft.bridges[name].bound_source
            if bound_source.ref == self._new.bridges[name].source:
                yield bound_source, make(bound_source.ref, ("bridges", name, "source"), name)

    def _place(self, bound_source: BoundSource, broker: str) -> int | None:
        refs = self._new.brokers[broker].ingress
        return refs.index(bound_source.ref) if bound_source.ref in refs else None

    # -- doing it ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Applies the changes. `failed` lists what can't be started; the rest runs, whatever a part raises. Channels
        delete no events meanwhile, because triggers that are replaced are detached for a while."""
        channels = {name: b.channel for name, b in self._draft.brokers.items() if isinstance(b.channel, Retains)}
        for channel in channels.values():
            channel.hold(None)
        try:
            await self._apply()
        finally:
            for name, channel in channels.items():
                if name in self._draft.brokers:
                    channel.hold({n for n, trigger in self._new.triggers.items() if trigger.broker == name})

    async def _apply(self) -> None:
        for bound_source, admissions in self._fresh.admissions:  # first: what is closed must not wait
            bound_source.intake.switch_to(bound_source.intake.target, admissions)
        for name in self.changes.brokers["changed"]:
            await self._hand_over(name)
        await self._close_unwanted()
        for change in self._in_order():
            if self._stopping():
                return
            await change()

    def _in_order(self) -> Iterator[Callable[[], Awaitable[Any]]]:
        """What is to be done, in an order that loses nothing: everything else ends before its successor starts."""
        changes, fresh = self.changes, self._fresh
        yield from (partial(self._end_bridge, name) for name in changes.bridges["removed"])
        ended = (*changes.triggers["removed"], *changes.triggers["changed"])
        yield from (partial(self._end_trigger, name) for name in ended)
        yield from (partial(self._end_broker, name) for name in changes.brokers["removed"])
        yield from (partial(self._stop_fetching, name) for name in changes.brokers["changed"])
        altered = changes.brokers["changed"]
        yield from (partial(self._tried, ("brokers", name), self._alter, name) for name in altered)
        yield from (partial(self._begin_broker, broker) for broker in fresh.brokers.values())
        for name, trigger in fresh.triggers.items():
            if trigger.broker.name not in fresh.brokers:
                yield partial(self._tried, ("triggers", name), self._start_trigger, trigger)
        for name, bridged in fresh.bridges.items():
            yield partial(self._tried, ("bridges", name), self._start_bridge, bridged)

    async def _end_bridge(self, name: str) -> None:
        if (bridged := self._draft.bridges.get(name)) is not None:
            await quietly(partial(self._parts.retire_bridge, bridged, with_source=True))
            del self._draft.bridges[name]

    async def _end_trigger(self, name: str) -> None:
        if (trigger := self._draft.triggers.get(name)) is not None:
            await quietly(partial(self._parts.retire, trigger))
            del self._draft.triggers[name]
            self.counted.append(("triggers", trigger.status()))

    async def _end_broker(self, name: str) -> None:
        if (broker := self._draft.brokers.get(name)) is not None:
            await quietly(partial(self._parts.retire_broker, broker))
            del self._draft.brokers[name]

    async def _begin_broker(self, broker: Broker) -> None:
        if not await self._tried(("brokers", broker.name), self._open_broker, broker):
            await self._abandon(broker)

    def reached(self) -> GatewayConfig:
        """The config that now runs: the new one without what failed, so that the next reload retries it."""
        new = self._new

        def left(section: str, entries: Mapping[str, Any]) -> dict[str, Any]:
            return {name: entry for name, entry in entries.items() if (section, name) not in self.failed}

        brokers = left("brokers", new.brokers)
        for name, broker in brokers.items():
            ingress = [r for i, r in enumerate(broker.ingress) if ("brokers", name, "ingress", i) not in self.failed]
            brokers[name] = broker.model_copy(update={"ingress": ingress})
        triggers, bridges = left("triggers", new.triggers), left("bridges", new.bridges)
        return new.model_copy(update={"brokers": brokers, "triggers": triggers, "bridges": bridges})

    async def _tried(self, place: Place, start: Callable[[Any], Awaitable[None]], part: Any) -> bool:
        try:
            await start(part)
        except StartError as e:
            self.failed[place] = str(e)
            log.error("%s", e)
        except Exception as e:
            self.failed[place] = f"{dotted(place)}: {text_of_error(e)}"
            log.exception("%s could not be started", dotted(place))
        return place not in self.failed

    async def _open_broker(self, broker: Broker) -> None:
        await self._parts.start_channel(broker)
        self._draft.brokers[broker.name] = broker
        mine = [t for t in self._fresh.triggers.values() if t.broker is broker]
        for trigger in mine:
            await self._parts.attach(trigger)
            self._draft.triggers[trigger.name] = trigger
        await self._parts.open_channel(broker)
        for trigger in mine:
            await self._parts.begin_reading(trigger)
        await self._parts.open(broker)

    async def _abandon(self, broker: Broker) -> None:
        for trigger in [t for t in self._draft.triggers.values() if t.broker is broker]:
            await quietly(partial(self._parts.retire, self._draft.triggers.pop(trigger.name)))
        self._draft.brokers.pop(broker.name, None)
        await quietly(partial(self._parts.retire_broker, broker))

    async def _hand_over(self, name: str) -> None:
        """Lets the new sources of a changed broker take over addresses. This comes before anything waits for
        deliveries: an ingress may change because strangers must not come in any longer. `_alter` tries those that fail
        again."""
        broker = self._draft.brokers[name]
        for bound_source in self._fresh.bound_sources[name]:
            before = [b for b in broker.bound_sources if b not in self._fresh.bound_sources[name]]
            if bound_source in broker.bound_sources:
                continue
            left = list(before)
            with suppress(Exception):
                await self._parts.start_source(bound_source, left, in_place=True)
            if bound_source.open:
                gone = [b for b in before if b not in left]
                broker.bound_sources = [*(b for b in broker.bound_sources if b not in gone), bound_source]

    async def _close_unwanted(self) -> None:
        """Stops the sources that nothing comes instead of, before anything waits for deliveries. Where sources are yet
        to be started, one may want the address of one that ends: that one stays open until then."""
        if self._fresh.brokers or self.changes.bridges["added"] or self.changes.bridges["changed"]:
            return
        gone: list[BoundSource] = []
        for name in self.changes.brokers["removed"]:
            gone += self._draft.brokers[name].bound_sources if name in self._draft.brokers else []
        for name in self.changes.brokers["changed"]:
            fresh = self._fresh.bound_sources[name]
            if all(bound_source.open or bound_source.alone for bound_source in fresh):
                gone += [each for each in self._draft.brokers[name].bound_sources if each not in fresh]
        for bound_source in gone:
            await quietly(partial(self._parts.stop_source, bound_source))

    async def _stop_fetching(self, name: str) -> None:
        """Stops the sources of a changed broker that fetch their events and are no longer wanted. This comes before any
        source starts: two of one client id, or of one exclusive consumer, would disturb each other. Nothing is lost,
        because the remote side keeps the events meanwhile."""
        for bound_source in self._draft.brokers[name].bound_sources:
            if bound_source not in self._fresh.bound_sources[name] and pulls(bound_source.source):
                await self._parts.stop_source(bound_source)

    async def _alter(self, name: str) -> None:
        """Changes the sources and the dead letter of a broker. A source that listens starts before its predecessor
        stops, so that senders find its address open."""
        broker = self._draft.brokers[name]
        if name in self._fresh.dead_letters:
            gone, (sink, traced) = broker.dead_letter, self._fresh.dead_letters[name]
            if await self._tried(
                ("brokers", name, "dead_letter"), partial(self._parts.start_dead_letter, broker), sink
            ):
                broker.use_dead_letter(sink, traced)
                await self._parts.stop_sinks([gone])
        earlier, broker.bound_sources = broker.bound_sources, self._fresh.bound_sources[name]
        gone_sources = [bound_source for bound_source in earlier if bound_source not in broker.bound_sources]
        for number, bound_source in enumerate(broker.bound_sources):
            if bound_source not in earlier:
                start = partial(self._parts.start_source, instead=gone_sources)
                if not await self._tried(("brokers", name, "ingress", number), start, bound_source):
                    await self._parts.stop_source(bound_source)  # it may have started half-way
        for bound_source in gone_sources:
            await self._parts.stop_source(bound_source)
        for number, bound_source in enumerate(broker.bound_sources):
            if isinstance(bound_source.owner, Owner):
                bound_source.owner.moved(dotted(("brokers", name, "ingress", number)))
        broker.bound_sources = [
            bound_source
            for n, bound_source in enumerate(broker.bound_sources)
            if ("brokers", name, "ingress", n) not in self.failed
        ]

    async def _start_trigger(self, trigger: Trigger | ReadingTrigger) -> None:
        await self._parts.attach(trigger)
        self._draft.triggers[trigger.name] = trigger
        await self._parts.begin_reading(trigger)

    async def _start_bridge(self, bridged: Bridged) -> None:
        """The new bridge takes over from the one before it, if any, which finishes what it has accepted."""
        await self._parts.start_bridge_sinks(bridged)
        before = self._draft.bridges.get(bridged.name)
        if before is None:
            await self._parts.start_source(bridged.bound_source)
        elif before.bound_source is bridged.bound_source:
            bridged.bound_source.intake.switch_to(bridged.bridge)
        elif pulls(before.bound_source.source):
            await self._parts.stop_source(before.bound_source)
            await self._parts.start_source(bridged.bound_source)
        else:
            gone = [before.bound_source]
            await self._parts.start_source(bridged.bound_source, instead=gone)
            for bound_source in gone:
                await self._parts.stop_source(bound_source)
        self._draft.bridges[bridged.name] = bridged
        if before is not None:
            await self._parts.retire_bridge(before, with_source=False)
            self.counted.append(("bridges", bridge_status(before, False)))
