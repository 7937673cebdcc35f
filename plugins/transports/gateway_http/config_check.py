"""Checks where the sources of a config listen: two at one address, and events that come back to where they came from.

Listeners and addresses are found by the usual words (`gateway_core.contract.capabilities`), whichever plugin has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gateway_core.contract.capabilities import Addressed, HasPath, Listening, Receiving, offers
from gateway_core.contract.component import ComponentRef
from gateway_core.contract.config_extension import ConfigFinding
from gateway_core.contract.config_model import DeliveryConfig, GatewayConfig
from gateway_core.contract.config_node import Place, dotted

from .config import HttpSinkConfig

_ANY = ("", "0.0.0.0", "::")
_LOCAL = ("localhost", "127.0.0.1", "::1")
_OF_LISTENER = ("server", "tls", "limits")
"""The words of options that belong to a listener, and so to all its paths."""


def check(config: GatewayConfig) -> Iterator[ConfigFinding]:
    """Sources that can't listen at their address, and cycles."""
    listeners = list(_listeners(config))
    yield from _same_address(listeners)
    yield from _cycles(list(_edges(config, listeners)))
    yield from _batches(config)


# -- batches ------------------------------------------------------------------------------------------------------


def _batches(config: GatewayConfig) -> Iterator[ConfigFinding]:
    """Sinks with `batch` where there can be no batches."""
    for name, broker in config.brokers.items():
        yield from _no_batch(broker.dead_letter, ("brokers", name, "dead_letter"))
    for name, trigger in config.triggers.items():
        owner = config.brokers.get(trigger.broker)
        policy = trigger.delivery.over(owner.delivery) if owner is not None else trigger.delivery
        yield from _no_batch(trigger.dead_letter, ("triggers", name, "dead_letter"))
        yield from _one_at_a_time(trigger.subscriber, policy, ("triggers", name, "subscriber"))
    for name, bridge in config.bridges.items():
        yield from _no_batch(bridge.dead_letter, ("bridges", name, "dead_letter"))
        yield from _one_at_a_time(bridge.sink, bridge.delivery, ("bridges", name, "sink"))


def _no_batch(ref: ComponentRef | None, place: Place) -> Iterator[ConfigFinding]:
    if ref is not None and isinstance(ref.options, HttpSinkConfig) and ref.options.batch is not None:
        message = "dead letters are written one by one, and each has an answer of its own"
        yield ConfigFinding(message, (*place, ref.name, "batch"), "leave out `batch`")


def _one_at_a_time(ref: ComponentRef, policy: DeliveryConfig, place: Place) -> Iterator[ConfigFinding]:
    if isinstance(ref.options, HttpSinkConfig) and ref.options.batch is not None:
        at = (*place, ref.name, "batch")
        if policy.order == "partition":
            message = "with `order: partition` one event of a partition is under way at once: batches have one event"
            yield ConfigFinding(message, at, "use `order: key`, or no order", warning=True)
        elif "max_in_flight" in policy.model_fields_set and policy.max_in_flight < ref.options.batch.max_events:
            message = f"`max_in_flight` is {policy.max_in_flight}: a batch can't have more events, and waits for them"
            yield ConfigFinding(message, at, "set `max_events` to at most that", warning=True)


# -- addresses ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Listener:
    """A source or sink with an address: its owner (the place of a broker, bridge or trigger), its place, transport and
    options, and where it listens."""

    owner: Place
    place: Place
    transport: str
    options: object
    host: str
    port: int
    url_path: str

    def collides(self, other: _Listener) -> bool:
        same_host = _same_host(self.host, other.host) or self.host in _ANY or other.host in _ANY
        if other is self:
            return False
        same_path = self.url_path == other.url_path or self.transport != other.transport
        return self.port == other.port and self.port != 0 and same_path and same_host

    def shares(self, other: _Listener) -> bool:
        """Whether both have one listener, with one set of options."""
        same = (self.transport, self.port, self.host) == (other.transport, other.port, other.host)
        return same and self is not other and self.port != 0

    def differences(self, other: _Listener) -> list[str]:
        """The options of the listener itself that differ."""
        return [w for w in _OF_LISTENER if getattr(self.options, w, None) != getattr(other.options, w, None)]

    def alike(self, other: _Listener) -> bool:
        return not self.differences(other)


def _same_host(one: str, other: str) -> bool:
    return one == other or (one in _LOCAL and other in _LOCAL)


def _listeners(config: GatewayConfig) -> Iterator[_Listener]:
    for name, broker in config.brokers.items():
        for i, ref in enumerate(broker.ingress):
            yield from _listener(ref, ("brokers", name), ("brokers", name, "ingress", i))
        yield from _listener(broker.dead_letter, ("brokers", name), ("brokers", name, "dead_letter"))
    for name, bridge in config.bridges.items():
        yield from _listener(bridge.source, ("bridges", name), ("bridges", name, "source"))
        yield from _listener(bridge.sink, ("bridges", name), ("bridges", name, "sink"))
        yield from _listener(bridge.dead_letter, ("bridges", name), ("bridges", name, "dead_letter"))
    for name, trigger in config.triggers.items():
        yield from _listener(trigger.subscriber, ("triggers", name), ("triggers", name, "subscriber"))
        yield from _listener(trigger.dead_letter, ("triggers", name), ("triggers", name, "dead_letter"))


def _listener(ref: ComponentRef | None, owner: Place, place: Place) -> Iterator[_Listener]:
    options = None if ref is None else ref.options
    if ref is None or not offers(options, Listening) or not isinstance(options, HasPath):
        return
    if isinstance(options.listen, str) and isinstance(options.path, str):
        host, _, port = options.listen.rpartition(":")
        if port.isdecimal() and port.isascii():
            yield _Listener(owner, place, ref.name, options, host.strip("[]").lower(), int(port), options.path)


def _same_address(listeners: Sequence[_Listener]) -> Iterator[ConfigFinding]:
    by_address: dict[tuple[int, str], list[_Listener]] = {}
    transports: dict[int, dict[str, _Listener]] = {}
    for listener in listeners:
        earlier = by_address.setdefault((listener.port, listener.url_path), [])
        others = transports.setdefault(listener.port, {})
        others.setdefault(listener.transport, listener)
        if taken := next((one for one in (*earlier, *others.values()) if one.collides(listener)), None):
            message, remedy = f"`{dotted(taken.place)}` already listens on port {listener.port}", "another `listen`"
            if taken.transport == listener.transport:
                message, remedy = f"{message} at `{listener.url_path}`", "another `path` or `listen`"
            yield ConfigFinding(message, listener.place, f"give one of them {remedy}")
        elif first := next((one for one in others.values() if one.shares(listener) and not one.alike(listener)), None):
            message = f"it shares the address {first.host}:{first.port} with `{dotted(first.place)}`, but not"
            words = " and ".join(f"`{word}`" for word in first.differences(listener))
            yield ConfigFinding(f"{message} {words}", listener.place, "make these the same, or change `listen`")
        earlier.append(listener)


# -- cycles -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Edge:
    """The sink at `place` sends events of `start` (a broker or bridge) to `end`."""

    start: Place
    end: Place
    place: Place


def _edges(config: GatewayConfig, listeners: Sequence[_Listener]) -> Iterator[_Edge]:
    receiving = [(one.owner, one.options) for one in listeners if isinstance(one.options, Receiving)]
    for start, ref, place in _sinks(config):
        options = ref.options if ref is not None else None
        if offers(options, Addressed) and isinstance(options.url, str):
            for owner, receiver in receiving:
                if receiver.receives(options.url):
                    yield _Edge(start, owner, place)


def _sinks(config: GatewayConfig) -> Iterator[tuple[Place, ComponentRef | None, Place]]:
    """The sinks that may close a cycle: whose events they get, the sink, its place."""
    for name, broker in config.brokers.items():
        yield ("brokers", name), broker.dead_letter, ("brokers", name, "dead_letter")
    for name, trigger in config.triggers.items():
        if not trigger.allow_cycle:
            yield ("brokers", trigger.broker), trigger.subscriber, ("triggers", name, "subscriber")
            yield ("brokers", trigger.broker), trigger.dead_letter, ("triggers", name, "dead_letter")
    for name, bridge in config.bridges.items():
        yield ("bridges", name), bridge.sink, ("bridges", name, "sink")
        yield ("bridges", name), bridge.dead_letter, ("bridges", name, "dead_letter")


def _cycles(edges: Sequence[_Edge]) -> Iterator[ConfigFinding]:
    """One cycle for each edge that closes one."""
    out: dict[Place, list[_Edge]] = {}
    for edge in edges:
        out.setdefault(edge.start, []).append(edge)
    known: set[frozenset[Place]] = set()
    for edge in edges:
        way = _shortest_cycle(edge, out)
        if way is None or frozenset(e.place for e in way) in known:
            continue
        known.add(frozenset(e.place for e in way))
        around = [_word(way[0].start)]
        for step in way:
            around += [f"({dotted(step.place)})", _word(step.end)]
        remedy = "send it elsewhere"
        if any(e.place[0] == "triggers" for e in way):
            remedy = "send it elsewhere, or set `allow_cycle: true` on a trigger whose filter ends the loop"
        yield ConfigFinding(f"events go in a circle: {' → '.join(around)}", edge.place, remedy)


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
