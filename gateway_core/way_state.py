"""What became of an event on one of its ways: a word for programs, and a sentence for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Facts = Mapping[str, Any]


def state_of(way: Facts, where: Facts | None, letter: Facts | None, found: bool) -> dict[str, Any]:
    """`state`: not_matched, before, waiting, in_flight, retrying, dead_lettering, dead_lettered, delivered, read or
    unknown; `text` says it in words. `found` says whether the event was found in its channel."""
    if way and not way["matched"] and letter is None:
        return _told("not_matched", "its filter does not match", None, None)
    if where is None:
        return _told("unknown", "nothing is known of it here", None, letter)
    state, text = _state(way, where, letter, found)
    return _told(state, text, where, letter)


def _told(state: str, text: str, where: Facts | None, letter: Facts | None) -> dict[str, Any]:
    told: dict[str, Any] = {"state": state, "text": text}
    if where and where["failures"]:
        told["failures"] = where["failures"]
    if where and where["held"] and where["held"]["next"]:
        told["next"] = where["held"]["next"]
    if letter is not None:
        told["letter"] = dict(letter)
    return told


def _state(way: Facts, where: Facts, letter: Facts | None, found: bool) -> tuple[str, str]:
    held, standing = where["held"], where["standing"]
    if held is not None:
        return _held(held, where)
    if standing == "pending":
        return "in_flight", "an attempt is under way"
    if standing == "unread":
        return "waiting", _why_waiting(where, "the trigger has not come to it yet")
    if letter is not None:
        times = _times(letter.get("attempts", 0))
        return (
            "dead_lettered",
            f"in the dead letter since {letter.get('last')}, after {times}: {letter.get('reason')}",
        )
    if standing == "before":
        return "before", "the trigger is newer than the event"
    if standing == "passed":
        if way.get("reads"):
            return "read", "read by its sink"
        tried = " at last" if where["failures"] else ""
        return "delivered", f"delivered{tried} (or it came before the trigger, or before the filter was what it is)"
    if where["failures"]:
        return "delivered", "delivered at last, or given back to its sender"
    return "unknown", "neither on its way nor in a dead letter" if found else "not known"


def _held(held: Facts, where: Facts) -> tuple[str, str]:
    times = held["attempts"]
    if held["state"] == "letter":
        if where["stuck"]:
            return "dead_lettering", f"its letter can't be written, the trigger waits for that: {where['last_error']}"
        return "dead_lettering", "its letter is being written"
    if held["state"] == "waiting":
        return "retrying", f"{_times(times)} failed, the next is at {held['next']}"
    if held["state"] == "behind":
        return "waiting", _why_waiting(where, "it stands behind an earlier event of its order")
    if times:
        return "retrying", _why_waiting(where, f"{_times(times)} failed, the next is due")
    return "waiting", _why_waiting(where, "it waits for its first attempt")


def _why_waiting(where: Facts, text: str) -> str:
    if where.get("suspended"):
        return f"{text}; the trigger is paused by an operator"
    if where.get("stuck"):
        return f"{text}; the trigger waits for its dead letter: {where['last_error']}"
    if where.get("in_flight"):
        return f"{text}; {where['in_flight']} others are in flight"
    return text


def _times(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count} attempts"
