"""Everything that can be known about one event: `why`, and what was recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anyio import to_thread
from gateway_api.roles import Role
from gateway_cloudevents import event_json
from gateway_inspect.browse import Browsable
from gateway_inspect.why import Wanted, dead_letters_of, entry_of, where_is, why

from gateway_core.contract.errors import StorageError
from gateway_core.contract.event import Event

from .config import HideConfig
from .context import Console
from .explained import without_values
from .origins import shown, without_sender
from .timeline import Timeline, timeline


@dataclass(slots=True)
class Trace:
    """One event in one broker. `entry` is one of `why`'s events; `document` the event in CloudEvents JSON, None if only
    its id is known; `from_ns` is the time from which on what happened was recorded."""

    entry: dict[str, Any]
    event: Event | None
    document: dict[str, Any] | None
    recorded: list[dict[str, Any]]
    from_ns: int
    some: bool = False
    """Whether only some events are recorded now, because many come."""

    @property
    def broker(self) -> str:
        """The broker or bridge."""
        return str(self.entry["broker"])

    @property
    def position(self) -> int:
        """Where its channel has it; 0 if that is not known."""
        return self.entry["position"] or 0

    @property
    def source(self) -> str:
        """Its source, "" if not known."""
        return str(self.entry["event"].get("source", ""))

    def timeline(self, hides: HideConfig, role: Role | None) -> Timeline:
        """Its timeline as this role may see it."""
        recorded = self.recorded
        if hides.hides_attribute("authid", role):
            recorded = [without_sender(each) for each in recorded]
        made = timeline(self.entry, recorded)
        for step in made.before:
            step.headers = shown(step.headers, self.document, hides, role)
        if hides.hides_some(role):
            for delivery in made.deliveries:
                if "filter" in delivery:
                    delivery["filter"] = without_values(delivery["filter"], hides, role)
        return made


@dataclass(slots=True)
class Traces:
    """One step of the search for an event by its id, see `why`."""

    found: list[Trace] = field(default_factory=list)
    searched: int = 0
    rest: dict[str, Any] | None = None
    unsearchable: list[str] = field(default_factory=list)
    complete: bool = True
    """Whether all dead letters were searched."""


async def traces(console: Console, wanted: Wanted, rest: Mapping[str, Any] | None, position: int = 0) -> Traces:
    """One step of the search; if its broker and position are known, there is nothing to search."""
    if (event := await event_at(console, wanted, position)) is not None:
        dead_letters, complete = await to_thread.run_sync(dead_letters_of, console.gateway, wanted)
        entry = await entry_of(console.inspect, wanted, wanted.broker or "", event, dead_letters)
        answers = await _recorded(console, wanted)
        return Traces([_trace(entry, *_merged(answers), answers)], complete=complete)
    report = await why(console.inspect, wanted, rest, whole=True)
    answers = await _recorded(console, wanted)
    recorded, from_ns = _merged(answers)
    found = [_trace(entry, recorded, from_ns, answers) for entry in report["events"]]
    known = {trace.broker for trace in found}
    if report["rest"] is None or found:
        found += await _only_recorded(console, wanted, answers, known)
    return Traces(found, report["searched"], report["rest"], report["unsearchable"], report["dead_letters_searched"])


async def event_at(console: Console, wanted: Wanted, position: int) -> Event | None:
    """The event at its position in its broker; None if that is not known (0), or has another event by now."""
    broker = console.gateway.topology.brokers.get(wanted.broker or "")
    if not position or broker is None or not isinstance(broker.channel, Browsable):
        return None
    try:
        event = await broker.channel.at(position)
    except StorageError:  # it can't be read now
        return None
    return event if event is not None and wanted.is_it(event) else None


async def again(console: Console, trace: Trace) -> Trace:
    """What is known about the same event now."""
    wanted = Wanted(str(trace.entry["event"].get("id", "")), trace.source or None, trace.broker)
    if trace.event is None:
        found = [each for each in (await traces(console, wanted, None)).found if each.broker == trace.broker]
        return found[0] if found else trace
    answers = await _recorded(console, wanted)
    dead_letters, _ = await to_thread.run_sync(dead_letters_of, console.gateway, wanted)
    entry = await entry_of(console.inspect, wanted, trace.broker, trace.event, dead_letters)
    recorded, from_ns = _merged(answers)
    return _trace(entry, recorded, from_ns, answers)


async def signature(console: Console, trace: Trace) -> str:
    """Changes when something happens to the event; cheap."""
    wanted = Wanted(str(trace.entry["event"].get("id", "")), trace.source or None)
    where = await where_is(console.inspect, wanted, trace.broker, trace.position)
    counts = [len(answer["entries"]) for answer in await _recorded(console, wanted)]
    held = [(name, w["delivery_state"], w["held"], len(w["failures"])) for name, w in where.items()]
    return json.dumps([counts, held], default=str)


async def _recorded(console: Console, wanted: Wanted) -> list[dict[str, Any]]:
    return await console.recording.ask({"of": {"id": wanted.id, "source": wanted.source}})


def _merged(answers: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    entries = sorted((entry for answer in answers for entry in answer["entries"]), key=lambda e: int(e["at_ns"]))
    return entries, max((int(answer["from_ns"]) for answer in answers), default=0)


def _trace(entry: dict[str, Any], recorded: list[dict[str, Any]], from_ns: int, answers: list[dict[str, Any]]) -> Trace:
    event = entry.pop("whole", None)
    source = entry["event"].get("source")
    mine = [e for e in recorded if source in (None, e["source"])]
    if event is not None:
        document = as_document(event)
    else:
        document = next((json.loads(answer["event"]) for answer in answers if answer["event"]), None)
    return Trace(entry, event, document, mine, from_ns, any(answer["some"] for answer in answers))


async def _only_recorded(
    console: Console, wanted: Wanted, answers: list[dict[str, Any]], known: set[str]
) -> list[Trace]:
    """Events whose channel can't be searched, but which were recorded."""
    recorded, from_ns = _merged(answers)
    found = []
    bridges = console.gateway.topology.bridges
    for answer in answers:
        first = {e["where"]: e for e in reversed(answer["entries"]) if e["kind"] == "accepted" or e["where"] in bridges}
        for owner in first.keys() - known:
            if wanted.broker not in (None, owner) or not answer["event"]:
                continue
            event = event_json.load(answer["event"].encode())
            event.received_ns = first[owner]["received_ns"]
            event.position = 0 if owner in bridges else first[owner]["position"]
            dead_letters, _ = await to_thread.run_sync(dead_letters_of, console.gateway, wanted)
            entry = await entry_of(console.inspect, wanted, owner, event, dead_letters)
            found.append(_trace(entry, recorded, from_ns, answers))
            known.add(owner)
    return found


def as_document(event: Event) -> dict[str, Any] | None:
    """The event in CloudEvents JSON; None if it can't be written so."""
    try:
        made: dict[str, Any] = json.loads(event_json.structured(event))
    except (ValueError, RecursionError):
        return None
    return made
