"""The dead letters of a config: finds their stores, selects dead letters, and converts them to JSON values."""

from __future__ import annotations

import hashlib
import heapq
import json
import logging
import re
import sqlite3
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from gateway_cloudevents import event_json

from gateway_core.contract.capabilities import DeadLetterStore, GivenUp, GivenUpCount, TellsGivenUp
from gateway_core.contract.cli.common import CommandError
from gateway_core.contract.clock import Clock, SystemClock
from gateway_core.contract.component import BuildContext, DeadLetterRef
from gateway_core.contract.components import Components
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.dead_letter_facts import without_facts
from gateway_core.contract.errors import MissingExtra, StorageError
from gateway_core.contract.event import Event, id_of, text_of
from gateway_core.contract.moments import stamped
from gateway_core.contract.outcome import Stage

from .durable import Left, left_behind
from .encryption import Keys
from .line import last_ns
from .redelivered import At, Redelivered, of_channels, of_gateway, told
from .sink import DeadLetterSink

if TYPE_CHECKING:
    from gateway_core.contract.services import GatewayView

log = logging.getLogger("tidegate.deadletter")

_MOST_NAMED = 5
_NUMBERS = re.compile(r"[0-9]+(?:[0-9a-fA-F-]*[0-9])?")


@runtime_checkable
class _TellsChanges(Protocol):
    def state(self) -> object: ...


@runtime_checkable
class Located(Protocol):
    """A store that knows the place of each dead letter, and removes it there at a cost that does not grow with the
    store."""

    def located(self) -> Iterator[tuple[str, Event, Any]]:
        """As `entries`, with the place of each."""

    def remove_at(self, found: Sequence[tuple[str, Any]]) -> None:
        """Removes the dead letters of these ids and places, durably. Raises `OSError`."""

    def compact(self) -> None:
        """Gives back the room of what `remove_at` has removed. Raises `OSError`."""


@dataclass(frozen=True, slots=True)
class Store:
    """A readable dead letter sink of the config. Several owners may share it."""

    owner: str
    address: str
    store: DeadLetterStore
    brokers: set[str]
    """The brokers of all owners, "" for bridges."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    id: str
    event: Event
    place: Store
    broker: str
    """The broker of its trigger, "" for a bridge."""
    at: Any = None
    """Its place in a `Located` store."""
    redelivered: GivenUp | None = None
    """How its trigger has delivered the event since, by a replay of past events or a rewind."""

    def may_be_of(self, broker: str) -> bool:
        """Whether a trigger of this broker may have given it up. Those of older versions don't name the broker."""
        return self.broker == broker if self.fact("tidegatebroker") else broker in self.place.brokers

    def fact(self, name: str) -> str:
        """A fact as text, or ""."""
        value = self.event.attributes.get(name)
        return "" if value is None else text_of(value)

    @property
    def owner(self) -> tuple[str, str]:
        """Its broker and trigger."""
        return self.broker, self.fact("tidegatetrigger")

    @property
    def imported(self) -> bool:
        """Whether it came from a file elsewhere: what a gateway writes itself knows its place in the log."""
        return isinstance(self.place.store, DeadLetterSink) and not self.event.position

    @property
    def was_offered(self) -> bool:
        """Whether it surely was an event for a trigger, not an input that its broker did not take: of that, a source
        makes one attempt and has no status."""
        return bool(
            self.fact("tidegatebroker")
            or self.fact("knativeerrorcode")
            or self.fact("tidegateattempts") not in ("", "1")
            or self.fact("tidegatestage") in (Stage.FILTER, Stage.ORDER, Stage.DELAY, Stage.ENCODE)
        )

    @property
    def group(self) -> str:
        """Which group it belongs to: those of the same trigger, stage, status and reason. Numbers in reasons don't
        count."""
        reason = _NUMBERS.sub("#", self.fact("tidegatereason"))
        parts = (self.fact("tidegatetrigger"), self.fact("tidegatestage"), self.fact("knativeerrorcode"), reason)
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Query:
    """Selects dead letters that match all given values. Without ids, any id matches. `group` is one of
    `DeadLetter.group`. `redelivered` selects by whether the trigger has delivered the event since."""

    broker: str | None = None
    trigger: str | None = None
    reason: str | None = None
    ids: frozenset[str] = frozenset()
    group: str | None = None
    redelivered: bool | None = None

    def asks_for(self, broker: str, trigger: str, reason: str) -> bool:
        """Whether it selects what is only known by these."""
        return (
            not self.ids
            and self.group is None
            and not self.redelivered
            and self.broker in (None, broker)
            and self.trigger in (None, trigger)
            and (self.reason is None or self.reason.lower() in reason.lower())
        )

    def has(self, dead_letter: DeadLetter) -> bool:
        return (
            (not self.ids or dead_letter.id in self.ids)
            and (self.group is None or dead_letter.group == self.group)
            and (self.redelivered is None or self.redelivered == (dead_letter.redelivered is not None))
            and (self.broker is None or dead_letter.broker == self.broker)
            and (self.trigger is None or dead_letter.fact("tidegatetrigger") == self.trigger)
            and (self.reason is None or self.reason.lower() in dead_letter.fact("tidegatereason").lower())
        )


class Stores:
    """All readable dead letter sinks of a config."""

    def __init__(
        self,
        config: GatewayConfig,
        data_dir: Path,
        registry: Components,
        keys: Sequence[bytes] = (),
        redelivered: Callable[[], Redelivered] | None = None,
    ) -> None:
        """`keys` decrypt beside those of the config. `redelivered` tells what was delivered since; without it the
        channels are read."""
        self.data_dir = data_dir
        self._redelivered = redelivered or (lambda: of_channels(self.channels(SystemClock())))
        self.stores: list[Store] = []
        self._elsewhere: list[str] = []
        self._brokers = {name: trigger.broker for name, trigger in config.triggers.items()}
        self._owners: dict[str, str] = {}
        self._homes: dict[str, DeadLetterSink] = {}
        self._config = config
        self._registry = registry
        context = BuildContext("", data_dir.absolute(), SystemClock(), registry, offline=True)  # none is started
        for owner, broker, ref, name, trigger in _places(config):
            built = registry.build(ref, replace(context, owner=owner, broker=name, trigger=trigger))
            if keys and isinstance(built, DeadLetterSink):
                built.read_with(keys)
            address = getattr(built, "address", owner)
            if isinstance(built, DeadLetterSink):
                self._homes[owner] = built
            if not isinstance(built, DeadLetterStore):
                self._elsewhere.append(f"{owner}: {address}")
            elif known := next((s for s in self.stores if s.address == address), None):
                known.brokers.add(broker)
            else:
                self.stores.append(Store(owner, address, built, {broker}))
                self._owners[address] = broker

    def state(self) -> object:
        """What changes when a file does. None if a store does not tell."""
        stores = [place.store for place in self.stores]
        changing = [store for store in stores if isinstance(store, _TellsChanges)]
        return tuple(store.state() for store in changing) if len(changing) == len(stores) else None

    @property
    def closed(self) -> list[str]:
        """What the last reading could not decrypt. Complete once `dead_letters` has ended."""
        return [text for place in self.stores if isinstance(place.store, DeadLetterSink) for text in place.store.closed]

    @property
    def unreadable(self) -> list[str]:
        """Sinks that keep their dead letters elsewhere, and what the last reading could not decrypt."""
        return self._elsewhere + self.closed

    def elsewhere(
        self,
        broker: str,
        counts: Sequence[GivenUpCount],
        query: Query,
        imported: Mapping[tuple[str, str], int] | None = None,
        left: Iterable[Left] = (),
    ) -> Iterator[dict[str, Any]]:
        """The events among these that are in none of the stores, nor in what is `left`, as JSON values. `imported` says
        how many of each broker and trigger have been taken over from elsewhere (`DeadLetter.imported`); without it the
        stores are read, if there is anything elsewhere."""
        here: Counter[tuple[str, str]] | None = None if imported is None else Counter(imported)
        told = {*self._owners, *(each.file.as_uri() for each in left)}
        for each in counts:
            if each.to and each.to not in told and query.asks_for(broker, each.name, each.last.reason):
                owner = broker, each.name
                if here is None:
                    here = Counter(d.owner for d in self.dead_letters(Query()) if d.imported)
                taken = min(each.count, here[owner])
                here[owner] -= taken
                last = {"last": stamped(each.last.at_ns), "reason": each.last.reason}
                if count := each.count - taken:
                    yield {"broker": broker, "trigger": each.name, "to": each.to, "count": count, **last}

    def left_behind(self) -> list[Left]:
        """The dead letters of earlier configs that are in none of the stores. It reads their files."""
        return [*left_behind(self._config, self.data_dir)]

    @property
    def homes(self) -> Collection[DeadLetterSink]:
        """The `deadletter` sinks."""
        return self._homes.values()

    @property
    def keys(self) -> Keys | None:
        """All keys of the config's dead letters. None unless all are encrypted: what is read with them must not become
        plain somewhere else."""
        found = [sink.keys for sink in self._homes.values()]
        return Keys(key for keys in found if keys for key in keys.keys) if found and all(found) else None

    def home(self, trigger: str, broker: str | None) -> DeadLetterSink:
        """Where new dead letters of this trigger or bridge go, or those of `broker` if it is given. Raises
        `CommandError` if that is no `deadletter`, or the trigger is not in the config."""
        if broker is None:
            own = self._homes.get(f"triggers.{trigger}.dead_letter") or self._homes.get(
                f"bridges.{trigger}.dead_letter"
            )
            if own is not None:
                return own
            broker = self._brokers.get(trigger) or (trigger if trigger in self._config.brokers else None)
            if broker is None:
                raise CommandError(
                    f"the config has no trigger {trigger!r}: say where its dead letters go with --broker"
                )
        home = self._homes.get(f"brokers.{broker}.dead_letter")
        if home is None:
            raise CommandError(f"the dead letter of broker {broker!r} is not a `deadletter`: use one in the config")
        return home

    def triggers_of(self, brokers: Container[str]) -> list[str]:
        """The triggers of these brokers in the config."""
        return [name for name, broker in self._brokers.items() if broker in brokers]

    def channels(self, clock: Clock) -> list[tuple[str, TellsGivenUp]]:
        """The channels that know what was given up, for reading, with their brokers."""
        context = BuildContext("", self.data_dir.absolute(), clock, self._registry)
        found = []
        for name, broker in self._config.brokers.items():
            with suppress(MissingExtra):
                channel = self._registry.build(broker.channel, replace(context, owner=name, broker=name))
                if isinstance(channel, TellsGivenUp):
                    found.append((name, channel))
        return found

    def absent(self, id_: str) -> str:
        """Why there is no dead letter with this id, once all were read."""
        closed = self.closed
        also = f", but {closed[0]}" if closed else ""
        known = ((found.id, found.fact("id")) for found in self.dead_letters(Query()))
        return f"there is no dead letter with the id {id_}{of_events([id_], known) or also}"

    def unknown(self, query: Query) -> Iterator[str]:
        """Names in the query that the config does not have. Dead letters of earlier configs may still have them."""
        if query.broker is not None and query.broker not in self._config.brokers:
            yield f"broker {query.broker!r}"
        if query.trigger is not None and query.trigger not in {*self._config.triggers, *self._config.bridges}:
            yield f"trigger or bridge {query.trigger!r}"

    def dead_letters(self, query: Query) -> Iterator[DeadLetter]:
        """The selected dead letters of all stores, oldest first. Those of one file come as they were written."""
        known = self._redelivered()
        for _, dead_letter in heapq.merge(*(self._of(place, known) for place in self.stores), key=itemgetter(0)):
            if query.has(dead_letter):
                yield dead_letter

    def _of(self, place: Store, known: Redelivered) -> Iterator[tuple[int, DeadLetter]]:
        """The dead letters of one store, each with the time of its last attempt."""
        at_ns = 0
        for id_, event, at in _located(place.store):
            # without a broker: that of its trigger, or the file's owner if the config has no such trigger any more
            trigger, broker = event.attributes.get("tidegatetrigger"), event.attributes.get("tidegatebroker")
            broker = str(broker or self._brokers.get(str(trigger), self._owners[place.address]))
            at_ns = last_ns(event) or at_ns
            since = _since(event, At(broker, str(trigger), event.position), known) if known else None
            yield at_ns, DeadLetter(id_, event, place, broker, at, since)


def stores_of(gateway: GatewayView) -> Stores:
    """The stores of a running gateway's config."""
    return Stores(gateway.config, gateway.data_dir, gateway.registry, redelivered=lambda: of_gateway(gateway))


def _since(event: Event, at: At, known: Redelivered) -> GivenUp | None:
    """What is known of its delivery since."""
    if not at.position:
        at = at._replace(source=str(event.attributes.get("source")), id=str(id_of(event)))
    found = known.get(at)
    return found if found is not None and found.delivered_ns > last_ns(event) else None


def _located(store: DeadLetterStore) -> Iterator[tuple[str, Event, Any]]:
    if isinstance(store, Located):
        return store.located()
    return ((id_, event, None) for id_, event in store.entries())


def _places(config: GatewayConfig) -> Iterator[tuple[str, str, DeadLetterRef, str, str]]:
    """Yields (path in the config, broker or "", component, and the names of broker and trigger that it is built
    with)."""
    for name, broker in config.brokers.items():
        yield f"brokers.{name}.dead_letter", name, broker.dead_letter, name, ""
    for name, trigger in config.triggers.items():
        if trigger.dead_letter is not None:
            yield f"triggers.{name}.dead_letter", trigger.broker, trigger.dead_letter, trigger.broker, name
    for name, bridge in config.bridges.items():
        if bridge.dead_letter is not None:
            yield f"bridges.{name}.dead_letter", "", bridge.dead_letter, name, ""


def of_events(ids: Iterable[str], known: Iterable[tuple[str, str]]) -> str:
    """The continuation of a text which says that no dead letters have these ids: which of them are ids of events. ""
    if none is. `known` has the ids of dead letters and of their events."""
    found: dict[str, list[str]] = {id_: [] for id_ in sorted(ids)}
    for letter, event in known:
        if event in found and len(found[event]) < _MOST_NAMED:
            found[event].append(letter)
    told = [f"{event} is the id of an event: say {' or '.join(letters)}" for event, letters in found.items() if letters]
    return f"; {'; '.join(told[:_MOST_NAMED])}" if told else ""


def given_up_counts(channels: Iterable[tuple[str, Any]]) -> list[tuple[str, Sequence[GivenUpCount]]]:
    """What the channels know of events that were given up, each with its broker. Others are left out, as those that
    can't be read now. It may block."""
    found = []
    for name, channel in channels:
        if isinstance(channel, TellsGivenUp):
            try:
                found.append((name, channel.given_up_counts()))
            except (StorageError, sqlite3.Error) as e:
                log.warning("what broker %s gave up can't be read: %s", name, e)
    return found


def row(dead_letter: DeadLetter) -> dict[str, Any]:
    """The summary of a dead letter, as JSON values."""
    return {
        "id": dead_letter.id,
        "store": dead_letter.place.address,
        "broker": dead_letter.broker or None,
        "trigger": dead_letter.fact("tidegatetrigger"),
        "type": dead_letter.fact("type"),
        "source": dead_letter.fact("source"),
        "event_id": dead_letter.fact("id"),
        "attempts": dead_letter.event.attributes.get("tidegateattempts"),
        "code": dead_letter.fact("knativeerrorcode") or None,
        "stage": dead_letter.fact("tidegatestage"),
        "reason": dead_letter.fact("tidegatereason"),
        "first": dead_letter.fact("tidegatefirst"),
        "last": dead_letter.fact("tidegatelast"),
        "redelivered": None if dead_letter.redelivered is None else told(dead_letter.redelivered),
    }


def detail(dead_letter: DeadLetter) -> dict[str, Any]:
    """A dead letter in full: `row`, where the event was sent, the subscriber's response, the original event."""
    event = json.loads(event_json.structured(without_facts(dead_letter.event)))
    return {
        **row(dead_letter),
        "dest": dead_letter.fact("knativeerrordest"),
        "answer": _answer(dead_letter),
        "event": event,
    }


def _answer(dead_letter: DeadLetter) -> str | None:
    """The subscriber's response (`knativeerrordata` is base64)."""
    try:
        return b64decode(dead_letter.fact("knativeerrordata")).decode(errors="replace") or None
    except ValueError:
        return dead_letter.fact("knativeerrordata")
