"""The filter `data`: conditions on values in JSON data.

A path leads through objects by name, and through an array to each of its elements. Each value that it leads to is
compared on its own, and any one may match. Types are never converted: `100` is no `"100"`, and `1` no `true`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any

from gateway_core.contract.component import BuildContext
from gateway_core.contract.event import Event
from gateway_core.contract.event_data import Unreadable, UnreadableData, json_value
from gateway_core.contract.filters import joined_clause
from gateway_core.contract.interfaces import Clause, Filter

from .data_config import Comparisons, Operators
from .data_paths import steps
from .wildcard import fits, pieces

if TYPE_CHECKING:
    from .data_config import DataConfig

MOST_VALUES = 10_000
"""The most values that a path looks at in one event, on its way through arrays."""
TOO_MANY = Unreadable("too_many_values", f"a path leads through more than {MOST_VALUES} values")
_MOST_SHOWN = 3
_MOST_TEXT = 60
_GREAT = 10**_MOST_TEXT

Test = Callable[[Any], bool]
"""Whether a value, which is no array, is one that is wanted."""
_ABSENT = object()


class _TooMany(Exception):
    """A path leads through more values than are looked at."""


def build_data(config: DataConfig, context: BuildContext) -> Filter:
    """The values at all paths of an event's data are as the config wants them."""
    conditions = [_Condition(path, condition) for path, condition in config.paths.items()]
    return _filter(conditions, config.max_bytes, context.unreadable or UnreadableData())


def _filter(conditions: Sequence[_Condition], most_bytes: int, unreadable: UnreadableData) -> Filter:
    checks = tuple(condition.holds for condition in conditions)

    def matches(event: Event) -> bool:
        data = json_value(event, most_bytes)
        if data.__class__ is Unreadable:
            unreadable.count(event, data)
            return False
        try:
            for holds in checks:
                if not holds(data):
                    return False
        except _TooMany:
            unreadable.count(event, TOO_MANY)
            return False
        return True

    def explain(event: Event) -> Clause:
        data = json_value(event, most_bytes)
        parts = [condition.explain(data) for condition in conditions]
        return parts[0] if len(parts) == 1 else joined_clause("all", all, parts)

    return Filter(matches, explain=explain)


class _Condition:
    """What must be at one path."""

    def __init__(self, path: str, condition: Any) -> None:
        self._path = path
        self._steps = steps(path)
        choices = condition if isinstance(condition, list) else [condition]
        self._text = f"data {path}: {', '.join(map(_written, choices))}"
        there = {c.exists for c in choices if isinstance(c, Operators) and "exists" in c.model_fields_set}
        self._test = _any_of([c for c in choices if not (isinstance(c, Operators) and "exists" in c.model_fields_set)])
        self._if_there, self._if_absent = True in there, False in there

    def holds(self, data: Any) -> bool:
        """Whether the data fulfils it. Raises `_TooMany`."""
        value, at = data, 0
        for name in self._steps:
            if type(value) is not dict:
                break
            value = value.get(name, _ABSENT)
            at += 1
        if type(value) is list or self._if_there or self._if_absent:
            return self._holds_somewhere(value, at)
        return at == len(self._steps) and value is not _ABSENT and self._test(value)

    def _holds_somewhere(self, value: Any, at: int) -> bool:
        found = False
        for each in _values(value, self._steps, at):
            found = True
            if self._if_there or (each is not _EMPTY and self._test(each)):
                return True
        return self._if_absent and not found

    def explain(self, data: Any) -> Clause:
        """The condition as a clause, with what is at the path."""
        if isinstance(data, Unreadable):
            return Clause(self._text, False, data.text, data=True)
        try:
            matched, found = self.holds(data), self._found(data)
        except _TooMany:
            matched, found = False, TOO_MANY.text
        return Clause(self._text, matched, found, data=True)

    def _found(self, data: Any) -> str:
        shown = ["an empty array" if v is _EMPTY else _shown(v) for v in islice(self._all(data), _MOST_SHOWN + 1)]
        if not shown:
            return f"{self._path} is absent"
        more = ", …" if len(shown) > _MOST_SHOWN else ""
        return f"{self._path} is {', '.join(shown[:_MOST_SHOWN])}{more}"

    def _all(self, data: Any) -> Iterator[Any]:
        return _values(data, self._steps, 0)


_EMPTY = object()
"""What a path leads to that leads to an array without elements: something is there, but no value."""


def _values(value: Any, names: Sequence[str], at: int) -> Iterator[Any]:
    """The values that the rest of a path leads to, in their order, those in arrays one by one. Raises `_TooMany`."""
    pending = [(iter((value,)), at)]
    left, last = MOST_VALUES, len(names)
    while pending:
        values, at = pending[-1]
        for value in values:
            if not left:
                raise _TooMany
            left -= 1
            here = at
            while here < last and type(value) is dict:
                value = value.get(names[here], _ABSENT)
                here += 1
            if type(value) is list:
                if value:
                    pending.append((iter(value), here))
                    break
                value = _EMPTY
            if here == last and value is not _ABSENT:
                yield value
        else:
            pending.pop()


# -- tests of one value ---------------------------------------------------------------------------------------------


def _any_of(choices: Sequence[Any]) -> Test:
    """Whether a value is one of these: plain values, or operators."""
    plain = [choice for choice in choices if not isinstance(choice, Comparisons)]
    tests = [_all_of(choice) for choice in choices if isinstance(choice, Comparisons)]
    if plain:
        tests.insert(0, _equal(plain))
    if len(tests) == 1:
        return tests[0]
    return lambda value: any(test(value) for test in tests)


def _all_of(operators: Comparisons) -> Test:
    tests = [
        _OPERATORS[name](operand if isinstance(operand, list) else [operand])
        for name, operand in _written_of(operators).items()
    ]
    if len(tests) == 1:
        return tests[0]
    return lambda value: all(test(value) for test in tests)


def _written_of(operators: Comparisons) -> Mapping[str, Any]:
    """The operators that the config has, by their words in it, in their order in the docs."""
    fields = type(operators).model_fields
    return {
        field.alias or name: getattr(operators, name)
        for name, field in fields.items()
        if name in operators.model_fields_set
    }


def _exact(number: float) -> int | Decimal:
    """A number of the config; one with a fraction is what its shortest decimal says."""
    return number if isinstance(number, int) else Decimal(repr(number))


def _equal(values: Iterable[Any]) -> Test:
    texts = frozenset(v for v in values if isinstance(v, str))
    numbers = frozenset(_exact(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool))
    others = [v for v in values if v is None or isinstance(v, bool)]

    def test(value: Any) -> bool:
        kind = type(value)
        if kind is str:
            return value in texts
        if kind is int or kind is Decimal:
            return value in numbers
        return any(value is other for other in others)

    return test


def _not(choices: Sequence[Any]) -> Test:
    test = _any_of(choices)
    return lambda value: not test(value)


def _compared(compare: Callable[[Any, Any], bool]) -> Callable[[Sequence[Any]], Test]:
    def made(operands: Sequence[Any]) -> Test:
        bound = _exact(operands[0])
        return lambda value: (type(value) is int or type(value) is Decimal) and compare(value, bound)

    return made


def _prefix(texts: Sequence[str]) -> Test:
    wanted = tuple(texts)
    return lambda value: type(value) is str and value.startswith(wanted)


def _suffix(texts: Sequence[str]) -> Test:
    wanted = tuple(texts)
    return lambda value: type(value) is str and value.endswith(wanted)


def _ignoring_case(texts: Sequence[str]) -> Test:
    wanted = frozenset(text.casefold() for text in texts)
    return lambda value: type(value) is str and value.casefold() in wanted


def _wildcard(texts: Sequence[str]) -> Test:
    patterns = [pieces(text) for text in texts]
    return lambda value: type(value) is str and any(fits(value, parts) for parts in patterns)


_OPERATORS: Mapping[str, Callable[[Sequence[Any]], Test]] = {
    "prefix": _prefix,
    "suffix": _suffix,
    "wildcard": _wildcard,
    "equals_ignore_case": _ignoring_case,
    "gt": _compared(lambda value, bound: value > bound),
    "gte": _compared(lambda value, bound: value >= bound),
    "lt": _compared(lambda value, bound: value < bound),
    "lte": _compared(lambda value, bound: value <= bound),
    "not": _not,
}


# -- in words -------------------------------------------------------------------------------------------------------


def _written(choice: Any) -> str:
    """A choice as the config has it."""
    if isinstance(choice, Comparisons):
        pairs = [f"{name}: {_written(operand)}" for name, operand in _written_of(choice).items()]
        return f"{{{', '.join(pairs)}}}"
    if isinstance(choice, list):
        return f"[{', '.join(map(_written, choice))}]"
    return json.dumps(choice, ensure_ascii=False).encode(errors="backslashreplace").decode()


def _shown(value: Any) -> str:
    """A value of the data, briefly."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        text = str(value) if -_GREAT < value < _GREAT else "a great number"
    else:  # half a surrogate pair can't be encoded
        text = json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace").decode()
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"
