"""The numbers and states that the overview shows, each by a key: "rate trigger:orders". They change in place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway_inspect.graph.topology import Topology

from gateway_core.contract.status import BridgeStatus, BrokerStatus, DeliveryStatus, GatewayStatus, TriggerStatus

from .filters import count, rate
from .health import Health, Rates, failed_per_s
from .offered import Offered, cut
from .scope import Chosen

Figure = tuple[str, str]
"""A text and its kind: "good", "warn", "bad", "on" (something flows) or ""."""
Figures = dict[str, Figure]

WITHIN = {"source": 25, "broker": 23, "trigger": 37}
"""How many characters fit into a box of the drawing."""
LONG = 300
_UNKNOWN = Health("unknown", "warn")


def _unknown(name: str) -> int | None:
    return None


@dataclass(frozen=True, slots=True)
class Now:
    """The gateway at one moment."""

    status: GatewayStatus
    rates: Rates
    healths: Mapping[str, Health]
    counted: bool
    """Whether there are two samples, so that rates mean something."""
    letters: Callable[[str], int | None] = _unknown
    """How many dead letters a trigger, bridge or broker has now, as far as that is known."""
    all_letters: int | None = None
    offered: Offered = field(default_factory=Offered)
    """What services add to the summary."""

    def per_s(self, value: float) -> str:
        return rate(value) if self.counted else "–"

    def figures(self, chosen: Chosen, shown: Container[str] | None = None) -> Figures:
        """Everything that a page about these shows, with the triggers that are `shown` each by itself; None for all
        that are chosen."""
        found = self._summary()
        triggers = {trigger.name: trigger for trigger in self.status.triggers}
        brokers, names, bridges = set(chosen.brokers), chosen.triggers, set(chosen.bridges)
        counts = Counter(trigger.broker for trigger in self.status.triggers)
        for broker in self.status.brokers:
            if broker.name in brokers:
                found |= self._broker(broker, counts[broker.name])
        for name in names:
            if name in triggers and (shown is None or name in shown):
                found |= self._delivery(triggers[name])
        for bridge in self.status.bridges:
            if bridge.name in bridges:
                found |= self._delivery(bridge)
        for id, members in chosen.groups.items():
            found |= self._group(id, [triggers[name] for name in members if name in triggers])
        found |= self._sources(chosen.topology)
        for node in chosen.topology.nodes:
            if node.missing:
                found[f"state {node.id}"] = found[f"kind {node.id}"] = ("does not exist", "bad")
        return found

    def _rates(self, section: str, name: str) -> Mapping[str, Any]:
        return self.rates.get((section, name), {})

    def _total(self, section: str, name: str) -> float:
        return sum(float(found.get(name, 0.0)) for (of, _), found in self.rates.items() if of == section)

    def _summary(self) -> Figures:
        status = self.status
        deliveries: list[DeliveryStatus] = [*status.triggers, *status.bridges]
        failing = sum(failed_per_s(found) for (section, _), found in self.rates.items() if section != "brokers")
        dead = self.all_letters
        delivered = self._total("triggers", "delivered_per_s") + self._total("bridges", "delivered_per_s")
        return {
            "state gateway": ("ready", "good") if status.ready else ("not ready", "bad"),
            "accepted gateway": (self.per_s(self._total("brokers", "accepted_per_s")), ""),
            "delivered gateway": (self.per_s(delivered), ""),
            "failing gateway": (self.per_s(failing), "bad" if failing else ""),
            "lag gateway": (count(sum(entry.lag or 0 for entry in deliveries)), ""),
            "dead gateway": (count(dead), "warn" if dead else ""),
            **{key: (each.text, each.kind) for key, each in self.offered.figures.items()},
        }

    def _broker(self, broker: BrokerStatus, triggers: int) -> Figures:
        id, health = f"broker:{broker.name}", self.healths[f"broker:{broker.name}"]
        accepted = self._rates("brokers", broker.name).get("accepted_per_s", 0.0)
        text = f"{self.per_s(accepted)} accepted"
        return {
            **_shown(id, health, f"{health.word}, {text}"),
            f"state {id}": (cut(health.reason, WITHIN["broker"]) or text, health.kind),
            f"rate {id}": (self.per_s(accepted), ""),
            f"edge {id}": _edge(health, accepted),
            f"accepted {id}": (count(broker.accepted), ""),
            f"refused {id}": (count(broker.refused), ""),
            f"duplicates {id}": (count(broker.duplicates), ""),
            f"conflicts {id}": (count(broker.conflicts), "warn" if broker.conflicts else ""),
            f"keys {id}": (count(broker.keys), ""),
            f"unrouted {id}": (count(broker.unrouted), ""),
            f"dead {id}": (count(self.letters(broker.name)), ""),
            f"triggers {id}": (count(triggers), ""),
        }

    def _delivery(self, entry: TriggerStatus | BridgeStatus) -> Figures:
        word = "trigger" if isinstance(entry, TriggerStatus) else "bridge"
        id, health = f"{word}:{entry.name}", self.healths[f"{word}:{entry.name}"]
        rates = self._rates(f"{word}s", entry.name)
        delivered, dead = rates.get("delivered_per_s", 0.0), self.letters(entry.name)
        state = ": ".join(filter(None, [health.word, health.reason])) if health.kind != "warn" else health.reason
        return {
            **_shown(id, health, f"{state}, {self.per_s(delivered)} delivered"),
            f"state {id}": (cut(state, WITHIN["trigger"]), health.kind),
            f"rate {id}": (self.per_s(delivered), ""),
            f"failed {id}": (self.per_s(failed_per_s(rates)), "bad" if failed_per_s(rates) else ""),
            f"lag {id}": (count(entry.lag), ""),
            f"dead {id}": (count(dead), "warn" if dead else ""),
            f"behind {id}": _behind(entry.lag or 0),
            f"letters {id}": _letters(dead or 0),
            f"edge {id}": _edge(health, delivered),
        }

    def _group(self, id: str, triggers: Sequence[TriggerStatus]) -> Figures:
        healths = [self.healths[f"trigger:{trigger.name}"] for trigger in triggers]
        words: dict[str, int] = {}
        for health in sorted(healths, key=lambda each: each.kind != "bad"):
            if health.kind != "good":
                words[health.word] = words.get(health.word, 0) + 1
        text = " · ".join(f"{number:,} {word}" for word, number in words.items()) or "all ready"
        worst = min(healths, key=lambda each: ("bad", "warn", "good").index(each.kind), default=_UNKNOWN)
        delivered = sum(self._rates("triggers", t.name).get("delivered_per_s", 0.0) for t in triggers)
        lag, dead = sum(t.lag or 0 for t in triggers), sum(self.letters(t.name) or 0 for t in triggers)
        return {
            f"kind {id}": ("", worst.kind),
            f"label {id}": (f"{len(triggers)} triggers of {id.partition(':')[2]}: {text}", ""),
            f"state {id}": (cut(text, WITHIN["trigger"]), worst.kind),
            f"rate {id}": (self.per_s(delivered), ""),
            f"behind {id}": _behind(lag),
            f"letters {id}": _letters(dead),
            f"edge {id}": ("", "on" if delivered else ""),
        }

    def _sources(self, topology: Topology) -> Figures:
        entries: Iterable[BrokerStatus | BridgeStatus] = (*self.status.brokers, *self.status.bridges)
        errors = {source.address: source.error for entry in entries for source in entry.sources if source.error}
        found: Figures = {}
        for node in topology.nodes:
            if node.kind == "source":
                where = node.detail[0] if node.detail else ""
                error = errors.get(where)
                text = cut(error or where, WITHIN["source"])
                found[f"state {node.id}"] = (text, "bad" if error else "")
                found[f"kind {node.id}"] = ("", "bad" if error else "")
                found[f"label {node.id}"] = (cut(f"source {node.title} {where} {error or ''}", LONG), "")
        return found


def _shown(id: str, health: Health, text: str) -> Figures:
    kind, _, name = id.partition(":")
    return {
        f"kind {id}": ("", health.kind),
        f"word {id}": (health.word, health.kind),
        f"why {id}": (cut(health.reason, LONG), ""),
        f"label {id}": (cut(f"{kind} {name}: {text}", LONG), ""),
    }


def _edge(health: Health, per_s: float) -> Figure:
    return "", health.kind if health.kind != "good" else "on" if per_s else ""


def _behind(lag: int) -> Figure:
    return (f"{lag:,} behind", "") if lag else ("", "")


def _letters(dead: int) -> Figure:
    return (f"{dead:,} dead", "") if dead else ("", "")
