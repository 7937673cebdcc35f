"""A compiled expression: the plugin's public API."""

from __future__ import annotations

import difflib

from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Filter

from .compiler import compiled, conditions, zero_type
from .errors import CesqlError, ParseError
from .explain import explained, parts_of
from .functions import BUILT_IN, NAMES, find
from .hints import hints
from .parser import parse
from .tree import Call, Node, static_type, text
from .types import ZERO, Type, Value


class Expression:
    """A CESQL expression. `source` is its text as written, `tree` its syntax tree; `str()` writes it in normal form."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tree: Node = parse(source)
        self._run = compiled(self.tree)
        self._type = static_type(self.tree)

    def __str__(self) -> str:
        return text(self.tree)

    def __repr__(self) -> str:
        return f"<Expression {self.source!r}>"

    def evaluate(self, event: Event) -> tuple[Value, list[CesqlError]]:
        """The value and the errors. Evaluation stops at the first error; the value is then the zero value of the
        expression's type, or the value of a failed function that is the whole expression. Never raises."""
        try:
            return self._run(event.attributes), []
        except CesqlError as e:
            value: Value = e.value if e.origin is self.tree else ZERO[zero_type(self._type)]
            return value, [e.with_traceback(None)]

    def filter(self) -> Filter:
        """The expression as a filter: an event matches if the value is the Boolean TRUE and there is no error
        (CESQL section 1.2, Subscriptions API section 3.2.4.1)."""
        checks = tuple(conditions(self.tree))
        found = hints(self.tree)

        def matches(event: Event) -> bool:
            attributes = event.attributes
            try:
                for check in checks:
                    if not check(attributes):
                        return False
            except CesqlError:
                return False
            return True

        return Filter(
            matches,
            exact=found.exact,
            prefix=found.prefix,
            alternatives=found.alternatives,
            explain=lambda event: explained(self.tree, event),
        )

    def check_filter(self) -> None:
        """Raises `ParseError` if the expression can't work as a filter: it calls an unknown function, or its value is
        never a Boolean."""
        _check_calls(self.tree)
        if self._type in (Type.INTEGER, Type.STRING):
            message = f"the value is always of type {self._type.value}, so that no event would match"
            raise ParseError(message, 1, "compare it with something: a filter must return TRUE or FALSE")


def compile(expression: str) -> Expression:
    """Compiles a CESQL expression. Raises `ParseError`, a ValueError with the position and the remedy."""
    return Expression(expression)


def _check_calls(node: Node) -> None:
    if isinstance(node, Call) and find(node.name, len(node.arguments)) is None:
        raise ParseError(*_unknown(node))
    for part in parts_of(node):
        _check_calls(part)


def _unknown(call: Call) -> tuple[str, int, str]:
    if call.name in NAMES:
        fixed = sorted({len(f.parameters) for f in BUILT_IN if f.name == call.name})
        more = " or more" if any(f.rest for f in BUILT_IN if f.name == call.name) else ""
        wanted = " or ".join(map(str, fixed)) + more
        return f"{call.name} called with {len(call.arguments)} arguments", call.position, f"it takes {wanted}"
    near = difflib.get_close_matches(call.name, NAMES, 1)
    remedy = f"did you mean {near[0]}?" if near else f"there are {', '.join(NAMES)}"
    return f"unknown function {call.name}", call.position, remedy
