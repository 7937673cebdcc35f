"""The names of sessions: which client id each source of a config has.

A source keeps the session that has what it reads. Without `client_id` the name is made from the server and the topics,
and a session that the data directory remembers is kept when the topics change, or the broker's name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from gateway_core.contract.config_node import Place, dotted
from gateway_core.contract.durable import DurableName, Noted, sources

from .config import MqttSourceConfig
from .subscriptions import Members, Subscriptions

WORD = "mqtt"
WHAT = "MQTT session"
_MOST_PLACES = 64
"""Of an earlier version's sessions, whose names had their places in the list, so many are looked for."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A source that needs a session."""

    owner: str
    place: Place
    options: MqttSourceConfig

    @property
    def where(self) -> str:
        return self.options.url if not self.options.hides("server") else "mqtt://****"

    @property
    def facts(self) -> dict[str, Any]:
        o = self.options
        topics = sorted({*o.topics}) if not o.hides("topics") else []
        return {"topics": topics, "group": o.group}

    def name(self, client_id: str) -> DurableName:
        return DurableName(
            transport=WORD,
            what=WHAT,
            where=self.where,
            name=client_id,
            owner=self.owner,
            facts=self.facts,
            place=self.place,
            keeps=f"client_id: {client_id}",
            alone=True,
            said=self.options.client_id is not None,
        )


def by_content(owner: str, options: MqttSourceConfig, turn: int = 0) -> str:
    """The client id of a source that the data directory does not remember. `turn` makes another one."""
    content = json.dumps([options.url, sorted({*options.topics}), options.group, turn])
    return f"tidegate-{owner.partition('.')[2]}-{sha256(content.encode()).hexdigest()[:10]}"


def names(config: Any, noted: Sequence[Noted]) -> list[DurableName]:
    """See `DurableNames`."""
    wanted = [
        _Wanted(use.owner, use.place, use.ref.options)
        for use in sources(config, WORD)
        if isinstance(use.ref.options, MqttSourceConfig)
    ]
    return [each.name(client_id) for each, client_id in zip(wanted, _ids(config, wanted, noted), strict=True)]


def _ids(config: Any, wanted: Sequence[_Wanted], noted: Sequence[Noted]) -> list[str]:
    """The client id of each. A session passes from what was noted to the source that is most like it; sources that
    are the same get the same, which is a fault of the config."""
    found: dict[int, str] = {n: w.options.client_id for n, w in enumerate(wanted) if w.options.client_id is not None}
    taken = {(wanted[n].where, client_id) for n, client_id in found.items()}
    free = [
        n
        for n in noted
        if n.name.transport == WORD and n.name.what == WHAT and (n.name.where, n.name.name) not in taken
    ]

    def left(which: Callable[[_Wanted, Noted], bool]) -> Iterator[tuple[int, Noted]]:
        for number, each in enumerate(wanted):
            if number not in found:
                match = next((n for n in free if n.name.where == each.where and which(each, n)), None)
                if match is not None:
                    yield number, match

    def pass_on(which: Callable[[_Wanted, Noted], bool]) -> None:
        for number, match in left(which):
            found[number] = match.name.name
            free.remove(match)

    pass_on(lambda each, n: _same(each, n) and n.name.owner == each.owner)
    pass_on(lambda each, n: _same(each, n) and not _has(config, n.name.owner))  # the broker was renamed
    pass_on(lambda each, n: n.name.owner == each.owner and _overlap(each, n))
    for number, match in [*left(lambda each, n: n.used and n.name.owner == each.owner and _grouped_alike(each, n))]:
        alone = [n for n, w in enumerate(wanted) if n not in found and (w.owner, w.where) == _of(wanted[number])]
        rivals = [n for n in free if n.used and (n.name.owner, n.name.where) == _of(wanted[number])]
        if alone == [number] and rivals == [match]:  # it is the one whose topics were replaced
            found[number] = match.name.name
            free.remove(match)
    before = {(n.name.where, n.name.name) for n in noted if n.name.transport == WORD} | taken
    made: dict[tuple[str, str], str] = {}
    for number, each in enumerate(wanted):
        if number not in found:
            content = (each.owner, by_content(each.owner, each.options))
            found[number] = made[content] = made.get(content) or _new(each, before)
    return [found[number] for number in range(len(wanted))]


def _new(each: _Wanted, before: set[tuple[str, str]]) -> str:
    turn = 0
    while (each.where, client_id := by_content(each.owner, each.options, turn)) in before:
        turn += 1
    before.add((each.where, client_id))
    return client_id


def _of(each: _Wanted) -> tuple[str, str]:
    return each.owner, each.where


def _same(each: _Wanted, noted: Noted) -> bool:
    return dict(noted.name.facts) == each.facts and not each.options.hides("topics")


def _grouped_alike(each: _Wanted, noted: Noted) -> bool:
    return noted.name.facts.get("group") == each.options.group


def _has(config: Any, owner: str) -> bool:
    section, _, entry = owner.partition(".")
    return entry in getattr(config, section, ())


def _overlap(each: _Wanted, noted: Noted) -> bool:
    """Whether a session has topics that the source reads too."""
    before = noted.name.facts.get("topics") or ()
    return _grouped_alike(each, noted) and any(overlap(a, b) for a in each.options.topics for b in before)


def overlap(one: str, other: str) -> bool:
    """Whether some topic matches both filters."""
    a, b = one.split("/"), other.split("/")
    for x, y in zip(a, b, strict=False):
        if "#" in (x, y):
            return True
        if x != y and "+" not in (x, y):
            return False
    rest = a[len(b) :] or b[len(a) :]
    return not rest or rest == ["#"]  # `a/#` matches `a`, too


def earlier(config: Any, data_dir: Path) -> Iterator[DurableName]:
    """Sessions that earlier versions named after places in the config. Their topics are in the data directory, in
    files named after the session, so those that this gateway had are known."""
    if not (data_dir / "mqtt").is_dir():
        return
    seen: set[tuple[str, str]] = set()
    for use in sources(config, WORD):
        options = use.ref.options
        if not isinstance(options, MqttSourceConfig) or (use.owner, options.url) in seen or options.hides("server"):
            continue
        seen.add((use.owner, options.url))
        places: list[Place] = [(*use.place[:3], i) for i in range(_MOST_PLACES)]
        for place in places if use.place[0] == "brokers" else [use.place]:
            client_id = f"tidegate-{dotted(place)}"
            one = Subscriptions(data_dir, options, client_id).filters()
            filters = one or Subscriptions(data_dir, options, f"{client_id}-0").filters()
            if filters:
                groups = {name.split("/")[1] for name in filters if name.startswith("$share/")}
                topics = sorted({name.split("/", 2)[2] if name.startswith("$share/") else name for name in filters})
                facts = {"topics": topics, "group": next(iter(groups), None)}
                yield DurableName(
                    transport=WORD,
                    what=WHAT,
                    where=options.url,
                    name=client_id,
                    owner=use.owner,
                    facts=facts,
                    keeps=f"client_id: {client_id}",
                )


def members(data_dir: Path, options: MqttSourceConfig, name: DurableName) -> list[str]:
    """The client ids of a session: with `group` one for each worker."""
    if name.facts.get("group") is None:
        return [name.name]
    return [f"{name.name}-{n}" for n in range(max(1, Members(data_dir, options, name.name).before()))]
