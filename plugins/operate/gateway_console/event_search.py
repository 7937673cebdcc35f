"""Searches events for the console: by their attributes and time, in the channels and in what was recorded, in steps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from gateway_api.roles import Role
from gateway_api.routes import Problem, Request
from gateway_inspect.browse import browse

from .config import HIDDEN, HideConfig
from .context import Console
from .page import ROOT
from .recorder import head

_FIELDS = ("id", "source", "type", "since", "until", "broker")
_BY = ("id", "source", "type")
_EVER = 2**62
AUTOMATIC = 40
"""How many steps that find nothing follow each other without a click."""


@dataclass(frozen=True, slots=True)
class Search:
    """What is asked for. `position` is the event's, 0 if not known. `rest` is where to continue; `searched` events were
    searched before, in `steps` steps that found nothing."""

    id: str = ""
    source: str = ""
    type: str = ""
    since: str = ""
    until: str = ""
    broker: str = ""
    position: int = 0
    rest: dict[str, Any] | None = None
    searched: int = 0
    steps: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def for_one(self) -> bool:
        """Whether one event is asked for, by its id."""
        return bool(self.id) and not (self.type or self.since or self.until or self.id.endswith("*"))

    @property
    def wanted(self) -> dict[str, str]:
        """Values of attributes."""
        return {name: getattr(self, name) for name in _BY if getattr(self, name)}

    def query(self, **more: Any) -> str:
        """The query of an address that asks the same."""
        asked = {name: getattr(self, name) for name in _FIELDS if getattr(self, name)}
        if self.rest is not None:
            asked |= {"rest": json.dumps(self.rest), "searched": self.searched, "steps": self.steps}
        return urlencode({**asked, **more})


@dataclass(frozen=True, slots=True)
class Results:
    """One step: the rows, how to continue (None after the last step), and the brokers that could not be searched, with
    the reasons of those that can't be read now."""

    rows: list[dict[str, Any]]
    next: Search | None
    searched: int
    unsearchable: list[str]
    faults: list[str]


def asked(request: Request, hides: HideConfig) -> Search:
    """What a request asks for. Raises `Problem` for what no form of ours sends."""
    values = {name: (request.asked(name) or "").strip() for name in _FIELDS}
    faults = []
    for name in ("since", "until"):
        try:
            _ns(values[name])
        except ValueError:
            faults.append(f"“{values[name]}” is no time: write it as 2026-01-31T12:00")
    one = bool(values["id"]) and "*" not in values["id"] and not values["type"]
    faults += [
        f"the attribute {name} is hidden from you, so you can't search by it"
        for name in _BY
        if values[name] and hides.hides_attribute(name, request.role) and not one
    ]
    try:
        rest = json.loads(request.asked("rest") or "null")
        numbers = {name: int(request.asked(name) or 0) for name in ("position", "searched", "steps")}
        if not all(0 <= number < _EVER for number in numbers.values()) or not _is_rest(rest):
            raise ValueError
    except (ValueError, RecursionError):
        raise Problem(422, "this is not the address of a search: search again") from None
    found = Search(**values, rest=rest, faults=faults)  # type: ignore[arg-type]
    return replace(found, **numbers)  # type: ignore[arg-type]


def _is_rest(rest: Any) -> bool:
    """Whether it may be one: by broker what its channel understands (the log: a number for each shard)."""
    if not isinstance(rest, dict):
        return rest is None
    numbers = [
        each for of_it in rest.values() for each in (of_it.items() if isinstance(of_it, dict) else [("0", of_it)])
    ]
    return all(key.isdecimal() and type(number) is int and 0 <= number < _EVER for key, number in numbers)


def _ns(text: str) -> int:
    if not text:
        return 0
    found = datetime.fromisoformat(text)
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()) * 1_000_000_000


async def search(console: Console, wanted: Search, role: Role | None) -> Results:
    """One step of a search."""
    since, until = _ns(wanted.since), _ns(wanted.until) or _EVER
    built, broker = console.gateway.topology, wanted.broker or None
    step = await browse(built, wanted.wanted, since, until, broker, wanted.rest)
    rows = [head(name, event) for name, event in step.events]
    if wanted.rest is None:
        question = {"wanted": wanted.wanted, "since_ns": since, "until_ns": until, "broker": broker}
        for answer in await console.recording.ask({"find": question}):
            # what can be searched in its channel was found there
            rows += [row for row in answer["events"] if row["broker"] in (*step.unsearchable, *built.bridges)]
        rows.sort(key=lambda row: -row["received_ns"])
    searched = wanted.searched + step.searched
    following = None
    if step.rest is not None:
        following = replace(wanted, rest=step.rest, searched=searched, steps=0 if rows else wanted.steps + 1)
    shown = [_row(row, console.hides, role) for row in rows]
    unsearchable = [*step.unsearchable, *(b for b in built.bridges if broker in (None, b))]
    return Results(shown, following, searched, unsearchable, step.faults)


def _row(row: Mapping[str, Any], hides: HideConfig, role: Role | None) -> dict[str, Any]:
    hidden = {name for name in ("id", "source", "type", "subject") if hides.hides_attribute(name, role)}
    link = {name: row[name] for name in ("id", "source", "broker") if row[name]}
    if row["position"]:
        link["position"] = row["position"]
    shown = {**row, **dict.fromkeys(hidden, HIDDEN)}
    shown["link"] = "" if hidden & {"id", "source"} or not row["id"] else f"{ROOT}/events?{urlencode(link)}"
    return shown
