"""Expressions of CESQL: any text is an expression, or a `ParseError` that says where it is wrong.

An input is a line that says what the events' attribute `x` is (in JSON, or text), then the expression.
"""

from __future__ import annotations

from typing import Any

import msgspec
from gateway_cesql.errors import CesqlError, ParseError
from gateway_cesql.expression import Expression, compile
from gateway_cesql.parser import parse
from gateway_cesql.types import INT_MAX, INT_MIN
from gateway_log.routing import Router

from gateway_core.contract.event import Event

_BARE = {"specversion": "1.0", "id": "1", "source": "/s", "type": "a.b"}
_FULL = {**_BARE, "subject": "abc", "n": 5, "b": True, "size": "010", "time": "2018-04-05T17:31:00Z"}


def check(data: bytes) -> None:
    """Raises where something does not hold."""
    first, _, rest = data.partition(b"\n")
    text = rest.decode("utf-8", "replace")
    try:
        expression = compile(text)
    except ParseError as e:
        error = e
    else:
        for event in (Event(_BARE), Event({**_FULL, "x": _value(first)})):
            _check_value(expression, event)
            _check_filter(expression, event)
        return
    assert 1 <= error.position <= len(text) + 1
    assert error.message
    assert error.remedy
    assert len(str(error)) < 1000, "an error as long as the expression"


def _value(text: bytes) -> Any:
    """What a codec may make of an attribute: a text, a number, a truth value, a map of version 0.2."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return text.decode("utf-8", "replace")


def _check_value(expression: Expression, event: Event) -> None:
    value, errors = expression.evaluate(event)
    assert type(value) in (str, int, bool)
    if type(value) is int:
        assert INT_MIN <= value <= INT_MAX
    assert len(errors) <= 1
    assert all(isinstance(error, CesqlError) and error.message for error in errors)
    again = expression.evaluate(event)
    assert (again[0], list(map(repr, again[1]))) == (value, list(map(repr, errors))), "a second try differs"
    try:
        normal = str(expression)
    except ValueError:  # a text that no literal can express
        return
    assert parse(normal) == expression.tree, "the normal form is another expression"
    found, faults = compile(normal).evaluate(event)
    assert (type(found), found, [f.kind for f in faults]) == (type(value), value, [e.kind for e in errors])


def _check_filter(expression: Expression, event: Event) -> None:
    value, errors = expression.evaluate(event)
    wanted = value is True and not errors
    filter = expression.filter()
    assert filter.matches(event) is wanted, "a filter is not what its expression is"
    router: Router[int] = Router()
    router.add("it", filter, 1)
    assert router.route(event) == ([1] if wanted else []), "the index hides an event"
    assert filter.explain is not None
    clause = filter.explain(event)
    assert clause.matched is wanted
    try:
        expression.check_filter()
    except ParseError as e:
        # a call that can't be made is refused, even where an event is decided before it is reached
        if wanted and "function" not in e.message and "called with" not in e.message:
            raise AssertionError("a filter that matches is refused") from e


_EXPRESSIONS = [
    *("x = 'a'", "x LIKE 'a%_\\%b'", "NOT x LIKE '%'", "x IN ('a', \"b\", 1)", "x NOT IN (TRUE)", "EXISTS x AND x"),
    *("x + 1 * -2 % 3 / 4 - +5 = 010", "(x)", "-(-2147483648)", "2147483648", "x <> 1 XOR x <= 2 OR x >= 3"),
    *("LENGTH(x) > 1", "CONCAT(x, 'a', 1)", "CONCAT_WS(',', x, n)", "LOWER(UPPER(TRIM(x)))", "LEFT(x, 2)"),
    *("RIGHT(x, 1)", "SUBSTRING(x, -1)", "SUBSTRING(x, 1, 2) = 'a'", "ABS(-2147483648)", "INT(x) = 5", "BOOL(x)"),
    *("STRING(n) = '5'", "IS_BOOL(x) AND IS_INT(x)", "NOPE(1)", "size = 10", "type = 'a.b' AND subject LIKE 'ab%'"),
    *("'a\\'b' = \"c\\\"\"", "NOT NOT b", "TRUE", "id IN ('1') OR source = '/s'", "1 / 0", "x = x = x", "time", "a_b"),
]
SEEDS = [
    *(first + b"\n" + text.encode() for text in _EXPRESSIONS for first in (b'"abc"', b"5")),
    b"true\nx",
    b'{"a":1}\nx = \'{"a":1}\'',
    b"\nx = ''",
    b"\"\\u00e9\"\nSUBSTRING(x, 1) LIKE '_'",
    b"1\n" + b"(" * 63 + b"x" + b")" * 63,
    b"1\n" + b"NOT " * 70 + b"x",
]
WORDS = [
    *(b" AND ", b" OR ", b" XOR ", b"NOT ", b" LIKE '", b" IN (", b"EXISTS ", b"TRUE", b"FALSE", b" NOT LIKE ", b"''"),
    *(b"LENGTH(", b"CONCAT(", b"CONCAT_WS(", b"LOWER(", b"UPPER(", b"TRIM(", b"LEFT(", b"RIGHT(", b"SUBSTRING("),
    *(b"ABS(", b"INT(", b"BOOL(", b"STRING(", b"IS_BOOL(", b"IS_INT(", b"!=", b"<>", b"<=", b">=", b"2147483647"),
    *(b"-2147483648", b"\\'", b"\\\\", b"\\%", b"\\_", b"%", b"_", b"subject", b"true", b"\n", b'"', b"\xc3\xa9"),
    *(b")",),
]  # fmt: skip
