"""Compares what happened with what is expected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.event import Event
from gateway_core.contract.faults import near
from gateway_core.contract.topology import BridgeView, TriggerView

from .compare import differences, sent_differences, shown
from .model import DeliveryExpectConfig, EventConfig, ExpectConfig, RefusedConfig, ScenarioConfig, SentConfig
from .play import Played
from .record import Attempt, DeliveryRecord, EventHistory, Key, id_of

MILLISECOND = 0.001


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed expectation: its path in `expect`, the expected value, and what happened."""

    path: str
    expected: str
    found: str


def unknown_names(scenario: ScenarioConfig, config: GatewayConfig) -> list[Failure]:
    """Triggers, bridges and brokers in a scenario that the config does not have."""
    owners = [*config.triggers, *config.bridges, *config.brokers]
    named: list[tuple[str, Sequence[str], Sequence[str]]] = [
        ("answers", list(scenario.answers), owners),
        ("dead_letters", list(scenario.dead_letters), owners),
        ("expect.triggers", list(scenario.expect.triggers), list(config.triggers)),
        ("expect.bridges", list(scenario.expect.bridges), list(config.bridges)),
    ]
    return [
        Failure(f"{section}.{name}", f"one of {', '.join(known) or 'none'}", _no(name, known))
        for section, names, known in named
        for name in names
        if name not in known
    ]


def _no(name: str, known: Sequence[str]) -> str:
    remedy = near(name, known)
    return f"`{name}` does not exist" + (f": {remedy}" if remedy else "")


def check(expect: ExpectConfig, played: Played) -> list[Failure]:
    """All failed expectations."""
    return list(_all(expect, played))


def _all(expect: ExpectConfig, played: Played) -> Iterator[Failure]:
    histories = played.stage.histories
    taken = [t for t in histories if t.event is not None and t.reply_of is None and not _returned(t)]
    if expect.accepted is not None and expect.accepted != len(taken):
        yield Failure("accepted", str(expect.accepted), str(len(taken)))
    yield from _refused(expect.refused, [t for t in histories if t.refused is not None])
    yield from _ids("duplicates", expect.duplicates, [t.id for t in histories if t.repeated])
    stored = [t for t in histories if t.to in played.built.brokers and t.event is not None and not t.repeated]
    lost = [t.id for t in stored if not _wanted(t)]
    yield from _ids("unrouted", expect.unrouted, lost)
    for kind, section in (("trigger", expect.triggers), ("bridge", expect.bridges)):
        for name, wanted in section.items():
            key: Key = ("trigger", name) if kind == "trigger" else ("bridge", name)
            for failure in _delivery(wanted, key, played):
                yield Failure(f"{kind}s.{name}.{failure.path}", failure.expected, failure.found)


def _returned(history: EventHistory) -> bool:
    return any(p.returned for p in history.deliveries.values())


def _wanted(history: EventHistory) -> bool:
    return any(p.clause.matched for p in history.deliveries.values())


def _ids(path: str, expected: list[str] | int | None, found: list[str]) -> Iterator[Failure]:
    if isinstance(expected, int):
        if expected != len(found):
            yield Failure(path, str(expected), f"{len(found)}: {shown(found)}")
    elif expected is not None and sorted(expected) != sorted(found):
        yield Failure(path, shown(expected), shown(found))


def _refused(expected: list[RefusedConfig] | int | None, found: list[EventHistory]) -> Iterator[Failure]:
    errors = [t.refused for t in found if t.refused is not None]
    said = [f"{e.status}: {e.detail}" for e in errors]
    if expected is None:
        return
    if isinstance(expected, int) or len(expected) != len(errors):
        count = expected if isinstance(expected, int) else len(expected)
        if count != len(errors):
            yield Failure("refused", str(count), f"{len(errors)}: {shown(said)}")
        return
    for i, (wanted, error) in enumerate(zip(expected, errors, strict=True)):
        if wanted.status not in (None, error.status):
            yield Failure(f"refused[{i}].status", str(wanted.status), said[i])
        if wanted.detail is not None and wanted.detail not in error.detail:
            yield Failure(f"refused[{i}].detail", f"text with {wanted.detail!r}", repr(error.detail))
        if wanted.attribute not in (None, error.attribute):
            yield Failure(f"refused[{i}].attribute", str(wanted.attribute), error.attribute or "none is named")


# -- one trigger or bridge ------------------------------------------------------------------------------------------


def deliveries_of(key: Key, played: Played) -> list[DeliveryRecord]:
    """The passages of a trigger or bridge, in the order of the events."""
    return [t.deliveries[key] for t in played.stage.histories if key in t.deliveries]


def replays_of(key: Key, played: Played) -> list[DeliveryRecord]:
    """What replays sent to a trigger again."""
    return [p for t in played.stage.histories for p in t.replays if p.key == key]


def _delivery(expect: DeliveryExpectConfig, key: Key, played: Played) -> Iterator[Failure]:
    deliveries = deliveries_of(key, played)

    def ids(state: str) -> list[str]:
        return [id_of(p.event) for p in deliveries if p.state == state]

    for state in ("delivered", "not_matched", "waiting", "returned"):
        yield from _ids(state, getattr(expect, state), ids(state))
    replayed = replays_of(key, played)
    yield from _ids("replayed", expect.replayed, [id_of(p.event) for p in replayed if p.state == "delivered"])
    deliveries = [*deliveries, *replayed]
    if expect.order is not None:
        done = sorted((p for p in deliveries if p.state == "delivered"), key=lambda p: p.delivered_s or 0.0)
        order = [id_of(p.event) for p in done]
        if expect.order != order:
            yield Failure("order", shown(expect.order, in_order=True), shown(order, in_order=True))
    dead_letters = [p.dead_letter for p in deliveries if p.dead_letter is not None]
    if isinstance(expect.dead_lettered, int):
        yield from _ids("dead_lettered", expect.dead_lettered, [id_of(e) for e in dead_letters])
    elif expect.dead_lettered is not None:
        yield from _events("dead_lettered", expect.dead_lettered, dead_letters)
    attempts = [a for p in deliveries for a in p.attempts]
    if expect.attempts is not None and expect.attempts != len(attempts):
        yield Failure("attempts", str(expect.attempts), str(len(attempts)))
    yield from _waits(expect.waits_s, deliveries)
    for i, sent in enumerate(expect.sent):
        yield from _sent(f"sent[{i}]", sent, attempts)
    if expect.replies is not None:
        yield from _replies(expect, key, played)
    if expect.blocked is not None and expect.blocked != _blocked(key, played):
        yield Failure("blocked", str(expect.blocked).lower(), str(not expect.blocked).lower())


def _blocked(key: Key, played: Played) -> bool:
    kind, name = key
    owner: BridgeView | TriggerView = played.built.bridges[name] if kind == "bridge" else played.built.triggers[name]
    return owner.delivery is not None and owner.delivery.blocked


def _waits(expected: list[float | tuple[float, float]] | None, deliveries: list[DeliveryRecord]) -> Iterator[Failure]:
    if expected is None:
        return
    waits = [wait for _, wait in sorted(w for p in deliveries for w in p.waits())]
    ranges = [(w - MILLISECOND, w + MILLISECOND) if isinstance(w, float | int) else w for w in expected]
    fits = len(waits) == len(ranges) and all(
        low - 1e-9 <= wait <= high + 1e-9 for wait, (low, high) in zip(waits, ranges, strict=True)
    )
    if not fits:
        said = ", ".join(f"{w:g}" if isinstance(w, float | int) else f"{w[0]:g} to {w[1]:g}" for w in expected)
        yield Failure("waits_s", said or "none", ", ".join(f"{round(w, 6):g}" for w in waits) or "none")


def _events(path: str, expected: Sequence[EventConfig], found: list[Event]) -> Iterator[Failure]:
    """Each expected event matches one that was found, and none is left over."""
    left = list(found)
    for i, wanted in enumerate(expected):
        fitting = _fitting(left, partial(differences, wanted))
        if isinstance(fitting, list):
            yield from (Failure(f"{path}[{i}].{d.path}", d.expected, d.found) for d in fitting)
            if not fitting:
                yield Failure(f"{path}[{i}]", wanted.id or "an event", "none")
        else:
            left.remove(fitting)
    if left and len(expected) < len(found):
        yield Failure(path, shown([e.id or "one" for e in expected]), shown([id_of(e) for e in found]))


def _fitting(found: list[Any], differ: Callable[[Any], list[Any]]) -> Any:
    """The first match; else the differences of the best candidate (an empty list if there is no candidate)."""
    best: list[Any] = []
    for one in found:
        wrong = differ(one)
        if not wrong:
            return one
        if not best or len(wrong) < len(best):
            best = wrong
    return best


def _sent(path: str, expected: SentConfig, attempts: list[Attempt]) -> Iterator[Failure]:
    of_id = [a for a in attempts if expected.id in (None, id_of(a.event))]
    candidates = [a for a in of_id if expected.attempt in (None, a.number)]
    if not candidates:
        said = f"attempt {expected.attempt}" if expected.attempt else "an attempt"
        yield Failure(path, f"{said} for {expected.id or 'any event'}", f"{len(of_id)} attempts for it")
        return
    wrong = _fitting(candidates, partial(sent_differences, expected))
    if isinstance(wrong, list):
        yield from (Failure(f"{path}.{d.path}", d.expected, d.found) for d in wrong)


def _replies(expect: DeliveryExpectConfig, key: Key, played: Played) -> Iterator[Failure]:
    expected = expect.replies or []
    found = [t for t in played.stage.histories if t.reply_of is not None and t.reply_of.key == key]
    if len(expected) != len(found):
        yield Failure("replies", str(len(expected)), f"{len(found)}: {shown([t.id for t in found])}")
        return
    for i, (wanted, history) in enumerate(zip(expected, found, strict=True)):
        assert history.event is not None
        for d in differences(wanted, history.event):
            yield Failure(f"replies[{i}].{d.path}", d.expected, d.found)
        takers = [name for (_, name), p in history.deliveries.items() if p.clause.matched]
        if wanted.to is not None:
            yield from _ids(f"replies[{i}].to", wanted.to, takers)
