"""What every matching event must have, for the router's index. Only for exact comparisons of text."""

from __future__ import annotations

from gateway_core.contract.filters import all_of, has_value
from gateway_core.contract.interfaces import Filter

from .pattern import fixed_start
from .tree import Attribute, Binary, In, Like, Literal, Logic, Node
from .types import integer_in

_NONE = Filter(lambda event: True)


def hints(node: Node) -> Filter:
    """A filter whose `exact`, `prefix` and `alternatives` hold for every event that matches the expression without an
    error. Don't use its `matches`."""
    match node:
        case Binary("=", Attribute(name), Literal(str(value))):
            return _exact(name, value)
        case Like(Attribute(name), pattern, False):
            start, whole = fixed_start(pattern)
            return _exact(name, start) if whole else Filter(_NONE.matches, prefix=((name, start),)) if start else _NONE
        case In(Attribute(name), items, False):
            return _in(name, items)
        case Logic(first, rest):
            return _logic([first, *(part for _, part in rest)], {word for word, _ in rest})
    return _NONE


def _logic(operands: list[Node], words: set[str]) -> Filter:
    if words == {"AND"}:
        return all_of([hints(part) for part in operands])
    if words == {"OR"}:
        return _any_of([hints(part) for part in operands])
    return _NONE


def _in(name: str, items: tuple[Node, ...]) -> Filter:
    texts = [item.value for item in items if isinstance(item, Literal) and isinstance(item.value, str)]
    if len(texts) < len(items) or not all(map(_only_itself, texts)):
        return _NONE
    return _any_of([_exact(name, text) for text in dict.fromkeys(texts)])


def _any_of(filters: list[Filter]) -> Filter:
    return filters[0] if len(filters) == 1 else Filter(_NONE.matches, alternatives=tuple(filters))


def _only_itself(text: str) -> bool:
    """Whether no Integer or Boolean attribute with another text equals it: in IN the attribute's type decides, so '05'
    equals 5."""
    number = integer_in(text)
    return (number is None or str(number) == text) and (text.lower() not in ("true", "false") or text.islower())


def _exact(name: str, value: str) -> Filter:
    return Filter(has_value(name, value), exact=((name, value),))
