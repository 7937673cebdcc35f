"""How brokers, triggers and bridges do: a word, whether that is good or bad, and the reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from gateway_core.contract.status import BrokerStatus, DeliveryStatus, GatewayStatus, TriggerStatus, Unreported

from .page import ROOT

Kind = Literal["good", "warn", "bad"]
Rates = Mapping[tuple[str, str], Mapping[str, Any]]
"""What `Sampler.rates` says, by section and name."""

LAGGING_EVENTS = 1000
LAGGING_S = 10.0
_FAILING = ("SubscriberFails", "SinkFails")
_READER = ("ReaderNotRunning", "ReaderStarting")
_STARTING = ("starting", "restarting")


@dataclass(frozen=True, slots=True)
class Health:
    """The state of one thing. `reason` is "" if it is well."""

    word: str
    kind: Kind = "good"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A thing with a problem, and the page where more is said about it."""

    what: str
    name: str
    health: Health
    path: str


def health_of(entry: BrokerStatus | DeliveryStatus, rates: Mapping[str, Any]) -> Health:
    """The health of a broker, trigger or bridge; `rates` are its own. One that is ready but whose attempts have failed
    lately is failing, and one that is more than `LAGGING_S` behind is lagging. A query that reads the channel has its
    own words (`ReaderStatus.state`)."""
    reader = entry.reader if isinstance(entry, TriggerStatus) else None
    if isinstance(entry, TriggerStatus) and entry.paused:
        return Health("paused", "warn", "paused by an operator")
    if isinstance(entry, DeliveryStatus) and entry.blocked:
        return Health("blocked", "bad", f"waits for its dead letter: {entry.reason or entry.last_error or ''}")
    if not entry.ready:
        if isinstance(entry, DeliveryStatus) and entry.condition == "HeldWhileDown":
            return Health("held", "bad", entry.reason)
        if isinstance(entry, DeliveryStatus) and entry.condition in _FAILING:
            return Health("failing", "bad", entry.last_error or entry.reason)
        if reader is not None and entry.condition in _READER:
            starts = reader.state in _STARTING and not reader.error
            return Health(reader.state or "not ready", "warn" if starts else "bad", reader.error or entry.reason)
        return Health("not ready", "bad", entry.reason)
    if entry.reason:
        return Health("degraded", "warn", entry.reason)
    if not isinstance(entry, DeliveryStatus):
        return Health("ready")
    if failed_per_s(rates) > 0:
        return Health("failing", "warn", entry.last_error or "attempts fail")
    lag = entry.lag or 0
    if lag >= LAGGING_EVENTS and lag > LAGGING_S * rates.get("delivered_per_s", 0.0):
        return Health("lagging", "warn", f"{lag:,} events behind")
    if reader is not None and reader.error:
        return Health(reader.state, "warn", reader.error)
    return Health("ready" if reader is None else reader.state)


def failed_per_s(rates: Mapping[str, Any]) -> float:
    """Attempts that fail per second, lately: those that ended and did not deliver."""
    return float(rates.get("failed_per_s", 0.0))


def healths(status: GatewayStatus, rates: Rates) -> dict[str, Health]:
    """The health of everything, by its id in the topology ("trigger:NAME")."""
    entries: list[tuple[str, BrokerStatus | DeliveryStatus]] = [("broker", each) for each in status.brokers]
    entries += [("trigger", each) for each in status.triggers]
    entries += [("bridge", each) for each in status.bridges]
    return {f"{word}:{each.name}": health_of(each, rates.get((f"{word}s", each.name), {})) for word, each in entries}


def troubles(
    status: GatewayStatus, found: Mapping[str, Health], unreported: Iterable[Unreported] = ()
) -> list[Trouble]:
    """All problems, the worst first. Triggers that only wait for their broker are left out. `unreported` are parts
    that failed beside those of the status."""
    silent = [_silent(part) for part in (*status.unreported, *unreported)]
    return sorted([*_troubles(status, found), *silent], key=lambda each: each.health.kind != "bad")


def _silent(part: Unreported) -> Trouble:
    return Trouble("part", part.part, Health("does not report", "warn", part.error), ROOT)


def _troubles(status: GatewayStatus, found: Mapping[str, Health]) -> Iterator[Trouble]:
    if status.config.error:
        health = Health("not in force", "bad", status.config.error)
        yield Trouble("config", "the newest config", health, f"{ROOT}/config")
    for broker in status.brokers:
        path = about("broker", broker.name)
        if (health := found[f"broker:{broker.name}"]).kind != "good":
            yield Trouble("broker", broker.name, health, path)
        for source in broker.sources:
            if source.error and source.error not in health.reason:
                where = source.address or broker.name
                yield Trouble("source", where, Health("not ready", "bad", source.error), path)
    for trigger in status.triggers:
        health = found[f"trigger:{trigger.name}"]
        if health.kind != "good" and trigger.condition != "BrokerNotReady":
            yield Trouble("trigger", trigger.name, health, about("trigger", trigger.name))
    for bridge in status.bridges:
        if (health := found[f"bridge:{bridge.name}"]).kind != "good":
            yield Trouble("bridge", bridge.name, health, about("bridge", bridge.name))


def about(kind: str, name: str) -> str:
    """The page that shows a broker, trigger or bridge."""
    if kind == "trigger":
        return f"{ROOT}/triggers/{quote(name, safe='')}"
    return f"{ROOT}?{kind}={quote(name, safe='')}"
