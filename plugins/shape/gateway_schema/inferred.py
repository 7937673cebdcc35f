"""The shape of JSON data, merged from samples, as JSON Schema (draft 2020-12; the words used mean the same in draft 7,
which AsyncAPI 3 uses).

It says what was seen, not what is allowed: a field is required if every sample had it. An enum or a format is only
stated if enough samples agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any
from uuid import UUID

MOST_FIELDS = 100
"""Per object."""
MOST_NODES = 1000
"""Per type of events."""
MOST_DEPTH = 10
MOST_ITEMS = 50
"""Items of an array that are looked into."""
MOST_VALUES = 8
"""Of an enum."""
_MOST_TEXT = 64
_SURE_OF_FORMAT = 3
_SURE_OF_ENUM = 4
"""How often each value of an enum must have been seen, on average; and the fewest strings is ten."""
_FEWEST = 10
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
_ORDER = ("object", "array", "string", "integer", "number", "boolean", "null")


def _format_of(text: str) -> str:
    """The format that a text has for certain: `date-time`, `date` or `uuid`; "" for none."""
    try:
        if _INSTANT.fullmatch(text):
            datetime.fromisoformat(text)
            return "date-time"
        if _DAY.fullmatch(text):
            date.fromisoformat(text)
            return "date"
        if _UUID.fullmatch(text):
            UUID(text)
            return "uuid"
    except ValueError:
        pass
    return ""


@dataclass
class Budget:
    """How many more nodes the shapes of a type may have; `cut` once something was left out."""

    left: int = MOST_NODES
    cut: bool = False


@dataclass
class Shape:
    """What was seen at one place."""

    budget: Budget
    types: dict[str, int] = field(default_factory=dict)
    fields: dict[str, Shape] = field(default_factory=dict)
    items: Shape | None = None
    values: dict[str, int] | None = field(default_factory=dict)
    format: str | None = None

    @property
    def seen(self) -> int:
        """How often something was here."""
        return sum(self.types.values())

    def see(self, value: Any, depth: int = 0) -> None:
        """Takes a value (of parsed JSON) into account."""
        name = "null" if value is None else _NAMES[type(value)]
        self.types[name] = self.types.get(name, 0) + 1
        if name == "string":
            self._see_text(value)
        elif name in ("object", "array"):
            if depth >= MOST_DEPTH:
                self.budget.cut = True
            elif name == "object":
                self._see_fields(value, depth)
            elif value:
                self._see_items(value, depth)

    def _see_fields(self, value: dict[str, Any], depth: int) -> None:
        for name, each in value.items():
            found = self.fields.get(name)
            if found is None:
                if len(self.fields) >= MOST_FIELDS or (found := self._made()) is None:
                    self.budget.cut = True
                    continue
                self.fields[name] = found
            found.see(each, depth + 1)

    def _see_items(self, value: list[Any], depth: int) -> None:
        if self.items is None:
            self.items = self._made()
        if self.items is None:
            return
        for each in value[:MOST_ITEMS]:
            self.items.see(each, depth + 1)

    def _made(self) -> Shape | None:
        if self.budget.left <= 0:
            self.budget.cut = True
            return None
        self.budget.left -= 1
        return Shape(self.budget)

    def _see_text(self, text: str) -> None:
        found = _format_of(text)
        self.format = found if self.format in (None, found) else ""
        if self.values is not None:
            if len(text) > _MOST_TEXT or (text not in self.values and len(self.values) >= MOST_VALUES):
                self.values = None
            else:
                self.values[text] = self.values.get(text, 0) + 1

    def schema(self) -> dict[str, Any]:
        """JSON Schema of what was seen; empty if nothing was."""
        names = [name for name in _ORDER if name in self.types and not (name == "integer" and "number" in self.types)]
        if not names:
            return {}
        made: dict[str, Any] = {"type": names[0] if len(names) == 1 else names}
        strings = self.types.get("string", 0)
        if self.format and strings >= _SURE_OF_FORMAT:
            made["format"] = self.format
        elif (
            self.values
            and strings >= max(_FEWEST, _SURE_OF_ENUM * len(self.values))
            and names
            in (
                ["string"],
                ["string", "null"],
            )
        ):
            made["enum"] = [*sorted(self.values), *([None] if "null" in names else [])]
        if self.fields:
            objects = self.types["object"]
            made["properties"] = {name: self.fields[name].schema() for name in sorted(self.fields)}
            if required := [name for name in sorted(self.fields) if self.fields[name].seen == objects]:
                made["required"] = required
        if self.items is not None and (items := self.items.schema()):
            made["items"] = items
        return made


@dataclass(frozen=True, slots=True)
class Line:
    """A place in a schema, for people: its path, its types, whether it is always there, and what else is known."""

    path: str
    types: str
    required: bool
    more: str


def lines(schema: dict[str, Any], path: str = "", required: bool = True) -> Iterator[Line]:
    """The places of a schema, the outer ones first."""
    if not schema:
        return
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    more = schema.get("format") or ", ".join("null" if each is None else str(each) for each in schema.get("enum", []))
    if path or types != ["object"]:
        yield Line(path or "(the data)", " or ".join(types), required, more)
    for name, each in schema.get("properties", {}).items():
        yield from lines(each, f"{path}.{name}" if path else name, name in schema.get("required", []))
    if "items" in schema:
        yield from lines(schema["items"], f"{path}[]")
