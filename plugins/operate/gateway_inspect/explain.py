"""What a gateway would do with an event: which triggers match and why, what they would send, in which order, and the
retries.

`explain(built, event)` reads a gateway, running or merely built, and changes nothing.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gateway_access.decisions import Sender, decisions
from gateway_cloudevents import event_json

from gateway_core.contract import event_data
from gateway_core.contract.backoff import ceiling_s, wait_s
from gateway_core.contract.capabilities import KnowsKeys, Previewing, Reading, pulls
from gateway_core.contract.clock import Clock, SystemClock
from gateway_core.contract.component import BuildContext, ComponentBuilder
from gateway_core.contract.config_model import DeliveryConfig, GatewayConfig
from gateway_core.contract.errors import Refused, StorageError
from gateway_core.contract.event import PARTITION_BITS, Event, Message, split_position
from gateway_core.contract.filters import clause_of, match_all
from gateway_core.contract.interfaces import Clause, Sink
from gateway_core.contract.moments import stamped
from gateway_core.contract.options import redacted
from gateway_core.contract.replayable import TellsReplays
from gateway_core.contract.services import GatewayView
from gateway_core.contract.topology import BridgeView, BrokerView, DeliveryView, Topology, TriggerView

MOST_RETRIES = 1000
"""The most retries that a plan lists."""
_MOST_BODY = 64 * 1024


Again = Callable[[str, Event], Sequence[str]]
"""What running replays do with an event for a trigger (`TellsReplays.replays_of`)."""


def again_of(gateway: GatewayView) -> Again:
    """Asks the gateway's services."""
    tellers = [service for service in gateway.services.values() if isinstance(service, TellsReplays)]
    return lambda trigger, event: [text for teller in tellers for text in teller.replays_of(trigger, event)]


def explain(
    built: Topology,
    event: Event,
    broker: str | None = None,
    trigger: str | None = None,
    again: Again | None = None,
) -> dict[str, Any]:
    """The explanation as JSON values: `event`; `wanted`, how many match; `deliveries`, one for each trigger and bridge
    (only of this broker or bridge, and of this name, if given), each with the `replays` that `again` tells; `others`,
    the names of other triggers that match."""

    def asked(name: str, of_broker: str) -> bool:
        return broker in (None, of_broker) and trigger in (None, name)

    triggers, bridges = built.triggers, built.bridges
    entries = [
        *(_with_replays(_trigger(t, event), event, again) for n, t in triggers.items() if asked(n, t.broker.name)),
        *(_orphan(n, c.broker) for n, c in built.orphans.items() if asked(n, c.broker)),
        *(_bridge(b, event) for n, b in bridges.items() if not trigger and broker in (None, n)),
    ]
    others = [
        name
        for name, t in triggers.items()
        if not asked(name, t.broker.name)
        and (not trigger or broker in (None, t.broker.name))  # of its own broker: it may have arrived there
        and clause_of(t.filter, event).matched
    ]
    event_data.release()
    return {
        "event": _head(event),
        "wanted": sum(e["matched"] for e in entries),
        "deliveries": entries,
        "others": others,
    }


def _with_replays(entry: dict[str, Any], event: Event, again: Again | None) -> dict[str, Any]:
    replays = again(entry["name"], event) if again is not None else ()
    return {**entry, "replays": [*replays]} if replays else entry


Decide = Callable[[Event, str | None], list[dict[str, Any]]]
"""Who would be let in with an event, at each ingress (of a broker)."""


def explain_text(
    text: bytes,
    built: Topology,
    sources: Mapping[str, list[Any]],
    broker: str | None = None,
    trigger: str | None = None,
    decide: Decide | None = None,
    again: Again | None = None,
) -> dict[str, Any]:
    """The explanation of an event in JSON, as the ingress would read it; `sources` are those of each broker and bridge.
    `refused` is the error that the ingress would return, None if it accepts the event; `access` says what `decide`
    does, if it is given. Raises `ValueError` if the text
    is not a JSON object."""
    if broker is None and trigger is not None and trigger in built.triggers:
        broker = built.triggers[trigger].broker.name
    doors = [s for owner, of_it in sources.items() if broker in (None, owner) for s in of_it]
    readers = [s for s in doors if isinstance(s, Reading)]
    try:
        event = read_event(text, readers[:1])
    except Refused as e:
        refused = {"status": e.status, "detail": e.detail, "attribute": e.attribute or None, "rule": e.rule or None}
        return {"event": _head(event_json.load(text)), "wanted": 0, "refused": refused, "deliveries": [], "others": []}
    access = {} if decide is None else {"access": decide(event, broker)}
    return {**explain(built, event, broker, trigger, again), "refused": None, **access}


async def add_duplicates(
    found: dict[str, Any], text: bytes, built: Topology, broker: str | None, trigger: str | None
) -> None:
    """Adds to an explanation of an event in JSON `duplicates`: the brokers (only this one, or that of this trigger, if
    given) that would not store it again, with the position of the first. Channels that can't tell are left out."""
    if found["refused"]:
        return
    if broker is None and trigger is not None and trigger in built.triggers:
        broker = built.triggers[trigger].broker.name
    told = [
        duplicate
        for name, view in built.brokers.items()
        if broker in (None, name) and (duplicate := await _duplicate(name, view, text)) is not None
    ]
    if told:
        found["duplicates"] = told


async def _duplicate(name: str, broker: BrokerView, text: bytes) -> dict[str, Any] | None:
    if not isinstance(broker.channel, KnowsKeys):
        return None
    readers = [bound.source for bound in broker.bound_sources if isinstance(bound.source, Reading)]
    try:
        first = await broker.channel.first_of(read_event(text, readers[:1]))
    except Refused:
        return None
    except StorageError as e:
        return {"broker": name, "fault": str(e)}
    if first is None:
        return None
    partition, number = split_position(first.first)
    return {"broker": name, "first": first.first, "place": f"{partition}/{number}", "differs": first.differs}


def deciding(config: GatewayConfig, registry: ComponentBuilder, clock: Clock, sender: Sender | None) -> Decide | None:
    """Decides by this config about a sender; None without one."""
    if sender is None:
        return None
    context = BuildContext("", Path(), clock, registry, offline=True)
    return lambda event, broker: decisions(config, context, sender, event, broker)


def sources_of(built: Topology) -> dict[str, list[Any]]:
    """The sources of each broker and bridge."""
    return {
        **{name: [bound.source for bound in broker.bound_sources] for name, broker in built.brokers.items()},
        **{name: [bridged.bound_source.source] for name, bridged in built.bridges.items()},
    }


def _head(event: Event) -> dict[str, Any]:
    return {
        name: event.attributes[name]
        for name in ("id", "source", "type", "eventID", "eventType")
        if name in event.attributes
    }


def _trigger(trigger: TriggerView, event: Event) -> dict[str, Any]:
    entry = _delivery_lines("trigger", trigger.name, trigger.broker.name, clause_of(trigger.filter, event))
    if (delivery := trigger.delivery) is None:
        return {**entry, "sink": trigger.sink.address, "reads": True}
    try:
        event = _after_channel(trigger.broker.channel, event)
    except Refused as e:
        return {**entry, "sink": delivery.sink.address, "fault": f"the channel can't store it: {e.detail}"}
    made = {**entry, **_delivery(delivery, _address(trigger.dead_letter), event)}
    return made if trigger.due_of is None else {**made, **_delay(trigger.due_of, event)}


def _delay(due_of: Callable[[Event, int], int], event: Event) -> dict[str, Any]:
    """Until when it waits, if it came now; or why that can't be told."""
    now_ns = SystemClock().now_ns()
    try:
        due_ns = due_of(event, now_ns)
    except ValueError as e:
        return {"fault": f"to the dead letter at once: {e}"}
    return {"delay": {"due": stamped(due_ns), "wait_s": round((due_ns - now_ns) / 1e9, 3)}} if due_ns > now_ns else {}


def _orphan(name: str, broker: str) -> dict[str, Any]:
    return {**_delivery_lines("trigger", name, broker, Clause(f"there is no broker {broker!r}", False)), "sink": ""}


def _bridge(bridged: BridgeView, event: Event) -> dict[str, Any]:
    entry = _delivery_lines("bridge", bridged.name, "", clause_of(bridged.filter or match_all(), event))
    made = {**entry, **_delivery(bridged.delivery, _address(bridged.dead_letter), event)}
    if bridged.dead_letter is None and pulls(bridged.bound_source.source):
        made["endless"] = True  # its source can wait, so more retries follow
    return made


def _address(dead_letter: Sink | None) -> str | None:
    return dead_letter.address if dead_letter is not None else None


def _delivery_lines(kind: str, name: str, broker: str, clause: Clause) -> dict[str, Any]:
    return {"kind": kind, "name": name, "broker": broker, "matched": clause.matched, "filter": clause_json(clause)}


def clause_json(clause: Clause) -> dict[str, Any]:
    """A clause as JSON values."""
    made: dict[str, Any] = {"text": clause.text, "matched": clause.matched}
    if clause.found:
        made["found"] = clause.found
    if clause.parts:
        made["parts"] = [clause_json(part) for part in clause.parts]
    if clause.data:
        made["data"] = True
    return made


def _after_channel(channel: Any, event: Event) -> Event:
    """The event as triggers get it: a channel that writes records may change its key."""
    if not isinstance(channel, Previewing):
        return event
    key = channel.preview(event).key
    return Event(event.attributes, event.data, event.json_data, key, event.received_ns, event.position)


# -- messages ---------------------------------------------------------------------------------------------


def _delivery(delivery: DeliveryView, dead_letter: str | None, event: Event) -> dict[str, Any]:
    policy = delivery.policy
    entry: dict[str, Any] = {"sink": delivery.sink.address, "message": None, "fault": None}
    if isinstance(delivery.sink, Previewing):
        try:
            entry["message"] = redacted(message_json(delivery.sink.preview(event)))
        except Refused as e:
            entry["fault"] = f"the event can't be sent: {e.detail}"
    try:
        entry["order_key"] = _order_key(delivery, event)
    except Refused as e:
        entry["order_key"] = None
        entry["fault"] = f"the event has no key for its order: {e.detail}"
    return {
        **entry,
        "order": policy.order,
        "timeout_s": policy.timeout_s,
        "retries": [{"retry": n, "after_s": list(wait)} for n, wait in enumerate(retry_plan(policy), 1)],
        "retry_after_max_s": policy.retry_after_max_s,
        "retry_for_s": None if policy.retries_for_s == float("inf") else policy.retries_for_s,
        "hold_while_down": policy.hold_while_down,
        "dead_letter": dead_letter,
    }


def _order_key(delivery: DeliveryView, event: Event) -> str | None:
    if delivery.order_key_of is None:
        return None
    if delivery.policy.order == "partition":
        return f"partition {event.position >> PARTITION_BITS}" if event.position else "its partition"
    key = delivery.order_key_of(event)
    return None if key is None else f"key {_text(key) if isinstance(key, bytes) else key}"


def message_json(message: Message) -> dict[str, Any]:
    """A message as JSON values; a body or key that is not UTF-8 is base64 in `body_base64`, `key_base64`."""
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
    """The event of a JSON text: read as the first of these sources that can preview would read it, else as is. Raises
    `Refused`, and `ValueError` if it is not a JSON object."""
    event = event_json.load(text)
    for source in sources:
        events: list[Event] = source.read(
            Message([(b"content-type", b"application/cloudevents+json")], event_json.structured(event), event.key)
        )
        if len(events) == 1:
            events[0].key = event.key
            return events[0]
    return event


def retry_plan(policy: DeliveryConfig) -> list[tuple[float, float]]:
    """For retry 1, 2, …: the shortest and the longest wait before it, in seconds, if each took its longest. A
    `Retry-After` (up to `retry_after_max_s`), limits and order may make the waits longer."""
    plan: list[tuple[float, float]] = []
    elapsed = 0.0
    while len(plan) < min(policy.most_attempts - 1, MOST_RETRIES) and elapsed < policy.retries_for_s:
        n = len(plan) + 1
        plan.append((wait_s(policy, n, 0.0, elapsed), ceiling_s(policy, n, elapsed)))
        elapsed += plan[-1][1]
    return plan
