"""Checks that need the whole config: names that refer to each other, addresses, cycles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..contract.attribute_names import old_names
from ..contract.capabilities import Addressed, HasPath, Listening, Receiving, pulls
from ..contract.component import ComponentRef
from ..contract.config_node import Place, dotted
from .faults import near
from .model import BridgeConfig, BrokerConfig, DeliveryConfig, TriggerConfig
from .report import Report

_ANY = ("", "0.0.0.0", "::")
_LOCAL = ("localhost", "127.0.0.1", "::1")


def effective_delivery(broker: DeliveryConfig, trigger: DeliveryConfig) -> DeliveryConfig:
    """A trigger's delivery: the keys that it sets itself win over its broker's, one by one."""
    changes = {name: getattr(trigger, name) for name in trigger.model_fields_set}
    return broker.model_copy(update=changes)


def cross_check(
    valid: Mapping[str, Any], names: Mapping[str, Sequence[str]], unused: Sequence[str], report: Report
) -> None:
    """Reports contradictions in the config. `valid` has the sections' entries that are valid by themselves, `names` all
    names that are written, `unused` the secrets that nothing uses."""
    brokers: Mapping[str, BrokerConfig] = valid["brokers"]
    triggers: Mapping[str, TriggerConfig] = valid["triggers"]
    bridges: Mapping[str, BridgeConfig] = valid["bridges"]
    _broker_names(triggers, names["brokers"], report)
    listeners = list(_listeners(brokers, bridges))
    _same_address(listeners, report)
    _cycles(list(_edges(brokers, triggers, bridges, listeners)), report)
    _idle(brokers, names, report)
    _held_up(bridges, report)
    _old_names(triggers, report)
    for name in unused:
        report.warn("nothing uses this secret", ("secrets", name))


def _broker_names(triggers: Mapping[str, TriggerConfig], brokers: Sequence[str], report: Report) -> None:
    for name, trigger in triggers.items():
        if trigger.broker in brokers:
            continue
        path: Place = ("triggers", name, "broker") if "broker" in trigger.model_fields_set else ("triggers", name)
        remedy = near(trigger.broker, brokers) or f"add it to `brokers`: `{trigger.broker}: {{}}`"
        if brokers and not near(trigger.broker, brokers):
            remedy += f"; brokers here: {', '.join(f'`{b}`' for b in brokers)}"
        report.warn(f"there is no broker `{trigger.broker}`: the trigger waits for it", path, remedy)


def _idle(brokers: Mapping[str, BrokerConfig], names: Mapping[str, Sequence[str]], report: Report) -> None:
    if not names["brokers"] and not names["bridges"]:
        report.warn("there is neither a broker nor a bridge: the gateway has nothing to do", ())
    for name, broker in brokers.items():
        if not broker.ingress:
            report.warn("the broker has no `ingress`: no event can come in", ("brokers", name))


def _held_up(bridges: Mapping[str, BridgeConfig], report: Report) -> None:
    """A source that pulls waits until an event is settled; without a dead letter, perhaps forever."""
    for name, bridge in bridges.items():
        if bridge.dead_letter is None and pulls(bridge.source.options):
            message = "an event that its sink refuses holds up the others of its partition"
            report.warn(f"the bridge has no `dead_letter`: {message}", ("bridges", name), "add a `dead_letter`")


def _old_names(triggers: Mapping[str, TriggerConfig], report: Report) -> None:
    for trigger, config in triggers.items():
        for name, message, remedy in old_names(config.filter):
            report.warn(message, ("triggers", trigger, "filter", name), remedy)


# -- addresses ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Listener:
    """A source with an address: its owner (the path of a broker or bridge), where it listens, and its options."""

    owner: Place
    path: Place
    host: str
    port: int
    url_path: str
    source: object

    def collides(self, other: _Listener) -> bool:
        same_host = _same_host(self.host, other.host) or self.host in _ANY or other.host in _ANY
        return self.port == other.port and self.port != 0 and self.url_path == other.url_path and same_host


def _same_host(one: str, other: str) -> bool:
    return one == other or (one in _LOCAL and other in _LOCAL)


def _listeners(brokers: Mapping[str, BrokerConfig], bridges: Mapping[str, BridgeConfig]) -> Iterator[_Listener]:
    for name, broker in brokers.items():
        for i, ref in enumerate(broker.ingress):
            yield from _listener(ref, ("brokers", name), ("brokers", name, "ingress", i))
    for name, bridge in bridges.items():
        yield from _listener(bridge.source, ("bridges", name), ("bridges", name, "source"))


def _listener(ref: ComponentRef, owner: Place, path: Place) -> Iterator[_Listener]:
    options = ref.options
    if isinstance(options, Listening) and isinstance(options, HasPath) and isinstance(options.path, str):
        host, _, port = options.listen.rpartition(":")
        if port.isdecimal() and port.isascii():
            yield _Listener(owner, path, host.strip("[]").lower(), int(port), options.path, options)


def _same_address(listeners: Sequence[_Listener], report: Report) -> None:
    by_place: dict[tuple[int, str], list[_Listener]] = {}
    for listener in listeners:
        earlier = by_place.setdefault((listener.port, listener.url_path), [])
        if taken := next((w for w in earlier if w.collides(listener)), None):
            message = f"`{dotted(taken.path)}` already listens on port {listener.port} at `{listener.url_path}`"
            report.fault(message, listener.path, "give one of them another `path` or `listen`")
        earlier.append(listener)


# -- cycles -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Edge:
    """Events of `start` (a broker or bridge) are sent to `end`, by what stands at `path`."""

    start: Place
    end: Place
    path: Place


def _edges(
    brokers: Mapping[str, BrokerConfig],
    triggers: Mapping[str, TriggerConfig],
    bridges: Mapping[str, BridgeConfig],
    listeners: Sequence[_Listener],
) -> Iterator[_Edge]:
    sends: list[tuple[Place, ComponentRef | None, Place]] = []
    for name, broker in brokers.items():
        sends.append((("brokers", name), broker.dead_letter, ("brokers", name, "dead_letter")))
    for name, trigger in triggers.items():
        if not trigger.allow_cycle:
            owner: Place = ("brokers", trigger.broker)
            sends.append((owner, trigger.subscriber, ("triggers", name, "subscriber")))
            sends.append((owner, trigger.dead_letter, ("triggers", name, "dead_letter")))
    for name, bridge in bridges.items():
        sends.append((("bridges", name), bridge.sink, ("bridges", name, "sink")))
        sends.append((("bridges", name), bridge.dead_letter, ("bridges", name, "dead_letter")))
    for start, ref, path in sends:
        options = ref.options if ref is not None else None
        if not isinstance(options, Addressed) or not isinstance(options.url, str):
            continue
        for listener in listeners:
            if isinstance(listener.source, Receiving) and listener.source.receives(options.url):
                yield _Edge(start, listener.owner, path)


def _cycles(edges: Sequence[_Edge], report: Report) -> None:
    """Reports one cycle for each edge that closes one."""
    out: dict[Place, list[_Edge]] = {}
    for edge in edges:
        out.setdefault(edge.start, []).append(edge)
    told: set[frozenset[Place]] = set()
    for edge in edges:
        way = _shortest_cycle(edge, out)
        if way is None or frozenset(e.path for e in way) in told:
            continue
        told.add(frozenset(e.path for e in way))
        around = [_word(way[0].start)]
        for step in way:
            around += [f"({dotted(step.path)})", _word(step.end)]
        remedy = "send it elsewhere"
        if any(e.path[0] == "triggers" for e in way):
            remedy = "send it elsewhere, or set `allow_cycle: true` on a trigger whose filter ends the loop"
        report.fault(f"events go in a circle: {' → '.join(around)}", edge.path, remedy)


def _shortest_cycle(first: _Edge, out: Mapping[Place, Sequence[_Edge]]) -> list[_Edge] | None:
    """The shortest cycle that starts with this edge, None if there is none."""
    ways: list[list[_Edge]] = [[first]]
    seen = {first.end}
    for way in ways:
        if way[-1].end == first.start:
            return way
        for edge in out.get(way[-1].end, ()):
            if edge.end not in seen or edge.end == first.start:
                seen.add(edge.end)
                ways.append([*way, edge])
    return None


def _word(owner: Place) -> str:
    return f"{str(owner[0])[:-1]} `{owner[1]}`"
