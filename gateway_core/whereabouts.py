"""Where one event is for each trigger or bridge, as this worker knows it."""

from __future__ import annotations

from typing import Any

from .abilities import Placed
from .broker import ReadingTrigger
from .build import Built
from .delivery import Subscription
from .delivery.deadletter import rfc3339
from .delivery.memory import id_of


def whereabouts(built: Built, owner: str, id: str, source: str | None, position: int) -> dict[str, dict[str, Any]]:
    """By the names of a broker's triggers, or a bridge's own: `standing` (None where that isn't known here; without a
    position it never is), what is `held` of it, the `failures` of its attempts, and how the trigger is."""
    found: dict[str, dict[str, Any]] = {}
    for name, trigger in built.triggers.items():
        if trigger.broker.name == owner:
            if isinstance(trigger, ReadingTrigger):
                found[name] = {"standing": _standing(trigger.feed, position), "held": None, "failures": []}
            else:
                found[name] = _of(trigger.subscription, id, source, position)
    if owner in built.bridges:
        found[owner] = _of(built.bridges[owner].bridge.subscription, id, source, 0)
    return found


def _of(subscription: Subscription, id: str, source: str | None, position: int) -> dict[str, Any]:
    held = None
    for state, delivery in subscription.under_way():
        event = delivery.event
        same = event.position == position if position else id_of(event) == id
        if same and source in (None, event.attributes.get("source")):
            due = rfc3339(delivery.due_ns) if state == "waiting" else None
            held = {"state": state, "attempts": delivery.attempts, "next": due}
            break
    failures = [
        {"at": rfc3339(f.at_ns), "attempt": f.attempt, "code": f.code, "reason": f.reason}
        for f in subscription.memory.of(id, source)
        if position in (0, f.position)
    ]
    return {
        "standing": _standing(subscription.feed, position),
        "held": held,
        "failures": failures,
        "in_flight": subscription.in_flight,
        "suspended": subscription.suspended,
        "stuck": subscription.paused,
        "last_error": subscription.last_error,
    }


def _standing(feed: Any, position: int) -> str | None:
    return feed.standing(position) if position and isinstance(feed, Placed) else None


def merged(answers: list[dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """The answers of several workers as one: each event is with one of them."""
    found: dict[str, dict[str, Any]] = {}
    for answer in answers:
        for name, theirs in answer.items():
            mine = found.setdefault(name, theirs)
            if mine is theirs:
                continue
            knows = theirs["held"] is not None or theirs["standing"] is not None
            failures = mine["failures"] + theirs["failures"]
            found[name] = {**mine, **(theirs if knows else {}), "failures": failures}
    return found
