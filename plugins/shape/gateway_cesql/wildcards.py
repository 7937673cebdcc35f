"""Finds the wildcards of other languages in an expression."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from .pattern import ANY, ONE, parts
from .tree import Attribute, Binary, Like, Literal, text


def mistaken(tree: Any) -> Iterator[tuple[str, str]]:
    """The comparisons with a `*` that stands for nothing else, and what their author may mean: LIKE without `%` and
    `_`, and `=` with a text that ends with `*`."""
    match tree:
        case Like(operand, pattern, negated) if "*" in pattern and not {ANY, ONE} & set(parts(pattern)):
            yield text(tree), text(Like(operand, pattern.replace("*", "%"), negated))
        case Binary("=", Attribute() as operand, Literal(str(value))) if value.endswith("*"):
            yield text(tree), text(Like(operand, value.replace("%", "\\%").replace("_", "\\_").replace("*", "%")))
        case tuple():
            for each in tree:
                yield from mistaken(each)
        case _ if is_dataclass(tree):
            for field in fields(tree):
                yield from mistaken(getattr(tree, field.name))
