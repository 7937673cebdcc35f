"""Compiles a tree to a closure over an event's attributes. A closure returns a value or raises `CesqlError`: the
evaluation stops at the first error (CESQL section 4.1, "fail fast", which section 1.2 requires for filters)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from .errors import CesqlError
from .functions import Function, FunctionFailed, find
from .pattern import matcher
from .tree import COMPARISON, Attribute, Binary, Call, Exists, In, Like, Literal, Logic, Negate, Node, Not
from .types import CAST, CAST_TO_TYPE_OF, Type, Value, attribute_value, in_range, to_boolean, to_integer, to_string

Attributes = Mapping[str, Any]
Run = Callable[[Attributes], Value]

_ORDER: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compiled(node: Node) -> Run:
    """The closure for a tree; parts without attributes are evaluated immediately."""
    match node:
        case Literal(value):
            return lambda attributes: value
        case Attribute(name):
            return _attribute(name)
        case Exists(name):
            return lambda attributes: attributes.get(name) is not None
        case Not(operand):
            inner = compiled(operand)
            run: Run = lambda attributes: not to_boolean(inner(attributes))  # noqa: E731
        case Negate(operand):
            run = _negate(compiled(operand))
        case Binary():
            run = _binary(node)
        case Logic(first, rest):
            run = _logic(compiled(first), [(word, compiled(part)) for word, part in rest])
        case Like():
            run = _like(node)
        case In():
            run = _in(node)
        case Call():
            run = _call(node)
    return _folded(run) if _constant(node) else run


def _constant(node: Node) -> bool:
    match node:
        case Literal():
            return True
        case Not(operand) | Negate(operand) | Like(operand):
            return _constant(operand)
        case Binary(_, left, right):
            return _constant(left) and _constant(right)
        case Logic(first, rest):
            return _constant(first) and all(_constant(part) for _, part in rest)
        case In(operand, items):
            return _constant(operand) and all(map(_constant, items))
        case Call(_, arguments):
            return all(map(_constant, arguments))
    return False


def _folded(run: Run) -> Run:
    try:
        value = run({})
    except CesqlError:
        return run  # the error belongs to the evaluation: a short-circuit may never reach it
    return lambda attributes: value


def _attribute(name: str) -> Run:
    def run(attributes: Attributes) -> Value:
        value = attributes.get(name)
        return value if type(value) is str else attribute_value(name, value)

    return run


def _negate(inner: Run) -> Run:
    return lambda attributes: _in_range(-to_integer(inner(attributes)), "the negative")


def _in_range(number: int, what: str) -> int:
    if in_range(number):
        return number
    raise CesqlError("math", f"{what} is {number}, which is not a 32-bit Integer")


# -- binary operators -------------------------------------------------------------------------------------------------


def _binary(node: Binary) -> Run:
    word, left, right = node.operator, compiled(node.left), compiled(node.right)
    if word in ("=", "!="):
        return _equal(left, node.right, right, word == "=")
    if word in COMPARISON:
        order = _ORDER[word]

        def compare(attributes: Attributes) -> Value:
            x, y = left(attributes), right(attributes)
            return order(to_integer(x), to_integer(y))

        return compare
    compute = _ARITHMETIC[word]

    def run(attributes: Attributes) -> Value:
        x, y = left(attributes), right(attributes)
        return _in_range(compute(to_integer(x), to_integer(y)), f"the result of {word!r}")

    return run


def _equal(left: Run, right_node: Node, right: Run, equal: bool) -> Run:
    if isinstance(right_node, Literal):
        wanted = right_node.value
        cast = CAST_TO_TYPE_OF[type(wanted)]
        return lambda attributes: (cast(left(attributes)) == wanted) is equal

    def run(attributes: Attributes) -> Value:
        x, y = left(attributes), right(attributes)
        return (CAST_TO_TYPE_OF[type(y)](x) == y) is equal  # the right operand's type decides (section 3.7)

    return run


def _divide(x: int, y: int) -> int:
    if y == 0:
        raise CesqlError("math", f"{x} divided by zero")
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def _remainder(x: int, y: int) -> int:
    return x - _divide(x, y) * y


_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "%": _remainder,
}


def _logic(first: Run, rest: list[tuple[str, Run]]) -> Run:
    steps = tuple(rest)

    def run(attributes: Attributes) -> Value:
        value = to_boolean(first(attributes))
        for word, part in steps:
            if word == "AND":
                value = value and to_boolean(part(attributes))
            elif word == "OR":
                value = value or to_boolean(part(attributes))
            else:
                value = value is not to_boolean(part(attributes))
        return value

    return run


# -- LIKE, IN, functions ----------------------------------------------------------------------------------------------


def _like(node: Like) -> Run:
    inner, matches, wanted = compiled(node.operand), matcher(node.pattern), not node.negated
    return lambda attributes: matches(to_string(inner(attributes))) is wanted


def _in(node: In) -> Run:
    inner, wanted = compiled(node.operand), not node.negated
    texts = {to_string(i.value) for i in node.items if isinstance(i, Literal)}
    only_literals = all(isinstance(i, Literal) for i in node.items)
    items = [compiled(item) for item in node.items]

    def run(attributes: Attributes) -> Value:
        x = inner(attributes)
        if only_literals and type(x) is str:
            return (x in texts) is wanted
        cast = CAST_TO_TYPE_OF[type(x)]
        # every element is cast, also those after a match: the set is an operand without short-circuit
        return (x in [cast(item(attributes)) for item in items]) is wanted

    return run


def _call(node: Call) -> Run:
    function = find(node.name, len(node.arguments))
    if function is None:
        message = f"no function {node.name} accepts {len(node.arguments)} arguments"

        def missing(attributes: Attributes) -> Value:
            raise CesqlError("missingFunction", message)

        return missing
    return _known_call(node, function)


def _known_call(node: Call, function: Function) -> Run:
    casts: list[Callable[[Value], Value]] = [CAST[t] for t in function.types(len(node.arguments))]
    steps = [(cast, compiled(part)) for cast, part in zip(casts, node.arguments, strict=True)]
    call = function.run

    def run(attributes: Attributes) -> Value:
        arguments = [cast(part(attributes)) for cast, part in steps]
        try:
            value: Value = call(*arguments)
        except FunctionFailed as e:
            error = CesqlError("math" if e.math else "functionEvaluation", str(e))
            error.value, error.origin = e.value, node
            raise error from None
        return value

    return run


# -- conditions of a filter -------------------------------------------------------------------------------------------


def conditions(node: Node) -> list[Callable[[Attributes], bool]]:
    """The operands of a top-level AND as conditions that must all hold; any other tree is one condition. To a filter, a
    missing attribute is the same as a false condition, so the common forms need no exception."""
    if isinstance(node, Logic) and all(word == "AND" for word, _ in node.rest):
        return [_condition(part, whole=False) for part in (node.first, *(part for _, part in node.rest))]
    return [_condition(node, whole=True)]


def _condition(node: Node, whole: bool) -> Callable[[Attributes], bool]:
    match node:
        case Binary("=", Attribute(name), Literal(str(wanted))):
            return _equals(name, wanted)
        case Like(Attribute(name), pattern, False):
            return _text_condition(name, matcher(pattern))
        case In(Attribute(name), items, False) if all(isinstance(i, Literal) for i in items):
            return _present(name, compiled(node))
        case Exists(name):
            return lambda attributes: attributes.get(name) is not None
        case Binary("=", Attribute(name), Literal()):
            return _present(name, compiled(node))
    run = compiled(node)
    if whole:
        return lambda attributes: run(attributes) is True  # no cast here: other types don't pass (section 1.2)
    return lambda attributes: to_boolean(run(attributes))


def _equals(name: str, wanted: str) -> Callable[[Attributes], bool]:
    def condition(attributes: Attributes) -> bool:
        value = attributes.get(name)
        if type(value) is str:
            return value == wanted
        return value is not None and to_string(attribute_value(name, value)) == wanted

    return condition


def _text_condition(name: str, holds: Callable[[str], bool]) -> Callable[[Attributes], bool]:
    def condition(attributes: Attributes) -> bool:
        value = attributes.get(name)
        if type(value) is str:
            return holds(value)
        return value is not None and holds(to_string(attribute_value(name, value)))

    return condition


def _present(name: str, run: Run) -> Callable[[Attributes], bool]:
    return lambda attributes: attributes.get(name) is not None and run(attributes) is True


def zero_type(found: Type | None) -> Type:
    """The type whose zero value is the result of a failed expression: Boolean if it is unknown (section 3.2)."""
    return found or Type.BOOLEAN
