"""Records: the parts of a status. A field declares its type, its meaning, and how two of its values become one:

    accepted: Annotated[int, TOTAL("Events written to the channel.")] = 0

So the records of several workers become one. Merging is associative, and a field's default changes nothing. Facts that
only one component has are in the field `details`; in a document, they are beside the other fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from threading import Lock
from typing import Any, Self, get_args, get_type_hints

import msgspec

DETAILS_FIELD = "details"
_preparing = Lock()


class Record(msgspec.Struct, frozen=True):
    """The base of records. A field without a default names the record."""

    def merged(self, other: Self) -> Self:
        """Both values combined."""
        values = {f.name: f.rule.join(getattr(self, f.name), getattr(other, f.name)) for f in fields(type(self))}
        return type(self)(**values)

    def counts(self) -> Self:
        """What remains when its worker (or what it describes) has ended: its name and its counters."""
        kept = {}
        for field in fields(type(self)):
            value = getattr(self, field.name)
            if field.required:
                kept[field.name] = value
            elif field.rule.kept is not None:
                kept[field.name] = field.rule.kept(value)
        return type(self)(**kept)

    def document(self) -> dict[str, Any]:
        """The record as JSON values."""
        found: dict[str, Any] = {}
        for field in fields(type(self)):
            value = getattr(self, field.name)
            if field.name == DETAILS_FIELD:
                found.update(value)
            else:
                found[field.name] = _plain(value) if field.nested else value
        return found

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """The record of a document; what is unknown goes to `details`, if any. Raises `msgspec.ValidationError`."""
        return msgspec.convert(_sorted(cls, document), cls)


@dataclass(frozen=True, slots=True)
class Rule:
    """How two values of a field become one: `join`. A counter outlives what it counts: `kept` is what remains."""

    join: Callable[[Any, Any], Any]
    kept: Callable[[Any], Any] | None = None

    def __call__(self, description: str) -> msgspec.Meta:
        """The annotation of a field."""
        return msgspec.Meta(description=description, extra={"rule": self})


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record; `nested` is the record in it, if any."""

    name: str
    rule: Rule
    description: str
    required: bool
    nested: type[Record] | None


@cache
def fields(kind: type[Record]) -> tuple[Field, ...]:
    """The fields of a kind of record. Raises `TypeError` if one has no rule."""
    with _preparing:  # msgspec prepares a struct when it is first needed, and crashes if a thread reads it meanwhile
        msgspec.json.Decoder(kind)
    found, hints = [], get_type_hints(kind, include_extras=True)
    for field in msgspec.structs.fields(kind):
        hint = hints[field.name]
        meta = next((arg for arg in get_args(hint) if isinstance(arg, msgspec.Meta)), None)
        rule = (meta.extra or {}).get("rule") if meta is not None else None
        if meta is None or not isinstance(rule, Rule):
            raise TypeError(f"{kind.__name__}.{field.name} does not say how it is merged")
        found.append(Field(field.name, rule, meta.description or "", field.required, _nested(hint)))
    return tuple(found)


def _nested(hint: Any) -> type[Record] | None:
    if isinstance(hint, type) and issubclass(hint, Record):
        return hint
    return next((found for arg in get_args(hint) if (found := _nested(arg)) is not None), None)


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.document()
    return [_plain(v) for v in value] if isinstance(value, list) else value


def _sorted(kind: type[Record], value: Any) -> Any:
    """A document with `details` in their field."""
    if isinstance(value, list):
        return [_sorted(kind, v) for v in value]
    if not isinstance(value, Mapping):
        return value
    found, rest = {}, dict(value)
    for field in fields(kind):
        if field.name in rest and field.name != DETAILS_FIELD:
            part = rest.pop(field.name)
            found[field.name] = _sorted(field.nested, part) if field.nested else part
    return {**found, DETAILS_FIELD: rest}


def _first(mine: Any, theirs: Any) -> Any:
    return mine if theirs is None or theirs == "" or not (mine is None or mine == "") else theirs


def _sum(mine: Any, theirs: Any) -> Any:
    return _first(mine, theirs) if mine is None or theirs is None else mine + theirs


def _record(mine: Record | None, theirs: Record | None) -> Record | None:
    return (mine or theirs) if mine is None or theirs is None else mine.merged(theirs)


def _counts(value: Record | None) -> Record | None:
    return value.counts() if value is not None else None


def _in_order(mine: list[Record], theirs: list[Record]) -> list[Record | None]:
    return [_record(a, b) for a, b in zip_longest(mine, theirs)]


def _by(key: str) -> Callable[[list[Any], list[Any]], list[Any]]:
    def join(mine: list[Any], theirs: list[Any]) -> list[Any]:
        found = list(mine)
        places: dict[str, int] = {}
        for place, entry in enumerate(mine):
            places.setdefault(getattr(entry, key), place)
        for entry in theirs:
            place = places.setdefault(getattr(entry, key), len(found))
            found[place : place + 1] = [entry if place == len(found) else found[place].merged(entry)]
        return found

    return join


def _details(mine: Any, theirs: Any) -> Any:
    if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
        return {**mine, **{key: _details(mine[key], value) if key in mine else value for key, value in theirs.items()}}
    return mine + theirs if _is_number(mine) and _is_number(theirs) else _first(mine, theirs)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _known(*values: Any) -> list[Any]:
    return [value for value in values if value is not None]


FIRST = Rule(_first)
"""The first that is there."""
TOTAL = Rule(_sum, lambda value: value)
"""A counter, which only grows: the sum."""
CURRENT = Rule(_sum)
"""A number that goes up and down: the sum, of those that are known."""
EVERY = Rule(lambda mine, theirs: mine and theirs)
"""True if all are."""
ANY = Rule(lambda mine, theirs: mine or theirs)
"""True if one is."""
EARLIEST = Rule(lambda mine, theirs: min(_known(mine, theirs), default=None))
"""The first of times in RFC 3339, in UTC, of those that are known."""
GREATEST = Rule(lambda mine, theirs: max(_known(mine, theirs), default=None))
"""The greatest, of those that are known."""
TOTALS = Rule(lambda mine, theirs: [a + b for a, b in zip_longest(mine, theirs, fillvalue=0)], list)
"""Counters in a list: the sum at each place."""
TOTALS_BY_KEY = Rule(lambda mine, theirs: {k: mine.get(k, 0) + theirs.get(k, 0) for k in {**mine, **theirs}}, dict)
"""Counters by name: the sum for each."""
ONE = Rule(_record, _counts)
"""A record, merged; None gives way."""
IN_ORDER = Rule(_in_order, lambda value: [entry.counts() for entry in value])
"""Records in the order of the config: those at the same place are merged."""
BY_NAME = Rule(_by("name"), lambda value: [entry.counts() for entry in value])
"""Records with names: those of the same name are merged."""
BY_PART = Rule(_by("part"))
"""Records about parts: those of the same part are merged."""
BY_ADDRESS = Rule(_by("address"))
"""Records with addresses: those of the same address are merged."""
ALL = Rule(lambda mine, theirs: [*mine, *theirs])
"""Records of all, one after the other."""
DETAILS = Rule(_details)
"""What a component says beyond the fields: numbers are added, mappings merged by key, of all else the first counts."""
