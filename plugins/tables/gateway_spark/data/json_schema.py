"""Converts JSON Schema (2020-12, and the common part of draft 7) to the type of a column.

A table needs to know its fields and their types. Keywords that only restrict values (`minimum`, `pattern`, `if` …) are
ignored; a schema that leaves the shape of a value open is rejected.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from . import types as data_types
from .evolution import conflict, merge
from .types import Type, array, doubled, fields, kind, mapping, struct

_SCALARS = {"string": "string", "integer": "long", "number": "double", "boolean": "boolean"}
_FORMATS = {"date-time": "timestamp", "date": "date"}
_DEPTH = 100
Found = tuple[Type | None, bool]
"""A type (None for `null` alone), and whether the value may be null."""


class SchemaFault(ValueError):
    """Says where the fault is in the schema (a JSON Pointer), and what it is, in one line."""


def load(path: str | Path) -> Type:
    """The type that the schema in a file describes. Raises `ValueError` with one line that names the file and the place
    in it."""
    try:
        schema = json.loads(Path(path).read_text("utf-8"))
    except OSError as e:
        raise ValueError(f"can't read {path}: {e.strerror or e}") from None
    except UnicodeDecodeError as e:
        raise ValueError(f"{path} is not UTF-8: {e}") from None
    except json.JSONDecodeError as e:
        raise ValueError(f"{path}:{e.lineno}:{e.colno} is not JSON: {e.msg}") from None
    try:
        return convert(schema)
    except SchemaFault as e:
        raise ValueError(f"{path}: {e}") from None


def convert(schema: Any) -> Type:
    """The type that a schema describes. Raises `SchemaFault`."""
    of, _ = _Converter(schema).of(schema, "#", 0)
    if of is None:
        raise SchemaFault("# allows nothing but null")
    return of


class _Converter:
    def __init__(self, root: Any) -> None:
        self._root = root

    def of(self, schema: Any, at: str, depth: int) -> Found:
        if not isinstance(schema, dict):
            raise SchemaFault(f"{at} does not define the type of the value: make it an object with a `type`")
        if depth > _DEPTH:
            raise SchemaFault(
                f"{at} refers to itself, and a table can't have infinite columns: make it a string, or remove it"
            )
        parts = [self._plain(schema, at, depth)]
        if "$ref" in schema:
            parts.append(self.of(self._target(schema["$ref"], at), str(schema["$ref"]), depth + 1))
        parts += [self.of(s, f"{at}/allOf/{n}", depth + 1) for n, s in enumerate(schema.get("allOf", ()))]
        found = [p for p in parts if p is not None]
        if not found:
            found = [self._alternatives(schema, at, depth)]
        return self._all(found, at)

    def _target(self, ref: Any, at: str) -> Any:
        if not isinstance(ref, str) or not ref.startswith("#"):
            raise SchemaFault(f"{at} refers to {ref!r}: references must be within the same file")
        target = self._root
        for step in ref[1:].split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            target = target.get(step) if isinstance(target, dict) else None
        if target is None:
            raise SchemaFault(f"{at} refers to {ref}, which does not exist")
        return target

    def _all(self, found: list[Found], at: str) -> Found:
        """The type of a value that satisfies all of these."""
        of, null = found[0]
        for other, other_null in found[1:]:
            null = null and other_null
            if of is not None and other is not None:
                if words := conflict(of, other, at):
                    raise SchemaFault(f"{words}: two types for one value")
                of = _stricter(of, other)
        return of, null

    def _alternatives(self, schema: dict[str, Any], at: str, depth: int) -> Found:
        word = "anyOf" if "anyOf" in schema else "oneOf"
        found = [self.of(s, f"{at}/{word}/{n}", depth + 1) for n, s in enumerate(schema.get(word, ()))]
        if not found:
            raise SchemaFault(f"{at} does not define the type of the value: give it a `type`")
        types = [t for t, _ in found if t is not None]
        return self._one(types, at), any(null for _, null in found)

    def _one(self, types: list[Type], at: str) -> Type | None:
        """The type that can hold values of any of these."""
        if not types:
            return None
        if all(t == types[0] for t in types):
            return types[0]
        if all(t in ("long", "double") for t in types):
            return "double"
        if all(isinstance(t, str) for t in types):
            return "string"  # takes the text of any value
        if all(kind(t) == "struct" for t in types):
            of = struct([])
            for t in types:
                if words := conflict(of, t, at):
                    raise SchemaFault(f"{words}: two types for one field")
                of = merge(of, t)
            return struct((f["name"], f["type"], True) for f in fields(of))
        raise SchemaFault(f"{at} allows {', '.join(sorted({kind(t) for t in types}))}: a column has one type")

    def _plain(self, schema: dict[str, Any], at: str, depth: int) -> Found | None:
        """The type that the schema itself gives, or None."""
        named = schema.get("type")
        if named is None:
            named = _implied(schema)
        if named is None or (named == "object" and _left_open(schema)):
            return None
        names = named if isinstance(named, list) else [named]
        null = "null" in names
        return self._one([self._named(n, schema, at, depth) for n in names if n != "null"], at), null

    def _named(self, name: Any, schema: dict[str, Any], at: str, depth: int) -> Type:
        match name:
            case "object":
                return self._object(schema, at, depth)
            case "array":
                items = schema.get("items")
                if not isinstance(items, dict):
                    raise SchemaFault(f"{at} is an array, but `items` does not define its elements")
                of, _ = self.of(items, f"{at}/items", depth + 1)
                if of is None:
                    raise SchemaFault(f"{at}/items allows nothing but null")
                return array(of)
            case "string" if schema.get("contentEncoding") == "base64":
                return "binary"
            case "string":
                return _FORMATS.get(str(schema.get("format")), "string")
            case str() if name in _SCALARS:
                return _SCALARS[name]
        raise SchemaFault(f"{at}/type: there is no type {name!r} in JSON Schema")

    def _object(self, schema: dict[str, Any], at: str, depth: int) -> Type:
        properties = schema.get("properties")
        if properties:
            return self._struct(properties, set(schema.get("required", ())), at, depth)
        others = [schema.get("additionalProperties"), *schema.get("patternProperties", {}).values()]
        types = [self.of(s, f"{at}/additionalProperties", depth + 1)[0] for s in others if isinstance(s, dict)]
        value = self._one([t for t in types if t is not None], at)
        if value is None:
            raise SchemaFault(f"{at} is an object, but has neither `properties` nor `additionalProperties`")
        return mapping(value)

    def _struct(self, properties: Any, required: set[str], at: str, depth: int) -> Type:
        if not isinstance(properties, dict):
            raise SchemaFault(f"{at}/properties is not an object")
        if twice := doubled(properties):
            raise SchemaFault(f"{at}/properties: {twice} occurs twice (case-insensitive)")
        made = []
        for name, schema in properties.items():
            if schema is False:  # never there
                continue
            of, null = self.of(schema, f"{at}/properties/{name}", depth + 1)
            if of is not None:
                # a null field can't be distinguished from a missing one
                made.append((name, of, null or name not in required))
        return struct(made)


def _implied(schema: dict[str, Any]) -> list[str] | str | None:
    """The `type` of a schema that does not name one."""
    if "properties" in schema or isinstance(schema.get("additionalProperties"), dict) or "patternProperties" in schema:
        return "object"
    if "items" in schema:
        return "array"
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if not isinstance(values, list) or not values:
        return None
    known = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
    names = {known.get(type(v), "") for v in values}
    return None if "" in names else sorted(names)


def _left_open(schema: dict[str, Any]) -> bool:
    """Whether the type of an object is defined elsewhere."""
    others = any(word in schema for word in ("$ref", "allOf", "anyOf", "oneOf"))
    return others and not any(word in schema for word in ("properties", "additionalProperties", "patternProperties"))


def _stricter(a: Type, b: Type) -> Type:
    """The merged type, in which a field is required if either type requires it."""
    merged = merge(a, b)
    if kind(merged) != "struct":
        return merged
    needed = {f["name"].lower() for t in (a, b) for f in fields(t) if not f["nullable"]}
    return struct((f["name"], f["type"], f["name"].lower() not in needed) for f in fields(merged))


def ddl(path: str | Path) -> str:
    """`load`, as DDL."""
    return data_types.render(load(path))
