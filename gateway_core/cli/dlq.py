"""`tidegate dlq list` and `show`; finding the dead letters of a config."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import eventjson
from ..applied import all_paths
from ..clock import SystemClock
from ..component import BuildContext, DeadLetterRef
from ..config.load import load
from ..config.model import GatewayConfig
from ..delivery.deadletter import without_facts
from ..event import Event, text_of
from ..interfaces import DeadLetterStore
from ..registry import Registry
from . import common, tables

COLUMNS = ("id", "trigger", "type", "event_id", "attempts", "code", "reason", "last")


@dataclass(frozen=True, slots=True)
class Store:
    """A dead letter of the config that can be read. Several owners may share one."""

    owner: str
    address: str
    store: DeadLetterStore


@dataclass(frozen=True, slots=True)
class Letter:
    id: str
    event: Event
    place: Store
    broker: str
    """The broker of its trigger, "" for a bridge's letter."""

    def fact(self, name: str) -> str:
        """A fact as text, "" where the letter has none of this name."""
        value = self.event.attributes.get(name)
        return "" if value is None else text_of(value)


@dataclass(frozen=True, slots=True)
class Query:
    """Which letters are meant. All that is given must hold; no ids: any."""

    broker: str | None = None
    trigger: str | None = None
    reason: str | None = None
    ids: frozenset[str] = frozenset()

    def has(self, letter: Letter) -> bool:
        return (
            (not self.ids or letter.id in self.ids)
            and (self.broker is None or letter.broker == self.broker)
            and (self.trigger is None or letter.fact("tidegatetrigger") == self.trigger)
            and (self.reason is None or self.reason.lower() in letter.fact("tidegatereason").lower())
        )


class Stores:
    """All dead letters of a config that can be read; others (a sink elsewhere) are named in `unreadable`."""

    def __init__(self, config: GatewayConfig, data_dir: Path, registry: Registry) -> None:
        self.data_dir = data_dir
        self.stores: list[Store] = []
        self.unreadable: list[str] = []
        self._brokers = {name: trigger.broker for name, trigger in config.triggers.items()}
        self._owners: dict[str, str] = {}
        self._config = config
        context = BuildContext("", data_dir.absolute(), SystemClock(), registry)
        for owner, broker, ref, name, trigger in _places(config):
            built = registry.build(ref, replace(context, owner=owner, broker=name, trigger=trigger))
            address = getattr(built, "address", owner)
            if not isinstance(built, DeadLetterStore):
                self.unreadable.append(f"{owner}: {address}")
            elif not any(s.address == address for s in self.stores):
                self.stores.append(Store(owner, address, built))
                self._owners[address] = broker

    @classmethod
    def of(cls, paths: Sequence[Path] | None, data_dir: Path | None) -> Stores:
        """Those of the config that the command line means, and of the triggers that were applied to its gateway."""
        registry = Registry.installed()
        settings = common.settings(data_dir=data_dir)
        return cls(load(all_paths(common.config_paths(paths), settings), registry), settings.data_dir, registry)

    def unknown(self, query: Query) -> Iterator[str]:
        """What the query names and the config hasn't, though letters of earlier configs may still say so."""
        if query.broker is not None and query.broker not in self._config.brokers:
            yield f"broker {query.broker!r}"
        if query.trigger is not None and query.trigger not in {*self._config.triggers, *self._config.bridges}:
            yield f"trigger or bridge {query.trigger!r}"

    def letters(self, query: Query) -> Iterator[Letter]:
        """The letters that are meant, store by store, oldest first."""
        for place in self.stores:
            for id_, event in place.store.entries():
                # the trigger knows its broker; the file's owner is asked where the trigger is gone from the config
                trigger = event.attributes.get("tidegatetrigger")
                broker = self._brokers.get(str(trigger), self._owners[place.address])
                letter = Letter(id_, event, place, broker)
                if query.has(letter):
                    yield letter


def _places(config: GatewayConfig) -> Iterator[tuple[str, str, DeadLetterRef, str, str]]:
    """(path in the config, broker or "", component, and the names of broker and trigger that it is built with)."""
    for name, broker in config.brokers.items():
        yield f"brokers.{name}.dead_letter", name, broker.dead_letter, name, ""
    for name, trigger in config.triggers.items():
        if trigger.dead_letter is not None:
            yield f"triggers.{name}.dead_letter", trigger.broker, trigger.dead_letter, trigger.broker, name
    for name, bridge in config.bridges.items():
        if bridge.dead_letter is not None:
            yield f"bridges.{name}.dead_letter", "", bridge.dead_letter, name, ""


def list_letters(stores: Stores, query: Query, *, as_json: bool) -> None:
    """All letters that are meant, one a row."""
    rows = [_row(letter) for letter in stores.letters(query)]
    if as_json:
        common.print_json(rows)
        return
    if rows:
        shown = [[common.one_line(row[name], 60) for name in COLUMNS] for row in rows]
        tables.print_table("Dead letters", COLUMNS, shown)
    else:
        print("no dead letters")
        for missing in stores.unknown(query):
            print(f"the config has no {missing}")
    for other in stores.unreadable:
        print(f"not readable from here: {other}")


def _row(letter: Letter) -> dict[str, Any]:
    return {
        "id": letter.id,
        "store": letter.place.address,
        "broker": letter.broker or None,
        "trigger": letter.fact("tidegatetrigger"),
        "type": letter.fact("type"),
        "source": letter.fact("source"),
        "event_id": letter.fact("id"),
        "attempts": letter.event.attributes.get("tidegateattempts"),
        "code": letter.fact("knativeerrorcode") or None,
        "stage": letter.fact("tidegatestage"),
        "reason": letter.fact("tidegatereason"),
        "first": letter.fact("tidegatefirst"),
        "last": letter.fact("tidegatelast"),
    }


def show_letter(stores: Stores, id_: str, *, as_json: bool) -> None:
    """One letter: the facts, what the far side said, the event as it was."""
    letter = next(stores.letters(Query(ids=frozenset((id_,)))), None)
    if letter is None:
        raise common.CommandError(f"no letter has the id {id_}")
    import json

    event = json.loads(eventjson.structured(without_facts(letter.event)))
    answer = _answer(letter)
    if as_json:
        common.print_json({**_row(letter), "dest": letter.fact("knativeerrordest"), "answer": answer, "event": event})
        return
    for name, value in {**_row(letter), "dest": letter.fact("knativeerrordest"), "answer": answer}.items():
        if value not in (None, ""):
            print(f"{name:>9}  {common.one_line(value, 2000)}")
    print(json.dumps(event, indent=2, ensure_ascii=False))


def _answer(letter: Letter) -> str | None:
    """What the far side said (`knativeerrordata` is base64)."""
    try:
        return b64decode(letter.fact("knativeerrordata")).decode(errors="replace") or None
    except ValueError:
        return letter.fact("knativeerrordata")
