"""The topology: sources, brokers, triggers, bridges, sinks, dead letters, and their connections."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from gateway_api.shown import shown

from gateway_core.contract.capabilities import Replying
from gateway_core.contract.component import ComponentRef
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.topology import BridgeView, BrokerView, SourceView
from gateway_core.contract.topology import Topology as Running

NodeKind = Literal["source", "broker", "trigger", "bridge", "sink", "dead_letter"]
EdgeKind = Literal["flow", "reply", "dead_letter"]

_PLACES = ("listen", "url", "topics", "topic", "path", "function")


@dataclass(frozen=True, slots=True)
class Node:
    """A box. `detail` are the lines below its title."""

    id: str
    kind: NodeKind
    title: str
    detail: tuple[str, ...] = ()
    missing: bool = False
    """True for a broker that triggers refer to but that does not exist."""


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow between two boxes, by their ids."""

    start: str
    end: str
    kind: EdgeKind = "flow"


@dataclass(slots=True)
class Topology:
    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        return {"nodes": [asdict(n) for n in self.nodes], "edges": [asdict(e) for e in self.edges]}


def from_document(document: Mapping[str, Any]) -> Topology:
    """What `document` wrote."""
    nodes = [Node(**{**n, "detail": tuple(n["detail"])}) for n in document["nodes"]]
    return Topology(nodes, [Edge(**e) for e in document["edges"]])


def topology(config: GatewayConfig, built: Running) -> Topology:
    """The topology of a gateway built from this config; it need not be running."""
    return _Drawer(config, built).draw()


class _Drawer:
    def __init__(self, config: GatewayConfig, built: Running) -> None:
        self._config = config
        self._built = built
        self._found = Topology()
        self._ids: dict[tuple[str, str, str], str] = {}  # sinks with the same address share a box
        self._doors: dict[str, str] = {}  # ingress URL -> id of its source

    def draw(self) -> Topology:
        for name, broker in self._built.brokers.items():
            self._broker(name, broker)
        for name, bridged in self._built.bridges.items():
            self._bridge(name, bridged)
        for name in self._config.triggers:
            self._trigger(name)
        for name, bridged in self._built.bridges.items():
            config = self._config.bridges[name]
            self._sinks(f"bridge:{name}", config.sink, bridged.delivery.sink)
            if config.dead_letter is not None:
                self._dead_letters(f"bridge:{name}", config.dead_letter, bridged.dead_letter)
        return self._found

    def _broker(self, name: str, broker: BrokerView) -> None:
        config = self._config.brokers[name]
        for i, bound_source in enumerate(broker.bound_sources):
            self._source(f"source:{name}/{i}", bound_source, f"broker:{name}")
        self._node(f"broker:{name}", "broker", name, (f"channel {_described(config.channel)}",))

    def _source(self, id: str, bound_source: SourceView, to: str) -> None:
        where = getattr(bound_source.source, "address", "") or _described(bound_source.ref, named=False)
        self._node(id, "source", bound_source.ref.name, (where,) if where else ())
        self._edge(id, to)
        if url := _url(where, bound_source.ref):
            self._doors[url] = id

    def _bridge(self, name: str, bridged: BridgeView) -> None:
        self._source(f"source:{name}", bridged.bound_source, f"bridge:{name}")
        self._node(f"bridge:{name}", "bridge", name, _filters(self._config.bridges[name]))

    def _trigger(self, name: str) -> None:
        config, id = self._config.triggers[name], f"trigger:{name}"
        broker = f"broker:{config.broker}"
        if config.broker not in self._built.brokers and not any(n.id == broker for n in self._found.nodes):
            self._found.nodes.append(Node(broker, "broker", config.broker, ("does not exist",), missing=True))
        self._node(id, "trigger", name, _filters(config))
        self._edge(broker, id)
        trigger = self._built.triggers.get(name)
        sink = trigger.sink if trigger is not None else None
        self._sinks(id, config.subscriber, sink)
        if isinstance(sink, Replying) and sink.replies:
            self._edge(id, broker, "reply")
        if trigger is not None and not trigger.reads:
            dead_letters = config.dead_letter or self._config.brokers[config.broker].dead_letter
            self._dead_letters(id, dead_letters, trigger.dead_letter)

    def _sinks(self, start: str, ref: ComponentRef, sink: Any) -> None:
        where = getattr(sink, "address", "") or _described(ref, named=False)
        if (door := self._doors.get(_normal(where))) is not None:
            self._edge(start, door)
        else:
            self._edge(start, self._shared("sink", ref.name, where))

    def _dead_letters(self, start: str, ref: ComponentRef, sink: Any) -> None:
        where = getattr(sink, "address", "") or _described(ref, named=False)
        self._edge(start, self._shared("dead_letter", ref.name, where), "dead_letter")

    def _shared(self, kind: NodeKind, name: str, where: str) -> str:
        key = (kind, name, where)
        if key not in self._ids:
            self._ids[key] = f"{kind}:{len(self._ids) + 1}"
            self._node(self._ids[key], kind, name, (where,) if where else ())
        return self._ids[key]

    def _node(self, id: str, kind: NodeKind, title: str, detail: tuple[str, ...]) -> None:
        self._found.nodes.append(Node(id, kind, title, detail))

    def _edge(self, start: str, end: str, kind: EdgeKind = "flow") -> None:
        self._found.edges.append(Edge(start, end, kind))


def _filters(config: Any) -> tuple[str, ...]:
    if config.filters:
        return tuple(_compact(shown(ref)) for ref in config.filters)
    attributes = getattr(config, "filter", {})
    return tuple(f"{name} = {value}" if value else f"{name} is there" for name, value in attributes.items())


def _compact(value: Any) -> str:
    """A filter in one line, without JSON's punctuation."""
    if isinstance(value, dict):
        return ", ".join(f"{k}: {_compact(v)}" for k, v in value.items())
    if isinstance(value, list):
        return f"[{', '.join(map(_compact, value))}]"
    return value if isinstance(value, str) else json.dumps(value)


def _described(ref: ComponentRef, *, named: bool = True) -> str:
    """A component by its name and the option with its address."""
    options = shown(ref).get(ref.name) if isinstance(shown(ref), dict) else None
    place = ""
    if isinstance(options, dict):
        place = next((_compact(options[key]) for key in _PLACES if options.get(key)), "")
    return " ".join(filter(None, [ref.name if named else "", place]))


def _url(where: str, ref: ComponentRef) -> str:
    """The address of an ingress as a URL, if it has one."""
    if "://" in where:
        return _normal(where)
    options = shown(ref)
    listen = options.get(ref.name, {}) if isinstance(options, dict) else {}
    if not isinstance(listen, dict) or "listen" not in listen:
        return ""
    return _normal(f"http://{listen['listen']}{listen.get('path', '/')}")


def _normal(url: str) -> str:
    try:
        parts = urlsplit(url)
        return f"{parts.netloc.lower()}{parts.path or '/'}" if parts.scheme in ("http", "https") else url
    except ValueError:
        return url
