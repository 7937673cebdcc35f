"""The delivery state of an event for one trigger or bridge: a word for programs, and a sentence for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway_core.contract.capabilities import Delaying, GivenUp, TracksDeliveries
from gateway_core.contract.moments import stamped, time_ns_of
from gateway_core.contract.topology import DeliveryView, Held, Topology, TriggerView

Facts = Mapping[str, Any]


def states_of(built: Topology, owner: str, id: str, source: str | None, position: int) -> dict[str, dict[str, Any]]:
    """What this worker knows about an event, by the names of the broker's triggers, or the bridge's own: the
    `delivery_state` (None if another worker knows it, or without a position), what is `held`, the `failures` of its
    attempts, and the state of the trigger."""
    found: dict[str, dict[str, Any]] = {}
    for name, trigger in built.triggers.items():
        if trigger.broker.name == owner:
            if trigger.delivery is None:
                found[name] = _reader_state(trigger, position)
            else:
                found[name] = _state_at(trigger.delivery, id, source, position)
    if owner in built.bridges:
        found[owner] = _state_at(built.bridges[owner].delivery, id, source, 0)
    return found


def _reader_state(trigger: TriggerView, position: int) -> dict[str, Any]:
    state = _delivery_state(trigger.feed, position)
    return {"delivery_state": state, "held": None, "failures": [], "given_up": None}


def given_up_facts(given_up: GivenUp | None) -> dict[str, Any] | None:
    """The facts about an event that was given up, as JSON values."""
    if given_up is None:
        return None
    return {
        "at": stamped(given_up.at_ns),
        "to": given_up.to,
        "reason": given_up.reason,
        "attempts": given_up.attempts,
        "code": given_up.code,
        "delivered": stamped(given_up.delivered_ns) if given_up.delivered_ns else None,
        "by": given_up.delivered_by or None,
    }


def _state_at(delivery: DeliveryView, id: str, source: str | None, position: int) -> dict[str, Any]:
    held = delivery.find_held(id, source, position)
    failures = [
        {"at": stamped(f.at_ns), "attempt": f.attempt, "code": f.code, "reason": f.reason}
        for f in delivery.failures.of(id, source)
        if position in (0, f.position)
    ]
    return {
        "delivery_state": _delivery_state(delivery.feed, position),
        "due": _due(delivery.feed, position),
        "held": None if held is None else _held_facts(held),
        "failures": failures,
        "given_up": given_up_facts(delivery.failures.given_up(id, source, position)),
        "complete": delivery.failures.complete,
        "in_flight": delivery.in_flight,
        "paused": delivery.paused,
        "blocked": delivery.blocked,
        "holding": delivery.holding,
        "last_error": delivery.failures.last,
    }


def _held_facts(held: Held) -> dict[str, Any]:
    return {
        "state": held.state,
        "attempts": held.attempts,
        "next": stamped(held.due_ns) if held.state == "waiting" else None,
        "until": None if held.until_ns is None else stamped(held.until_ns),
        "left": held.retries_left,
    }


def _delivery_state(feed: Any, position: int) -> str | None:
    return feed.delivery_state(position) if position and isinstance(feed, TracksDeliveries) else None


def _due(feed: Any, position: int) -> str | None:
    """When an event that waits for that is due."""
    due_ns = feed.due_ns(position) if position and isinstance(feed, Delaying) else None
    return stamped(due_ns) if due_ns else None


_KNOWING = (None, "unread", "settled", "before", "passed", "delayed", "pending")


def _knowledge(facts: Facts) -> tuple[bool, int]:
    return facts["held"] is not None, _KNOWING.index(facts["delivery_state"])


def _last(given_up: Facts | None) -> str:
    """When it was given up, or delivered after that; as text, which is in order."""
    return "" if given_up is None else given_up["delivered"] or given_up["at"]


def _ns(text: str) -> int:
    """A time as a number; 0 if it is none. Dead letters of earlier versions have fewer digits."""
    try:
        return time_ns_of(text)
    except ValueError:
        return 0


def merged(answers: list[dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Merges the answers of several workers: the one that has an event knows best, and then one that had it."""
    found: dict[str, dict[str, Any]] = {}
    for answer in answers:
        for name, theirs in answer.items():
            mine = found.setdefault(name, theirs)
            if mine is theirs:
                continue
            failures = mine["failures"] + theirs["failures"]
            # another worker than the one that gave it up may have delivered it again
            given_up = max((mine["given_up"], theirs["given_up"]), key=_last)
            best = max(mine, theirs, key=_knowledge)
            found[name] = {**best, "failures": failures, "given_up": given_up}
    return found


def state_of(
    delivery: Facts,
    where: Facts | None,
    dead_letter: Facts | None,
    given_up: Facts | None,
    found: bool,
    *,
    shared: bool = False,
) -> dict[str, Any]:
    """`state`: not_matched, before, waiting, in_flight, retrying, dead_lettering, dead_lettered, given_up, returned,
    delivered, settled, read or unknown; `text` describes it. `dead_letter` is one that can be read, `given_up` what the
    channel keeps about it. `found` is true if the event was found in its channel. `shared`: other gateways may deliver
    from the channel, and it keeps no list of what was given up."""
    remembered = where and where["given_up"]
    if remembered and (given_up is None or remembered["delivered"]):  # the channel writes a replay a moment later
        given_up = remembered
    if delivery and not delivery["matched"] and dead_letter is None and given_up is None:
        return _told("not_matched", "its filter does not match", None, None, None)
    if where is None:
        return _told("unknown", "nothing is known about it here", None, dead_letter, given_up)
    state, text = _state(delivery, where, dead_letter, given_up, found)
    if shared and found:
        state, text = _among_others(state, text, delivery, where)
    return _told(state, text, where, dead_letter, given_up)


def _told(
    state: str, text: str, where: Facts | None, dead_letter: Facts | None, given_up: Facts | None
) -> dict[str, Any]:
    told: dict[str, Any] = {"state": state, "text": text}
    if where and where["failures"]:
        told["failures"] = where["failures"]
    if where and where.get("due"):
        told["due"] = where["due"]
    if where and where["held"] and where["held"]["next"]:
        told["next"] = where["held"]["next"]
    if where and where["held"] and where["held"]["until"]:
        told["until"] = where["held"]["until"]
    if dead_letter is not None:
        told["dead_letter"] = dict(dead_letter)
    if given_up is not None:
        told["given_up"] = dict(given_up)
    return told


def _state(
    delivery: Facts, where: Facts, dead_letter: Facts | None, given_up: Facts | None, found: bool
) -> tuple[str, str]:
    held, state_of_feed = where["held"], where["delivery_state"]
    if held is not None:
        return _held(held, where)
    if state_of_feed == "pending":
        return "in_flight", "an attempt is in flight"
    if state_of_feed == "delayed":
        at = f", at {where['due']}" if where.get("due") else ""
        return "delayed", f"it waits until it is due{at}, and is delivered then"
    if state_of_feed == "unread":
        return "waiting", _why_waiting(where, "the trigger has not reached it yet")
    delivered = (given_up is not None and given_up["delivered"]) or ""
    if given_up is not None and dead_letter is not None and _ns(delivered) > _ns(str(dead_letter.get("last"))):
        state, text = _gone(given_up)
        return state, f"{text}; its dead letter is still stored"
    if dead_letter is not None:
        times = _times(dead_letter.get("attempts", 0))
        return (
            "dead_lettered",
            f"in the dead letter since {dead_letter.get('last')}, after {times}: {dead_letter.get('reason')}",
        )
    if given_up is not None:
        return _gone(given_up)
    if state_of_feed == "before":
        return "before", "the trigger is newer than the event, which was never for it"
    if state_of_feed in ("passed", "settled"):
        if delivery.get("reads"):
            return "read", "read by its sink"
        tried = " after retries" if where["failures"] else ""
        return "delivered", f"delivered{tried} (or it is older than the trigger or its current filter)"
    if where["failures"]:
        return "delivered", "delivered after retries"
    return "unknown", "neither being delivered nor in a dead letter" if found else "not known"


_ASK = "ask the gateway that reads it: `tidegate why ID --admin HOST:PORT`"


def _among_others(state: str, text: str, delivery: Facts, where: Facts) -> tuple[str, str]:
    """What can be said where other gateways may have had the event."""
    if state not in ("delivered", "unknown") or where["given_up"] is not None:
        return state, text
    if where["delivery_state"] is None:
        return "unknown", f"not known here: another gateway that shares this channel has its part, or had it; {_ASK}"
    if state == "delivered" and not (where["delivery_state"] == "passed" and where.get("complete", True)):
        to = f" and sent to {delivery['dead_letter']}" if delivery.get("dead_letter") else ""
        return (
            "settled",
            f"the trigger has passed it, and how is not known here: delivered, or given up{to}, by another gateway that"
            " shares this channel, or by this one before its start or a reload; or the event is older than the trigger."
            " The channel keeps no list of that: look into the dead letters of all its gateways",
        )
    return state, text


def _gone(given_up: Facts) -> tuple[str, str]:
    """Of an event that was given up and is in no dead letter that can be read here."""
    times, reason = _times(given_up["attempts"]), given_up["reason"]
    if given_up["delivered"]:
        by = given_up.get("by")
        how = "" if not by else " by a rewind" if by == "rewind" else f" by replay {by}"
        when = given_up["delivered"]
        return "delivered", f"given up at {given_up['at']} after {times}: {reason}; replayed at {when}{how}"
    if not given_up["to"]:
        return "returned", f"returned to its sender at {given_up['at']}, after {times}: {reason}"
    return "given_up", f"given up at {given_up['at']}, sent to {given_up['to']}, after {times}: {reason}"


_HELD = "it is held while the subscriber gives no answer"


def _held(held: Facts, where: Facts) -> tuple[str, str]:
    times = held["attempts"]
    if held["state"] == "letter":
        if where["blocked"]:
            return (
                "dead_lettering",
                f"its dead letter can't be written, and the trigger waits for it: {where['last_error']}",
            )
        return "dead_lettering", "its dead letter is being written"
    if held["state"] == "waiting":
        text = f"{_times(times)} failed, the next one is at {held['next']}{_how_long(held)}"
        return "retrying", f"{text}; {_HELD}" if where.get("holding") else text
    if held["state"] == "behind":
        return "waiting", _why_waiting(where, "it waits behind an earlier event of the same order")
    if times:
        return "retrying", _why_waiting(where, f"{_times(times)} failed, the next one is due{_how_long(held)}")
    return "waiting", _why_waiting(where, "it waits for its first attempt")


def _how_long(held: Facts) -> str:
    """Until when it is retried, and how often; whichever comes first."""
    left, until = held["left"], held["until"]
    ends = [f"until {until}"] if until else []
    if left is not None:
        ends.append(f"{left} {'time' if left == 1 else 'times'} more at most")
    return f"; it is retried {', '.join(ends)}" if ends else ""


def _why_waiting(where: Facts, text: str) -> str:
    if where.get("paused"):
        return f"{text}; the trigger is paused by an operator"
    if where.get("blocked"):
        return f"{text}; the trigger waits for its dead letter: {where['last_error']}"
    if where.get("holding"):
        return f"{text}; {_HELD}"
    if where.get("in_flight"):
        return f"{text}; {where['in_flight']} others are in flight"
    return text


def _times(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count} attempts"
