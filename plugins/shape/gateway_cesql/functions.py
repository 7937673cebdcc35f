"""The built-in functions (CESQL section 3.5, and the casts `INT`, `BOOL` and `STRING`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .types import INT_MAX, INT_MIN, Type, Value

_STRING, _INTEGER, _BOOLEAN = Type.STRING, Type.INTEGER, Type.BOOLEAN

# Unicode's White_Space property; `str.strip()` would also remove U+001C to U+001F, which are control characters
_WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


class FunctionFailed(Exception):
    """A function failed; `value` is its result nevertheless."""

    def __init__(self, message: str, value: Value, math: bool = False) -> None:
        super().__init__(message)
        self.value = value
        self.math = math


@dataclass(frozen=True, slots=True)
class Function:
    """`parameters` are the types of the fixed arguments, `rest` that of any further ones, or None."""

    name: str
    returns: Type
    parameters: tuple[Type, ...]
    run: Callable[..., Any]
    rest: Type | None = None

    def accepts(self, count: int) -> bool:
        """Whether the function can be called with this number of arguments."""
        return count >= len(self.parameters) if self.rest else count == len(self.parameters)

    def types(self, count: int) -> tuple[Type, ...]:
        """The types that the arguments are cast to."""
        further = () if self.rest is None else (self.rest,) * (count - len(self.parameters))
        return self.parameters + further


def _identity(value: Value) -> Value:
    return value  # the cast of the argument does the work


def _absolute(x: int) -> int:
    if x == INT_MIN:
        raise FunctionFailed(f"ABS({x}) is above the greatest Integer", INT_MAX, math=True)
    return abs(x)


def _left(x: str, count: int) -> str:
    if count < 0:
        raise FunctionFailed(f"LEFT of {count} characters", x)
    return x[:count]


def _right(x: str, count: int) -> str:
    if count < 0:
        raise FunctionFailed(f"RIGHT of {count} characters", x)
    return x[len(x) - count :] if count < len(x) else x


def _substring(x: str, position: int, length: int = INT_MAX) -> str:
    if abs(position) > len(x):
        raise FunctionFailed(f"SUBSTRING from {position} of a text of {len(x)} characters", "")
    if length < 0:
        raise FunctionFailed(f"SUBSTRING of {length} characters", "")
    if position == 0:
        return ""
    start = position - 1 if position > 0 else len(x) + position
    return x[start : start + length]


def _concat(*parts: str) -> str:
    return "".join(parts)


def _concat_ws(delimiter: str, *parts: str) -> str:
    return delimiter.join(parts)


BUILT_IN = (
    Function("INT", _INTEGER, (_INTEGER,), _identity),
    Function("BOOL", _BOOLEAN, (_BOOLEAN,), _identity),
    Function("STRING", _STRING, (_STRING,), _identity),
    Function("LENGTH", _INTEGER, (_STRING,), len),
    Function("CONCAT", _STRING, (), _concat, rest=_STRING),
    Function("CONCAT_WS", _STRING, (_STRING,), _concat_ws, rest=_STRING),
    Function("LOWER", _STRING, (_STRING,), str.lower),
    Function("UPPER", _STRING, (_STRING,), str.upper),
    Function("TRIM", _STRING, (_STRING,), lambda x: x.strip(_WHITE_SPACE)),
    Function("LEFT", _STRING, (_STRING, _INTEGER), _left),
    Function("RIGHT", _STRING, (_STRING, _INTEGER), _right),
    Function("SUBSTRING", _STRING, (_STRING, _INTEGER), _substring),
    Function("SUBSTRING", _STRING, (_STRING, _INTEGER, _INTEGER), _substring),
    Function("ABS", _INTEGER, (_INTEGER,), _absolute),
)
NAMES = tuple(dict.fromkeys(f.name for f in BUILT_IN))


def find(name: str, count: int) -> Function | None:
    """The function with this name (upper case) and number of arguments."""
    return next((f for f in BUILT_IN if f.name == name and f.accepts(count)), None)
