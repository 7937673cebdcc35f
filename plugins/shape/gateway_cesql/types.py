"""The three types, and the casts between them (CESQL sections 3.1, 3.2 and 3.7)."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from typing import Any

from gateway_core.contract.event import text_of

from .errors import CesqlError

Value = str | int | bool
INT_MIN = -(2**31)
INT_MAX = 2**31 - 1
_DIGITS = re.compile(r"([+-]?)0*([0-9]{1,10})")


class Type(enum.Enum):
    STRING = "String"
    INTEGER = "Integer"
    BOOLEAN = "Boolean"


ZERO: dict[Type, Value] = {Type.STRING: "", Type.INTEGER: 0, Type.BOOLEAN: False}
_OF: dict[type, Type] = {str: Type.STRING, int: Type.INTEGER, bool: Type.BOOLEAN}


def type_of(value: Value) -> Type:
    """The CESQL type of a value."""
    return _OF[type(value)]


def in_range(number: int) -> bool:
    """Whether a number fits into 32 bits with sign."""
    return INT_MIN <= number <= INT_MAX


def to_string(value: Value) -> str:
    """The value as String; never fails."""
    if type(value) is str:
        return value
    return text_of(value)


def to_integer(value: Value) -> int:
    """The value as Integer. Raises `CesqlError` (cast)."""
    if type(value) is int:
        return value
    if value is True:
        return 1
    if value is False:
        return 0
    number = integer_in(str(value))
    if number is None:
        raise CesqlError("cast", f"{_shown(value)} is not a 32-bit Integer")
    return number


def to_boolean(value: Value) -> bool:
    """The value as Boolean. Raises `CesqlError` (cast)."""
    if value is True or value is False:
        return value
    if type(value) is int:
        return value != 0
    word = str(value).lower()
    if word == "true":
        return True
    if word == "false":
        return False
    raise CesqlError("cast", f"{_shown(value)} is not a Boolean")


def integer_in(text: str) -> int | None:
    """The Integer in a text, or None."""
    found = _DIGITS.fullmatch(text)
    if found is None:
        return None
    number = int(found[1] + found[2])
    return number if in_range(number) else None


CAST: dict[Type, Callable[[Value], Value]] = {
    Type.STRING: to_string,
    Type.INTEGER: to_integer,
    Type.BOOLEAN: to_boolean,
}
CAST_TO_TYPE_OF: dict[type, Callable[[Value], Value]] = {str: to_string, int: to_integer, bool: to_boolean}


def attribute_value(name: str, value: Any) -> Value:
    """An attribute's value in the type system: anything but a String, 32-bit Integer or Boolean becomes a String.
    Raises `CesqlError` (missingAttribute) for None, the value of a missing attribute."""
    if value is None:
        raise CesqlError("missingAttribute", f"the event has no attribute {name!r}")
    if type(value) is str or type(value) is bool or (type(value) is int and in_range(value)):
        return value
    try:
        return text_of(value)
    except (TypeError, ValueError, RecursionError, OverflowError):
        return str(value)  # no codec produces such a value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
