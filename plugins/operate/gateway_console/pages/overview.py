"""The first page: what is wrong, what is connected to what, and how it goes."""

from __future__ import annotations

from typing import Any
from zlib import crc32

from gateway_api.routes import Answer, Request, Route
from gateway_inspect.graph.topology import Topology, topology

from gateway_core.contract.status import BridgeStatus, BrokerStatus, GatewayStatus

from ..context import Console
from ..drawing import dead_letters, drawing
from ..figures import Figure, Now
from ..health import about, healths, troubles
from ..live import LiveParts, live
from ..offered import offered
from ..page import fragment, html, page, render
from ..scope import Chosen, Scope, chosen, drawn

_TEMPLATE = "overview.html"
_MOST_LISTED = 25
_MOST_TROUBLES = 50
_ROWS = 5
_MOST_SCOPES = 64


def routes(console: Console) -> list[Route]:
    """The page, and its changes."""
    shape = _Shape(console)

    def now() -> Now:
        found = console.sampler.rates()
        sections = ("brokers", "triggers", "bridges")
        rates = {(section, entry["name"]): entry for section in sections for entry in found[section]}
        status = console.sampler.current
        stock = console.stock
        added = offered(console.gateway.services, status)
        return Now(status, rates, healths(status, rates), found["seconds"] > 0, stock.of, stock.total, added)

    def wrong(current: Now, scope: Scope, selected: Chosen) -> dict[str, Any]:
        found = troubles(current.status, current.healths, current.offered.failed)
        if scope.broker or scope.bridge:
            names = {"trigger": selected.triggers, "broker": selected.brokers, "bridge": selected.bridges}
            here = about("broker", scope.broker)
            found = [each for each in found if each.path == here or each.name in names.get(each.what, ())]
        more = len(found) - _MOST_TROUBLES
        return {"troubles": found[:_MOST_TROUBLES], "more_troubles": max(more, 0)}

    def show(request: Request) -> Answer:
        scope, current = _scope(request), now()
        selected = shape.chosen(scope, current)
        found = wrong(current, scope, selected)
        worst = [f"{trouble.what}:{trouble.name}" for trouble in found["troubles"]]
        part, left_out = drawn(selected, worst)
        figures = current.figures(selected)

        def figure(key: str) -> Figure:
            return figures.get(key, ("", ""))

        ranks = {"bad": 0, "warn": 1, "good": 2}
        names = sorted(selected.triggers, key=lambda name: ranks.get(figure(f"kind trigger:{name}")[1], 0))
        most = len(names) if len(names) <= _MOST_LISTED or (scope and len(names) <= 4 * _MOST_LISTED) else _MOST_LISTED
        single = {node.title for node in part.nodes if node.id.startswith("trigger:")}
        values = {
            **found,
            "title": "Overview",
            "scope": scope,
            "shape": shape.token,
            "query": _query(scope),
            "listed": shape.remember(frozenset(single.union(names[:most]))),
            "figure": figure,
            "offered": current.offered.figures,
            "drawing": drawing(part),
            "left_out": left_out,
            "brokers": selected.brokers[: 2 * _MOST_LISTED],
            "triggers": names[:most],
            "more_triggers": len(names) - most,
            "bridges": selected.bridges[: 2 * _MOST_LISTED],
            "status_of": {trigger.name: trigger for trigger in current.status.triggers},
            "broker": next((b for b in current.status.brokers if b.name == scope.broker), None),
            "bridge": next((b for b in current.status.bridges if b.name == scope.bridge), None),
            "schedules": _schedules(current.status, scope, selected),
            "rows": min(max(len(found["troubles"]), 1), _ROWS),
            "about": about,
            "dead_letters": dead_letters,
        }
        return html(render(_TEMPLATE, request, **values))

    def parts(request: Request) -> LiveParts:
        current = now()
        scope = _scope(request)
        selected = shape.chosen(scope, current)
        figures = current.figures(selected, shape.listed.get(request.asked("listed") or ""))
        return {
            "figures": {"shape": shape.token, **figures},
            "wrong": fragment(_TEMPLATE, "wrong", request, **wrong(current, scope, selected)),
        }

    return [
        page("", console.apart(show), "Overview"),
        live("/live/overview", console.apart(parts), console.sampler, "Changes of the overview"),
    ]


class _Shape:
    """The topology of the config in force, and what readers chose of it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._key: tuple[Any, ...] = ()
        self._topology = Topology()
        self._chosen: dict[Scope, Chosen] = {}
        self.token = ""
        """Another one for each topology."""
        self.listed: dict[str, frozenset[str]] = {}
        """The triggers that pages show each by itself; one that is forgotten gets the numbers of all."""

    def remember(self, names: frozenset[str]) -> str:
        """A word for these triggers."""
        if len(self.listed) >= _MOST_SCOPES:
            self.listed.clear()
        word = f"{crc32(repr(sorted(names)).encode()):x}"
        self.listed[word] = names
        return word

    def chosen(self, scope: Scope, current: Now) -> Chosen:
        status = current.status
        addresses = [address for broker in status.brokers for address in broker.ingress]
        key = (status.config.generation, *addresses, *(bridge.source for bridge in status.bridges))
        if key != self._key:
            gateway = self._console.gateway
            self._key, self._topology = key, topology(gateway.config, gateway.topology)
            self.token = f"{crc32(repr(self._topology).encode()):x}"
            self._chosen.clear()
            self.listed.clear()  # pages that are open may list others from now on
        if scope not in self._chosen:
            if len(self._chosen) >= _MOST_SCOPES:
                self._chosen.clear()
            self._chosen[scope] = chosen(self._topology, scope)
        return self._chosen[scope]


def _schedules(status: GatewayStatus, scope: Scope, selected: Chosen) -> list[dict[str, Any]]:
    """The sources that make events at planned times, with their next runs."""
    entries: list[BrokerStatus | BridgeStatus] = [
        b for b in status.brokers if b.name in (*selected.brokers, scope.broker)
    ]
    entries += [b for b in status.bridges if b.name in (*selected.bridges, scope.bridge)]
    return [
        {"owner": entry.name, "name": source.address.partition(":")[2], "error": source.error, **source.details}
        for entry in entries
        for source in entry.sources
        if source.address.startswith("schedule:") and "next" in source.details
    ]


def _scope(request: Request) -> Scope:
    return Scope(*((request.asked(name) or "").strip()[:200] for name in ("search", "broker", "bridge")))


def _query(scope: Scope) -> dict[str, str]:
    return {name: value for name in ("search", "broker", "bridge") if (value := getattr(scope, name))}
