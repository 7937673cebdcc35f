"""Checks of several triggers: which of them get an event, and what goes to their dead letters.

A config says which triggers the broker has (`--triggers FILE`): those of its section `triggers` whose subscriber is a
path of the sink's port. Filters are evaluated here, from the CloudEvents Subscriptions API (section 3.2.4) and the
Knative Broker specification ("Trigger filtering"), not by Tidegate's own filters.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .bench import Bench, Cases, Check, NotSupported, expect

Attributes = Mapping[str, str]
Matches = Callable[[Attributes], bool]
_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_MOST_EVENTS = 60
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


# -- events -------------------------------------------------------------------------------------------------------


def events(found: Triggers) -> Iterator[dict[str, str]]:
    """Attributes of events that tell the filters apart: each value that a filter speaks of, values that begin or end
    with it, one that is cut, others, and none; mixed anew from the same seed. All of one choice come first."""
    choices: dict[str, list[str | None]] = {}
    for name, texts in found.values.items():
        near = [v for t in dict.fromkeys(texts) for v in (t, f"{t}x", f"x{t}", t[:-1]) if v]
        choices[name] = [*dict.fromkeys(near), "other", *([] if name in ("type", "source") else [None])]
    names = list(choices)
    seen = set[tuple[str | None, ...]]()
    random_ = random.Random(1)
    plain = [tuple(texts[0] if texts else None for texts in choices.values())]
    single = (
        tuple(value if other == name else "other" for other in names) for name in names for value in choices[name]
    )
    mixed = (tuple(random_.choice(choices[n]) for n in names) for _ in itertools.repeat(None, 5_000))
    for values in itertools.chain(plain, single, mixed):
        if values not in seen:
            seen.add(values)
            yield {n: v for n, v in zip(names, values, strict=True) if v is not None}


def _chosen(found: Triggers, default: Attributes) -> list[dict[str, str]]:
    """Events of which as many as possible are told apart by some triggers."""
    by_answer: dict[tuple[bool, ...], list[dict[str, str]]] = {}
    for more in events(found):
        answer = tuple(t.matches({**default, **more}) for t in found.known)
        by_answer.setdefault(answer, []).append(more)
    each = max(1, _MOST_EVENTS // max(1, len(by_answer)))
    return [more for group in by_answer.values() for more in group[: each + 1]][: 2 * _MOST_EVENTS]


# -- checks -------------------------------------------------------------------------------------------------------


def _found(bench: Bench) -> Triggers:
    if bench.triggers is None:
        raise NotSupported("needs --triggers")
    return bench.triggers


def filters_choose(bench: Bench) -> None:
    found = _found(bench)
    default = {"type": "dev.tidegate.conformance", "source": bench.source, "specversion": "1.0"}
    sent = {bench.deliver(more=more): {**default, **more} for more in _chosen(found, default)}
    until = bench.until()
    with Cases() as cases:
        for id, attributes in sent.items():
            shown = ", ".join(f"{n} {attributes.get(n)!r}" for n in found.values) or "any event"
            for trigger in found.known:
                if trigger.matches(attributes):
                    came = bench.sink.came(trigger.path, id, 1, until)
                    cases.expect(came >= 1, f"the trigger {trigger.name} did not get an event with {shown}")
        bench.settle()
        for id, attributes in sent.items():
            shown = ", ".join(f"{n} {attributes.get(n)!r}" for n in found.values)
            for trigger in found.known:
                if not trigger.matches(attributes):
                    came = bench.sink.came(trigger.path, id)
                    cases.expect(came == 0, f"the trigger {trigger.name} got an event with {shown}")


def dead_letters_take_what_fails(bench: Bench) -> None:
    found = _with_dead_letter(bench)
    refused = {t.name: (t, bench.deliver(400, at=t.path, more=_match(bench, t))) for t in found}
    until = bench.until()
    with Cases() as cases:
        for name, (trigger, id) in refused.items():
            came = bench.sink.came(trigger.dead, id, 1, until)
            cases.expect(came >= 1, f"the dead letter of the trigger {name} did not get an event that was answered 400")


def dead_letters_take_nothing_else(bench: Bench) -> None:
    found = _with_dead_letter(bench)
    taken = {t.name: (t, bench.deliver(more=_match(bench, t))) for t in found}
    until = bench.until()
    with Cases() as cases:
        for name, (trigger, id) in taken.items():
            came = bench.sink.came(trigger.path, id, 1, until)
            cases.expect(came >= 1, f"the trigger {name} did not get its event")
        bench.settle()
        for name, (trigger, id) in taken.items():
            came = bench.sink.came(trigger.dead, id)
            cases.expect(came == 0, f"the dead letter of the trigger {name} got an event that was delivered")


def _with_dead_letter(bench: Bench) -> list[Trigger]:
    found = [t for t in _found(bench).known if t.dead]
    if not found:
        raise NotSupported("no trigger has its dead letter at the sink")
    return found


def _match(bench: Bench, trigger: Trigger) -> dict[str, str]:
    """Attributes of an event that a trigger wants, and few others."""
    found = _found(bench)
    default = {"type": "dev.tidegate.conformance", "source": bench.source, "specversion": "1.0"}
    wanted = [more for more in events(found) if trigger.matches({**default, **more})]
    expect(bool(wanted), f"no event can be made that the trigger {trigger.name} wants")
    return min(wanted, key=lambda more: sum(t.matches({**default, **more}) for t in found.known))


TRIGGERS = [
    Check("BR-08", "M", "gives each trigger what its filter matches, and nothing else", filters_choose, sink=True),
    Check("BR-19", "m", "sends to the dead letter what a subscriber refused", dead_letters_take_what_fails, sink=True),
    Check("BR-19", "m", "sends to the dead letter nothing else", dead_letters_take_nothing_else, sink=True),
]
