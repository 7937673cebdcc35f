"""Why an event matches an expression, or does not. Used by `tidegate explain`, never during delivery."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gateway_core.contract.event import Event
from gateway_core.contract.filters import found_in
from gateway_core.contract.interfaces import Clause

from .compiler import conditions
from .errors import CesqlError
from .tree import Attribute, Binary, Call, Exists, In, Like, Logic, Negate, Node, Not, text


def explained(tree: Node, event: Event) -> Clause:
    """The expression as a clause. Each operand of a chain of ANDs is a part, evaluated on its own."""
    if isinstance(tree, Logic) and all(word == "AND" for word, _ in tree.rest):
        operands = [tree.first, *(operand for _, operand in tree.rest)]
        checks = conditions(tree)
        parts = tuple(_clause(operand, check, event) for operand, check in zip(operands, checks, strict=True))
        return Clause(f"cesql: {_shown(tree)}", all(part.matched for part in parts), parts=parts)
    (check,) = conditions(tree)
    return _clause(tree, check, event, "cesql: ")


def parts_of(node: Node) -> tuple[Node, ...]:
    """The child nodes."""
    match node:
        case Not(operand) | Negate(operand) | Like(operand):
            return (operand,)
        case Binary(_, left, right):
            return (left, right)
        case Logic(first, rest):
            return (first, *(part for _, part in rest))
        case In(operand, items):
            return (operand, *items)
        case Call(_, arguments):
            return arguments
    return ()


def _clause(node: Node, check: Callable[[Any], bool], event: Event, prefix: str = "") -> Clause:
    found = "; ".join(found_in(event, name) for name in dict.fromkeys(_attributes(node)))
    try:
        matched = check(event.attributes)
    except CesqlError as e:
        return Clause(prefix + _shown(node), False, f"error: {e.message}" + (f"; {found}" if found else ""))
    return Clause(prefix + _shown(node), matched, found)


def _shown(node: Node) -> str:
    try:
        return text(node)
    except ValueError:  # a value without a literal, made by constant folding
        return "an expression"


def _attributes(node: Node) -> Iterator[str]:
    if isinstance(node, Attribute | Exists):
        yield node.name
    for part in parts_of(node):
        yield from _attributes(part)
