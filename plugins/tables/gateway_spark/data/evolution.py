"""How the type of a table's data evolves: the type of a sample, merging of types, and conflicts."""

from __future__ import annotations

from collections.abc import Collection

from .types import Type, array, fields, kind, mapping, parse, render, struct

MAX_FIELDS = 1000
"""The most fields that are inferred for one table, so that data with values as keys does not create a column for each
value."""
MAX_DEPTH = 20
"""The most levels of data that are inferred. With some hundreds, Spark can't write the type, or its JVM ends."""
ALL = "*"
"""Stands for the event types that have no schema of their own."""
Path = tuple[str, ...]
_UNFIT = frozenset(" ,;{}()\n\t=")  # no table format allows all of these in column names


def observed(text: str | None) -> Type:
    """The structure of data from the result of Spark's `schema_of_variant_agg` (objects only); empty if it is
    unknown."""
    found = _usable(parse(text, observed=True)) if text else None
    return found if found is not None and kind(found) == "struct" else struct([])


def _usable(of: Type) -> Type | None:
    """The part of a type that a column can have; None if there is none (null, an empty object, or a list of these)."""
    match kind(of):
        case "struct":
            kept: list[tuple[str, Type, bool]] = []
            names: set[str] = set()
            for f in fields(of):
                inner = _usable(f["type"])
                name = f["name"]
                if inner is None or not name or name.lower() in names or not _UNFIT.isdisjoint(name):
                    continue
                names.add(name.lower())
                kept.append((name, inner, True))
            return struct(kept) if kept else None
        case "array":
            assert isinstance(of, dict)
            element = _usable(of["elementType"])
            return None if element is None else array(element)
        case "void":
            return None
        case "variant":  # values of several types
            return "string"
        case plain if plain.startswith("decimal"):
            return "double"
        case plain:
            return plain


def clashes(of: Type, path: Path = ()) -> list[list[Path]]:
    """The fields whose names differ in case only, in groups; not those within arrays."""
    groups: dict[str, list[Path]] = {}
    for f in fields(of):
        groups.setdefault(f["name"].lower(), []).append((*path, f["name"]))
    found = [group for group in groups.values() if len(group) > 1]
    return found + [group for f in fields(of) for group in clashes(f["type"], (*path, f["name"]))]


def without(of: Type, lost: Collection[Path], path: Path = ()) -> Type:
    """A type without these fields."""
    if kind(of) != "struct":
        return of
    kept = [f for f in fields(of) if (*path, f["name"]) not in lost]
    return struct([(f["name"], without(f["type"], lost, (*path, f["name"])), f["nullable"]) for f in kept])


def unlike(known: Type, seen: Type, path: str = "data") -> list[tuple[str, str]]:
    """The fields that have no column since the names of known ones differ in case only, each with the known one."""
    names = {f["name"].lower(): f for f in fields(known)}
    found = []
    for f in fields(seen):
        other = names.get(f["name"].lower())
        if other is not None and other["name"] != f["name"]:
            found.append((f"{path}.{f['name']}", f"{path}.{other['name']}"))
        elif other is not None:
            found += unlike(other["type"], f["type"], f"{path}.{f['name']}")
    if isinstance(known, dict) and isinstance(seen, dict) and kind(known) == kind(seen) == "array":
        found += unlike(known["elementType"], seen["elementType"], f"{path}[]")
    return found


def merge(known: Type, seen: Type) -> Type:
    """The known type with additional fields of the other, at any depth. If both have a type, the known one stays."""
    match kind(known), kind(seen):
        case "struct", "struct":
            new = {f["name"].lower(): f for f in fields(seen)}
            grown = []
            for f in fields(known):
                other = new.pop(f["name"].lower(), None)
                grown.append((f["name"], merge(f["type"], other["type"]) if other else f["type"], f["nullable"]))
            return struct(grown + [(f["name"], f["type"], True) for f in new.values()])
        case "array", "array":
            assert isinstance(known, dict)
            assert isinstance(seen, dict)
            return array(merge(known["elementType"], seen["elementType"]))
        case "map", "map":
            assert isinstance(known, dict)
            assert isinstance(seen, dict)
            return mapping(merge(known["valueType"], seen["valueType"]))
    return known


def grow(known: Type, seen: Type) -> Type:
    """Like `merge`, for inferred types: skips fields that would exceed `MAX_FIELDS`."""
    for f in fields(seen):
        grown = merge(known, struct([(f["name"], f["type"], True)]))
        known = grown if size(grown) <= MAX_FIELDS else known
    return known


def size(of: Type) -> int:
    """The number of fields in a type, at all depths."""
    if isinstance(of, str):
        return 0
    inner = of.get("elementType") or of.get("valueType")
    return sum(1 + size(f["type"]) for f in fields(of)) + (size(inner) if inner else 0)


def conflict(known: Type, new: Type, path: str = "data") -> str:
    """A message about the first part where two types can't share a column; "" if one can evolve into the other."""
    match kind(known), kind(new):
        case "struct", "struct":
            wanted = {f["name"].lower(): f for f in fields(new)}
            for f in fields(known):
                other = wanted.get(f["name"].lower())
                if other is not None and (words := conflict(f["type"], other["type"], f"{path}.{f['name']}")):
                    return words
            return ""
        case ("array", "array") | ("map", "map"):
            assert isinstance(known, dict)
            assert isinstance(new, dict)
            part = "elementType" if kind(known) == "array" else "valueType"
            return conflict(known[part], new[part], f"{path}[]")
    same = known == new
    return "" if same else f"{path} was {render(known, False)} and now is {render(new, False)}"
