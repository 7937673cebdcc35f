"""Why an event was not delivered, or that it was: the channel, triggers, attempts and dead letters."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from anyio import to_thread

from gateway_core.contract.capabilities import DeadLetterStore, Deduplicates, GivenUp, Searchable, TellsGivenUp
from gateway_core.contract.dead_letter_facts import without_facts
from gateway_core.contract.errors import StorageError
from gateway_core.contract.event import Event, id_of, split_position
from gateway_core.contract.moments import stamped

from .browse import browse
from .context import InspectContext
from .delivery_state import given_up_facts, merged, state_of, states_of
from .explain import again_of, explain

if TYPE_CHECKING:
    from gateway_core.contract.services import GatewayView

SEARCH_DEAD_LETTERS_S = 3.0
EVER_NS = 2**62
_KEPT = ("kind", "name", "broker", "matched", "filter", "sink", "reads", "fault", "replays")
_FACTS = {
    "attempts": "tidegateattempts",
    "code": "knativeerrorcode",
    "reason": "tidegatereason",
    "stage": "tidegatestage",
    "first": "tidegatefirst",
    "last": "tidegatelast",
    "dest": "knativeerrordest",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """The event to find."""

    id: str
    source: str | None = None
    broker: str | None = None
    prefix: bool = False
    """Whether `id` is only its beginning."""

    def is_it(self, event: Event) -> bool:
        return id_of(event) == self.id and self.source in (None, event.attributes.get("source"))


async def why(
    service: InspectContext, wanted: Wanted, rest: Mapping[str, Any] | None, *, whole: bool = False
) -> dict[str, Any]:
    """One step of the search, as JSON values: `events` with their delivery states, how many were `searched`, and the
    `rest` for the next step, None after the last. `unsearchable` are brokers and bridges whose past events can't be
    found; what is still known about the event there is among `events`, without a position. With `whole` each of
    `events` also has the `Event` itself, as `whole`, if it was found."""
    gateway, built = service.gateway, service.gateway.topology
    found: list[tuple[str, Event]] = []
    searched, left, unsearchable = 0, {}, [n for n in built.bridges if wanted.broker in (None, n)]
    for name, broker in built.brokers.items():
        if wanted.broker not in (None, name):
            continue
        if not isinstance(broker.channel, Searchable):
            unsearchable.append(name)
        elif rest is None or name in rest:
            try:
                step = await broker.channel.find(wanted.id, wanted.source, (rest or {}).get(name))
            except StorageError:  # it can't be read now
                unsearchable.append(name)
                continue
            searched += step.searched
            found += [(name, event) for event in step.events]
            if step.rest is not None:
                left[name] = step.rest
    last = bool(found) or not left
    dead_letters, complete = await to_thread.run_sync(dead_letters_of, gateway, wanted) if last else ([], True)
    events = [await entry_of(service, wanted, owner, event, dead_letters) for owner, event in found]
    if last:
        owners = [*built.brokers, *built.bridges]
        others = [n for n in owners if wanted.broker in (None, n) and n not in {name for name, _ in found}]
        entries = [await _unfound(service, wanted, owner, dead_letters) for owner in others]
        events += [entry for entry in entries if entry is not None]
    if not whole:
        for entry in events:
            entry.pop("whole", None)
    return {
        "id": wanted.id,
        "source": wanted.source,
        "events": events,
        "searched": searched,
        "unsearchable": sorted(unsearchable),
        "dead_letters_searched": complete,
        "duplicates": list(_duplicates(built.brokers, wanted)) if last else [],
        "rest": left or None,
    }


def _duplicates(brokers: Mapping[str, Any], wanted: Wanted) -> Iterator[dict[str, Any]]:
    """The duplicates of this id that brokers did not store again, as far as they are known."""
    for name, broker in brokers.items():
        if wanted.broker in (None, name) and isinstance(broker.channel, Deduplicates):
            for each in broker.channel.repeated(wanted.id, wanted.source):
                partition, number = split_position(each.first)
                told = {"broker": name, "received": stamped(each.at_ns), "first": each.first}
                yield {**told, "place": f"{partition}/{number}", "differs": each.differs}


async def beginning(service: InspectContext, wanted: Wanted, rest: Mapping[str, Any] | None) -> dict[str, Any]:
    """One step of the search for events whose id begins so, as JSON values: the `matches`, each id, source and broker
    once. The rest is as for `why`."""
    attributes = {"id": f"{wanted.id}*", **({"source": wanted.source} if wanted.source else {})}
    found = await browse(service.gateway.topology, attributes, 0, EVER_NS, wanted.broker, rest)
    matches: dict[tuple[str, str, str], dict[str, Any]] = {}
    for owner, event in found.events:
        match = {name: str(event.attributes.get(name, "")) for name in ("id", "source", "type")}
        matches.setdefault((match["id"], match["source"], owner), {**match, "broker": owner})
    return {
        "id": wanted.id,
        "source": wanted.source,
        "events": [],
        "matches": [*matches.values()],
        "searched": found.searched,
        "unsearchable": sorted(found.unsearchable),
        "dead_letters_searched": True,
        "rest": found.rest,
    }


async def where_is(service: InspectContext, wanted: Wanted, owner: str, position: int) -> dict[str, dict[str, Any]]:
    """What all workers know about an event, see `states_of`."""
    gateway = service.gateway
    mine = states_of(gateway.topology, owner, wanted.id, wanted.source, position)
    question = {"owner": owner, "id": wanted.id, "source": wanted.source, "position": position}
    found = merged([mine, *await gateway.peers.ask(service.name, question)])
    for state in found.values():
        if facts := state["given_up"]:
            state["given_up"] = {**facts, "to": _files_of(gateway, facts["to"])}
    return found


async def entry_of(
    service: InspectContext, wanted: Wanted, owner: str, event: Event, dead_letters: list[tuple[str, Event]]
) -> dict[str, Any]:
    """One of `events` (`why`), with the event itself as `whole`."""
    where = await where_is(service, wanted, owner, event.position)
    explained = explain(service.gateway.topology, event, owner, again=again_of(service.gateway))
    given_up = await _given_up(service, owner, event.position)
    of_broker = service.gateway.topology.brokers.get(owner)
    shared = of_broker is not None and not isinstance(of_broker.channel, TellsGivenUp)
    partition, number = split_position(event.position)
    entry = {
        "broker": owner,
        "position": event.position or None,
        "place": f"{partition}/{number}" if event.position else None,
        "received": stamped(event.received_ns) if event.received_ns else None,
        "event": explained["event"],
        "whole": event,
    }
    deliveries = []
    for delivery in explained["deliveries"]:
        kept = {name: delivery[name] for name in _KEPT if delivery.get(name) is not None}
        of_it = [letter for to, letter in dead_letters if to == delivery["name"] and _may_be_of(letter, owner)]
        gone = given_up_facts(given_up.get(delivery["name"]))
        state = state_of(
            delivery,
            where.get(delivery["name"]),
            _dead_letter(of_it),
            gone,
            bool(event.position),
            shared=shared,
        )
        deliveries.append({**kept, **state})
    deliveries += _former(service, owner, event.position, given_up, dead_letters)
    return {**entry, "deliveries": deliveries}


def _former(
    service: InspectContext,
    owner: str,
    position: int,
    given_up: Mapping[str, GivenUp],
    dead_letters: list[tuple[str, Event]],
) -> Iterator[dict[str, Any]]:
    """Triggers that gave the event up and that the config does not have any more, or not at this broker."""
    triggers = service.gateway.topology.triggers

    def is_there(name: str) -> bool:
        return (trigger := triggers.get(name)) is not None and trigger.broker.name == owner

    letters: dict[str, list[Event]] = {}
    for name, letter in dead_letters:
        of = letter.attributes.get("tidegatebroker")  # of an earlier version without, only the place in the log tells
        here = of == owner or (of is None and position and letter.position == position)
        if here and (not position or letter.position in (0, position)) and not is_there(name):
            letters.setdefault(name, []).append(letter)
    for name in sorted(name for name in {*letters, *given_up} if not is_there(name)):
        facts: dict[str, Any] = {"delivery_state": None, "held": None, "failures": [], "given_up": None}
        state = state_of({}, facts, _dead_letter(letters.get(name, [])), given_up_facts(given_up.get(name)), True)
        text = f"{state['text']}; the broker no longer has this trigger"
        yield {"kind": "trigger", "name": name, "broker": owner, "matched": True, **state, "text": text}


def _may_be_of(dead_letter: Event, owner: str) -> bool:
    """Whether it may be one of this broker or bridge. Bridges, and earlier versions, name no broker."""
    return bool(dead_letter.attributes.get("tidegatebroker", owner) == owner)


async def _given_up(service: InspectContext, owner: str, position: int) -> Mapping[str, GivenUp]:
    broker = service.gateway.topology.brokers.get(owner)
    if not position or broker is None or not isinstance(broker.channel, TellsGivenUp):
        return {}
    try:
        found = await broker.channel.given_up(position)
        return {name: replace(each, to=_files_of(service.gateway, each.to)) for name, each in found.items()}
    except (StorageError, sqlite3.Error):  # it can't be read now
        return {}


async def _unfound(
    service: InspectContext, wanted: Wanted, owner: str, dead_letters: list[tuple[str, Event]]
) -> dict[str, Any] | None:
    """What is known about an event that is not in the channel, or can't be found there; None if nothing is."""
    where = await where_is(service, wanted, owner, 0)
    known = {name for name, w in where.items() if w["held"] is not None or w["failures"] or w["given_up"]}
    of_it = [
        (to, letter)
        for to, letter in dead_letters
        if letter.attributes.get("tidegatebroker") == owner
        or ((to == owner or to in where) and _may_be_of(letter, owner))
    ]
    if of_it:
        bare = without_facts(of_it[-1][1])
        bare.position = 0
        return await entry_of(service, wanted, owner, bare, dead_letters)
    if not known:
        return None
    deliveries = [
        {
            "kind": "bridge" if name == owner else "trigger",
            "name": name,
            "matched": True,
            **state_of({}, w, None, None, False),
        }
        for name, w in where.items()
        if name in known
    ]
    head = {"id": wanted.id, **({"source": wanted.source} if wanted.source else {})}
    return {"broker": owner, "position": None, "place": None, "received": None, "event": head, "deliveries": deliveries}


# -- dead letters -----------------------------------------------------------------------------------------------------


def dead_letters_of(gateway: GatewayView, wanted: Wanted) -> tuple[list[tuple[str, Event]], bool]:
    """The event's dead letters with the names of their triggers, oldest first, and whether all were searched."""
    until = time.monotonic() + SEARCH_DEAD_LETTERS_S
    found: list[tuple[str, Event]] = []
    for store in _stores(gateway):
        for n, (_, dead_letter) in enumerate(store.entries()):
            if wanted.is_it(dead_letter):
                found.append((str(dead_letter.attributes.get("tidegatetrigger", "")), dead_letter))
            if n % 256 == 255 and time.monotonic() > until:
                return found, False
    return found, True


def _stores(gateway: GatewayView) -> Iterator[DeadLetterStore]:
    built = gateway.topology
    sinks = [b.dead_letter for b in built.brokers.values()]
    own = [trigger.dead_letter for trigger in built.triggers.values()]
    own += [bridge.dead_letter for bridge in built.bridges.values()]
    sinks += [dead_letter for dead_letter in own if dead_letter is not None]
    for sink in {sink.address: sink for sink in sinks}.values():
        if isinstance(sink, DeadLetterStore):
            yield sink


def _files_of(gateway: GatewayView, address: str) -> str:
    """An address of dead letters; if it is no file itself, since every worker writes one, those files."""
    for store in _stores(gateway):
        if getattr(store, "address", "") == address and isinstance(store, _OfFiles):
            files = [file.as_uri() for file in store.files()]
            return address if address in files else " or ".join(files) or address
    return address


@runtime_checkable
class _OfFiles(Protocol):
    def files(self) -> Sequence[Path]: ...


def _dead_letter(dead_letters: list[Event]) -> dict[str, Any] | None:
    if not dead_letters:
        return None
    facts = dead_letters[-1].attributes
    return {name: facts[attribute] for name, attribute in _FACTS.items() if attribute in facts}
