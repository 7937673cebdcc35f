"""The triggers that a config says a broker has, with filters that are evaluated here.

A config says which triggers the broker has (`--triggers FILE`): those of its section `triggers` whose subscriber is a
path of the sink's port. Filters are evaluated here, from the CloudEvents Subscriptions API (section 3.2.4) and the
Knative Broker specification ("Trigger filtering"), not by Tidegate's own filters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

Attributes = Mapping[str, str]
Matches = Callable[[Attributes], bool]
_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_FIXED = {"id", "specversion", "time", "datacontenttype", "dataschema", "schemaurl"}
"""Attributes that can't have any value, or whose value the checks need."""
_DIALECTS: dict[str, Callable[[str, str], bool]] = {
    "exact": lambda found, text: found == text,
    "prefix": str.startswith,
    "suffix": str.endswith,
}


class BadTriggers(Exception):
    """A config of triggers can't be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """A trigger at a path of the sink. `dead` is the path of its dead letter there, "" if that is elsewhere; `unknown`
    says why its filter can't be evaluated here."""

    name: str
    path: str
    dead: str
    matches: Matches
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class Triggers:
    """What a config says. `values` are those that its filters speak of, by attribute; `elsewhere` names the triggers
    whose subscriber is no path of the sink."""

    triggers: Sequence[Trigger] = ()
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    elsewhere: Sequence[str] = ()

    @property
    def main(self) -> str:
        """The path of the trigger that gets everything, at which the other checks look. "" if there is none."""
        return next((t.path for t in self.triggers if not t.unknown and t.matches is _always), "")

    @property
    def known(self) -> list[Trigger]:
        """Those whose filter can be evaluated."""
        return [t for t in self.triggers if not t.unknown]


def read(file: Path, port: int) -> Triggers:
    """The triggers of a config that lead to this port of this machine. Raises `BadTriggers`."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        document = YAML(typ="safe", pure=True).load(file)
        section = document["triggers"]
        brokers = document.get("brokers") or {}
        found, elsewhere, values = [], [], dict[str, list[str]]()
        for name, entry in section.items():
            path = _path(entry.get("subscriber"), port)
            if not path:
                elsewhere.append(name)
                continue
            broker = brokers.get(entry.get("broker", "default")) or {}
            dead = _path(entry.get("dead_letter") or broker.get("dead_letter"), port)
            try:
                matches, unknown = _filter(entry, values), ""
            except BadTriggers as e:
                matches, unknown = _always, str(e)
            found.append(Trigger(name, path, dead, matches, unknown))
    except (OSError, YAMLError) as e:
        raise BadTriggers(f"{file}: {e}") from e
    except (AttributeError, KeyError, TypeError) as e:
        raise BadTriggers(f"{file} has no section `triggers` of the usual form ({type(e).__name__}: {e})") from e
    paths = [t.path for t in found] + sorted({t.dead for t in found if t.dead})
    if len(set(paths)) < len(paths):
        raise BadTriggers(f"{file}: each trigger needs a path of its own at the sink, and dead letters another")
    made = Triggers(found, values, elsewhere)
    if not made.main:
        raise BadTriggers(f"{file}: no trigger without a filter has its subscriber at port {port}")
    return made


def _path(written: Any, port: int) -> str:
    if isinstance(written, Mapping):
        written = (written.get("http") or {}).get("url")
    parts = urlsplit(written) if isinstance(written, str) else None
    return (parts.path or "/") if parts and parts.hostname in _LOOPBACK and parts.port == port else ""


# -- filters ------------------------------------------------------------------------------------------------------


def _always(event: Attributes) -> bool:
    return True


def _filter(entry: Mapping[str, Any], values: dict[str, list[str]]) -> Matches:
    """With `filters`, all of these; else all pairs of `filter`; else everything."""
    if entry.get("filters"):
        return _all([_dialect(one, values) for one in entry["filters"]])
    pairs = entry.get("filter") or {}
    return (
        _attributes("exact", {n: t for n, t in pairs.items() if t}, values, present=pairs.keys()) if pairs else _always
    )


def _dialect(written: Any, values: dict[str, list[str]]) -> Matches:
    ((name, inner),) = written.items()
    if name in _DIALECTS:
        return _attributes(name, inner, values)
    if name == "all":
        return _all([_dialect(one, values) for one in inner])
    if name == "any":
        operands = [_dialect(one, values) for one in inner]
        return lambda event: any(matches(event) for matches in operands)
    if name == "not":
        operand = _dialect(inner, values)
        return lambda event: not operand(event)
    raise BadTriggers(f"the filter {name} is not evaluated here")


def _all(operands: Sequence[Matches]) -> Matches:
    return lambda event: all(matches(event) for matches in operands)


def _attributes(
    dialect: str, pairs: Mapping[str, str], values: dict[str, list[str]], present: Set[str] = frozenset()
) -> Matches:
    holds = _DIALECTS[dialect]
    if fixed := sorted(_FIXED & {*pairs, *present}):
        raise BadTriggers(f"no event is made with other values of {', '.join(fixed)}")
    for name, text in pairs.items():
        values.setdefault(name, []).append(text)
    for name in present - pairs.keys():
        values.setdefault(name, []).append("x")

    def matches(event: Attributes) -> bool:
        return event.keys() >= present and all(n in event and holds(event[n], text) for n, text in pairs.items())

    return matches
