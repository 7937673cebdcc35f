"""How the type of a table's data grows: what a sample says, what is added to what is known, what would conflict."""

from __future__ import annotations

from .types import Type, array, fields, kind, mapping, parse, render, struct

MAX_FIELDS = 1000
"""The most fields that are inferred for one table: data whose keys are values must not make a column of each."""
_UNFIT = frozenset(" ,;{}()\n\t=")  # no table format takes all of these in a column's name


def observed(text: str | None) -> Type:
    """The structure that data has by what Spark's `schema_of_variant_agg` says of it (objects only); an empty one
    where nothing can be said."""
    found = _usable(parse(text, observed=True)) if text else None
    return found if found is not None and kind(found) == "struct" else struct([])


def _usable(of: Type) -> Type | None:
    """What a column can have of it; None where that is nothing (null, an empty object, a list of those)."""
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


def merge(known: Type, seen: Type) -> Type:
    """What is known, with the fields that were not: at any depth. Where both have a type, the known one stays."""
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
    """`merge` for what is inferred: of what would bring it over `MAX_FIELDS` nothing is added."""
    for f in fields(seen):
        grown = merge(known, struct([(f["name"], f["type"], True)]))
        known = grown if size(grown) <= MAX_FIELDS else known
    return known


def size(of: Type) -> int:
    """How many fields there are in it, at all depths."""
    if isinstance(of, str):
        return 0
    inner = of.get("elementType") or of.get("valueType")
    return sum(1 + size(f["type"]) for f in fields(of)) + (size(inner) if inner else 0)


def conflict(known: Type, new: Type, path: str = "data") -> str:
    """The first place where two types can't be in one column, in words; "" where one can grow into the other."""
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
