"""One event's way as a timeline: what `why` knows about it, and what was recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from gateway_core.contract.moments import time_ns_of

_SAME_NS = 250_000_000
"""A failure and a recorded attempt this close are the same one."""
_FIRST, _LAST = 4, 12
_WAIT_NS = 5_000_000
_TONES = {
    "delivered": "good",
    "read": "good",
    "dead_lettered": "bad",
    "given_up": "bad",
    "returned": "warn",
    "dead_lettering": "warn",
    "retrying": "warn",
}


@dataclass(slots=True)
class Moment:
    """Something that happened. `at_ns` is None if it is not known when, `seconds` how long it took. `where` is the
    trigger or bridge, `headers` are those of the message that brought the event."""

    kind: str
    title: str
    at_ns: int | None = None
    tone: str = ""
    where: str = ""
    note: str = ""
    seconds: float | None = None
    number: int = 0
    headers: Sequence[Sequence[str]] = ()


@dataclass(slots=True)
class Timeline:
    """`before`: until the event was accepted; `after`: attempts, waits and dead letters of all triggers in their order;
    `next`: what is still to come. `deliveries` are those of `why`, those that matched first."""

    before: list[Moment] = field(default_factory=list)
    deliveries: list[dict[str, Any]] = field(default_factory=list)
    after: list[Moment] = field(default_factory=list)
    next: list[Moment] = field(default_factory=list)

    @property
    def parts(self) -> tuple[list[Moment], list[Moment], list[Moment]]:
        """`after` in three: the first steps, those between, which a page may fold, and the last ones."""
        if len(self.after) <= _FIRST + _LAST + 4:
            return self.after, [], []
        return self.after[:_FIRST], self.after[_FIRST:-_LAST], self.after[-_LAST:]

    @property
    def matched(self) -> list[dict[str, Any]]:
        """The deliveries that matched."""
        return [delivery for delivery in self.deliveries if delivery["matched"]]


def nanoseconds(text: str | None) -> int | None:
    """Unix time of an RFC 3339 time."""
    if not text:
        return None
    try:
        return time_ns_of(text)
    except ValueError:
        return None


def timeline(entry: Mapping[str, Any], recorded: Sequence[Mapping[str, Any]]) -> Timeline:
    """The timeline of one of `why`'s events, and the entries that were recorded about it."""
    made = Timeline()
    of_it = [e for e in recorded if not (e["position"] and entry["position"]) or e["position"] == entry["position"]]
    made.before = _before(entry, of_it)
    for delivery in sorted(entry["deliveries"], key=lambda d: not d["matched"]):
        name = delivery["name"]
        mine = [e for e in of_it if e["where"] == name]
        attempts = _attempts(delivery, [e for e in mine if e["kind"] == "attempt"])
        shown = dict(delivery)
        if any(step.tone == "good" for step in attempts) and shown["state"] in ("delivered", "unknown", "in_flight"):
            number = len(attempts)
            shown.update(state="delivered", text=f"delivered by attempt {attempts[-1].number or number}")
        shown["tone"] = _TONES.get(shown["state"], "")
        made.deliveries.append(shown)
        made.after += [*attempts, *_waits(attempts), *_dead_letter(delivery, mine)]
        made.next += _next(shown)
    made.after.sort(key=lambda step: (step.at_ns or 0, step.kind != "wait"))
    return made


def _before(entry: Mapping[str, Any], recorded: Sequence[Mapping[str, Any]]) -> list[Moment]:
    came = next((e for e in recorded if e["kind"] == "accepted"), None)
    first: Mapping[str, Any] = came or next((e for e in recorded if "from" in e or "sender" in e), {})
    at = nanoseconds(entry["received"]) or first.get("received_ns") or None
    who, place = first.get("sender"), first.get("from")
    sender = f"sent by {who['subject']}" + (f" ({who['by']})" if who["by"] else "") if who else ""
    note = " ".join(filter(None, (sender, f"from {place}" if place else "")))
    steps = [Moment("received", "Received", at, note=note, headers=first.get("headers", ()))] if at or note else []
    stored = f"Accepted by {entry['broker']}" + (f" at position {entry['place']}" if entry["place"] else "")
    if came is None:
        return [*steps, Moment("accepted", stored)] if entry["place"] else steps
    took = (came["at_ns"] - at) / 1e9 if at and came["at_ns"] >= at else None
    return [*steps, Moment("accepted", stored, came["at_ns"], "good", seconds=took)]


def _attempts(delivery: Mapping[str, Any], recorded: Sequence[Mapping[str, Any]]) -> list[Moment]:
    """The attempts of one trigger in their order, with their numbers as far as they are known."""
    steps = [
        Moment(
            "attempt",
            "",
            e["at_ns"],
            "good" if e["delivered"] else "bad",
            delivery["name"],
            _answer(e["code"], e["reason"], e["delivered"]),
            e["seconds"] or None,
        )
        for e in recorded
    ]
    unknown = []
    for failure in delivery.get("failures", ()):
        at = nanoseconds(failure["at"]) or 0
        near = [s for s in steps if not s.number and s.tone == "bad" and abs((s.at_ns or 0) - at) <= _SAME_NS]
        if near:
            min(near, key=lambda s: abs((s.at_ns or 0) - at)).number = failure["attempt"]
        else:
            note = _answer(failure["code"], failure["reason"], False)
            unknown.append(Moment("attempt", "", at, "bad", delivery["name"], note, None, failure["attempt"]))
    steps = sorted([*steps, *unknown], key=lambda s: s.at_ns or 0)
    number = 0
    for step in steps:
        number = step.number = step.number or number + 1
        step.title = f"Attempt {number}: {'delivered' if step.tone == 'good' else 'failed'}"
    return steps


def _answer(code: int | None, reason: str | None, delivered: bool) -> str:
    reason = reason or ""
    text = reason if code is None or reason.startswith(str(code)) else f"{code} {reason}".strip()
    return text or ("answer: accepted" if delivered else "")


def _waits(attempts: Sequence[Moment]) -> list[Moment]:
    waits = []
    for before, after in pairwise(attempts):
        began = (after.at_ns or 0) - int((after.seconds or 0) * 1e9)
        waited = began - (before.at_ns or 0)
        if before.at_ns and waited > _WAIT_NS:
            waits.append(Moment("wait", "Waited", before.at_ns + 1, where=before.where, seconds=waited / 1e9))
    return waits


def _dead_letter(delivery: Mapping[str, Any], recorded: Sequence[Mapping[str, Any]]) -> list[Moment]:
    written = [e["at_ns"] for e in recorded if e["kind"] == "dead_letter"]
    facts = delivery.get("dead_letter")
    if not written and not facts:
        return []
    note = str((facts or {}).get("reason") or "")
    times = (facts or {}).get("attempts")
    at = written[-1] if written else nanoseconds((facts or {}).get("last"))
    title = "Dead letter" + (f" after {times} attempt{'s' if int(times) != 1 else ''}" if times else "")
    return [Moment("dead_letter", title, at, "bad", delivery["name"], note)]


def _next(delivery: Mapping[str, Any]) -> list[Moment]:
    if delivery["state"] not in ("waiting", "in_flight", "retrying", "dead_lettering"):
        return []
    at = nanoseconds(delivery.get("next"))
    return [Moment("next", delivery["state"].replace("_", " "), at, "warn", delivery["name"], delivery["text"])]
