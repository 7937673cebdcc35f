"""What a gateway would do with an event: who wants it and why, what would be sent, in which order, and the retries.

`explain(built, event)` asks the parts of a gateway, running or merely built, and changes nothing.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any

from . import eventjson
from .abilities import Previewing, Reading
from .broker import ReadingTrigger, Trigger
from .build import Bridged, Built
from .delivery import Subscription
from .delivery.plan import retry_plan
from .errors import Refused
from .event import PARTITION_BITS, Event, Message
from .filters import clause_of, match_all
from .interfaces import Clause

_MOST_BODY = 64 * 1024


def explain(built: Built, event: Event, broker: str | None = None, trigger: str | None = None) -> dict[str, Any]:
    """The explanation as JSON values: `event`, `wanted` (by how many), `ways`: one for each trigger and bridge, of this
    broker or bridge, and of this name, where given; `others`: the names of other triggers that want it."""

    def asked(name: str, of_broker: str) -> bool:
        return broker in (None, of_broker) and trigger in (None, name)

    triggers, bridges = built.triggers, built.bridges
    entries = [
        *(_trigger(t, event) for n, t in triggers.items() if asked(n, t.broker.name)),
        *(_orphan(n, c.broker) for n, c in built.orphans.items() if asked(n, c.broker)),
        *(_bridge(b, event) for n, b in bridges.items() if not trigger and broker in (None, n)),
    ]
    others = [
        name
        for name, t in triggers.items()
        if not asked(name, t.broker.name)
        and (not trigger or broker in (None, t.broker.name))  # of its own broker: there it could have come in
        and clause_of(t.filter, event).matched
    ]
    return {"event": _head(event), "wanted": sum(e["matched"] for e in entries), "ways": entries, "others": others}


def explain_text(
    text: bytes, built: Built, sources: Mapping[str, list[Any]], broker: str | None = None, trigger: str | None = None
) -> dict[str, Any]:
    """The explanation of an event in JSON, as the ingress would read it; `sources` are those of each broker and bridge.
    `refused` says what that would answer, None where it takes the event. Raises `ValueError` where it is no object."""
    if broker is None and trigger is not None and trigger in built.triggers:
        broker = built.triggers[trigger].broker.name
    doors = [s for owner, of_it in sources.items() if broker in (None, owner) for s in of_it]
    readers = [s for s in doors if isinstance(s, Reading)]
    try:
        event = read_event(text, readers[:1])
    except Refused as e:
        refused = {"status": e.status, "detail": e.detail, "attribute": e.attribute or None, "rule": e.rule or None}
        return {"event": _head(eventjson.load(text)), "wanted": 0, "refused": refused, "ways": [], "others": []}
    return {**explain(built, event, broker, trigger), "refused": None}


def sources_of(built: Built) -> dict[str, list[Any]]:
    """The sources of each broker and bridge."""
    return {
        **{name: list(broker.sources) for name, broker in built.brokers.items()},
        **{name: [bridged.inlet.source] for name, bridged in built.bridges.items()},
    }


def _head(event: Event) -> dict[str, Any]:
    return {
        name: event.attributes[name]
        for name in ("id", "source", "type", "eventID", "eventType")
        if name in event.attributes
    }


def _trigger(trigger: Trigger | ReadingTrigger, event: Event) -> dict[str, Any]:
    entry = _way("trigger", trigger.name, trigger.broker.name, clause_of(trigger.filter, event))
    if isinstance(trigger, ReadingTrigger):
        return {**entry, "sink": trigger.sink.address, "reads": True}
    try:
        event = _after_channel(trigger.broker.channel, event)
    except Refused as e:
        return {**entry, "sink": trigger.subscription.sink.address, "fault": f"the channel can't keep it: {e.detail}"}
    return {**entry, **_delivery(trigger.subscription, trigger.dead_letter.address, event)}


def _orphan(name: str, broker: str) -> dict[str, Any]:
    return {**_way("trigger", name, broker, Clause(f"there is no broker {broker!r}", False)), "sink": ""}


def _bridge(bridged: Bridged, event: Event) -> dict[str, Any]:
    bridge, letters = bridged.bridge, bridged.dead_letter
    entry = _way("bridge", bridge.name, "", clause_of(bridge.filter or match_all(), event))
    made = {**entry, **_delivery(bridge.subscription, letters.address if letters else None, event)}
    if letters is None and getattr(bridged.inlet.source, "pulls", False):
        made["endless"] = True  # its source can wait: there are more retries after those
    return made


def _way(kind: str, name: str, broker: str, clause: Clause) -> dict[str, Any]:
    return {"kind": kind, "name": name, "broker": broker, "matched": clause.matched, "filter": clause_json(clause)}


def clause_json(clause: Clause) -> dict[str, Any]:
    """A clause as JSON values."""
    made: dict[str, Any] = {"text": clause.text, "matched": clause.matched}
    if clause.found:
        made["found"] = clause.found
    if clause.parts:
        made["parts"] = [clause_json(part) for part in clause.parts]
    return made


def _after_channel(channel: Any, event: Event) -> Event:
    """The event as triggers get it: a channel that writes records may give it another key."""
    if not isinstance(channel, Previewing):
        return event
    key = channel.preview(event).key
    return Event(event.attributes, event.data, event.json_data, key, event.received_ns, event.position)


# -- what would be sent ---------------------------------------------------------------------------------------------


def _delivery(subscription: Subscription, dead_letter: str | None, event: Event) -> dict[str, Any]:
    policy = subscription.policy
    entry: dict[str, Any] = {"sink": subscription.sink.address, "message": None, "fault": None}
    if isinstance(subscription.sink, Previewing):
        try:
            entry["message"] = message_json(subscription.sink.preview(event))
        except Refused as e:
            entry["fault"] = f"the event can't be sent: {e.detail}"
    try:
        entry["lane"] = _lane(subscription, event)
    except Refused as e:
        entry["lane"] = None
        entry["fault"] = f"the event has no key for its order: {e.detail}"
    return {
        **entry,
        "order": policy.order,
        "timeout_s": policy.timeout_s,
        "retries": [{"retry": n, "after_s": list(wait)} for n, wait in enumerate(retry_plan(policy), 1)],
        "retry_after_max_s": policy.retry_after_max_s,
        "dead_letter": dead_letter,
    }


def _lane(subscription: Subscription, event: Event) -> str | None:
    if subscription.lane_of is None:
        return None
    if subscription.policy.order == "partition":
        return f"partition {event.position >> PARTITION_BITS}" if event.position else "its partition"
    lane = subscription.lane_of(event)
    return None if lane is None else f"key {_text(lane) if isinstance(lane, bytes) else lane}"


def message_json(message: Message) -> dict[str, Any]:
    """A message as JSON values; a body or key that is no UTF-8 text is base64 in `body_base64`, `key_base64`."""
    made: dict[str, Any] = {"method": message.method or None, "url": message.url}
    if message.url.startswith("kafka://"):
        made["topic"] = message.url.rpartition("/")[2]
    made["headers"] = [[_text(name), _text(value)] for name, value in message.headers]
    for name, value in (("key", message.key), ("body", message.body)):
        made.update(_bytes(name, value))
    return made


def _bytes(name: str, value: bytes | None) -> Iterator[tuple[str, Any]]:
    if value is None:
        yield name, None
        return
    kept = value[:_MOST_BODY]
    if len(value) > _MOST_BODY:
        yield f"{name}_bytes", len(value)
    try:
        yield name, kept.decode()
    except UnicodeDecodeError:
        yield f"{name}_base64", b64encode(kept).decode()


def _text(value: bytes) -> str:
    return value.decode(errors="backslashreplace")


def read_event(text: bytes, sources: list[Any]) -> Event:
    """The event of a JSON text: as the first of these sources that says what it reads would read it, else as it is.
    Raises `Refused`, and `ValueError` where it is no JSON object."""
    event = eventjson.load(text)
    for source in sources:
        events: list[Event] = source.read(
            Message([(b"content-type", b"application/cloudevents+json")], eventjson.structured(event), event.key)
        )
        if len(events) == 1:
            events[0].key = event.key
            return events[0]
    return event
