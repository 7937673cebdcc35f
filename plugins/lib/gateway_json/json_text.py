"""JSON text that RFC 8259 allows and msgspec refuses: half a surrogate pair as an escape (section 8.2), nesting deeper
than Python's stack, a byte-order mark at the start (section 8.1).

Everything here is slow. Parse with msgspec first, and come here only if that fails.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

BOM = b"\xef\xbb\xbf"
MOST_DEPTH = 10_000
"""The most arrays and objects in one another."""
MOST_TOKENS = 100_000
"""The most brackets, commas, strings and other tokens in text that is nested too deeply for msgspec. Each takes half a
microsecond, and a sender must not hold up others with megabytes of brackets."""

_HIGH, _LOW = rb"[89abAB][0-9a-fA-F]{2}", rb"[c-fC-F][0-9a-fA-F]{2}"
_ALONE = rb"[d](?<=\\u[d])(?:(?=%b(?!\\u[dD]%b))|(?<!\\u[dD]%b\\u[d])(?=%b))" % (_HIGH, _LOW, _HIGH, _LOW)
_HALF_D, _HALF_CAPITAL = re.compile(_ALONE.replace(b"[d]", b"d")), re.compile(_ALONE.replace(b"[d]", b"D"))
"""The `d` in the escape of half a pair, in text without escaped backslashes."""
_DIGITS = (b"eE", b"01", b"23", b"45", b"67", b"89", b"aA", b"bB", b"cC", b"fF")
"""Pairs of hexadecimal digits to put in place of `d` and `D`. The first make characters for private use."""
_FEW = 200
_SLACK = (b"[" * 500, b"]" * 500)
_SPACE = rb"[ \t\r\n]*+"
_STRING = rb'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'
_SCALAR = rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null"
_TOKEN = re.compile(rb"%b(?:(%b)|(%b)|([\[{])|([\]}])|(,)|(:))" % (_SPACE, _STRING, _SCALAR))
_IS_STRING, _IS_SCALAR, _OPENS, _CLOSES, _COMMA, _COLON = range(1, 7)
_END = re.compile(_SPACE)

_object = msgspec.json.Decoder(dict[str, Raw]).decode
_array = msgspec.json.Decoder(list[Raw]).decode
_raw = msgspec.json.Decoder(Raw).decode
_any = msgspec.json.Decoder().decode


class _Unreadable:
    """The value of JSON text that no type holds."""

    def __str__(self) -> str:
        return "a value that can't be read"


UNREADABLE = _Unreadable()


def checked(text: bytes) -> bytes:
    """The text of a JSON value without white space and byte-order mark around it. Raises `ValueError` unless it is JSON
    in UTF-8."""
    text.decode()
    text = text.removeprefix(BOM).strip(b" \t\r\n")
    if text[:1] == b"{":
        members(text)
    elif text[:1] == b"[":
        elements(text)
    elif not _is_scalar(text):
        raise ValueError("not JSON")
    return text


def members(text: bytes) -> dict[str, bytes]:
    """The members of an object with the JSON text of their values, byte for byte; of those with one name, the last.
    Raises `ValueError` unless the text is an object in JSON."""
    text = text.removeprefix(BOM)
    whole, restore = _without_halves(text)
    try:
        if whole is not None:
            return {name: restore(bytes(value)) for name, value in _object(whole).items()}
    except msgspec.DecodeError as e:
        raise ValueError(str(e)) from None
    except RecursionError:
        pass
    return dict(_children(text, b"{"))


def elements(text: bytes) -> list[bytes]:
    """The elements of an array, each as JSON text, byte for byte. Raises `ValueError` unless the text is an array in
    JSON."""
    text = text.removeprefix(BOM)
    whole, restore = _without_halves(text)
    try:
        if whole is not None:
            return [restore(bytes(value)) for value in _array(whole)]
    except msgspec.DecodeError as e:
        raise ValueError(str(e)) from None
    except RecursionError:
        pass
    return [value for _, value in _children(text, b"[")]


def names(text: bytes) -> list[str]:
    """The names of an object's members, also those that appear more than once. Raises `ValueError`."""
    return [name for name, _ in _children(text.removeprefix(BOM), b"{")]


def string(text: bytes | Raw) -> str:
    """The string in JSON text, with half surrogate pairs as they are. Raises `ValueError` if it is no string."""
    try:
        value = json.loads(bytes(text).removeprefix(BOM))
    except RecursionError:
        value = None
    if not isinstance(value, str):
        raise ValueError("not a string")
    return value


def scalar(text: bytes | Raw) -> Any:
    """The value in JSON text, `UNREADABLE` if it is an array, an object or a number that can't be read."""
    try:
        return _any(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        try:
            return string(text)
        except ValueError:
            return UNREADABLE


def embeds(data: bytes) -> bool:
    """Whether the data can stand as a value in JSON text as it is: JSON in UTF-8, which every parser reads. Half a
    surrogate pair and deep nesting are read by some, and in the text of an event they would cost the whole event."""
    try:
        if not data.isascii():
            data.decode()
        if len(data) > 2 * _FEW and data.count(b"[") + data.count(b"{") > _FEW:
            _raw(_SLACK[0] + data + _SLACK[1])  # the stack has room for it in a batch, a dead letter, another program
        else:
            _raw(data)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return False
    return True


def _is_scalar(text: bytes) -> bool:
    found = _TOKEN.match(text)
    return found is not None and found.lastindex in (_IS_STRING, _IS_SCALAR) and found.end() == len(text)


def _without_halves(text: bytes) -> tuple[bytes | None, Callable[[bytes], bytes]]:
    """The text with another escape in place of each half surrogate pair, as long as it was, and a function that undoes
    this in a part of it. The same text if there is none; None if all escapes that could stand in are taken."""
    if b"\0" in text:
        return text, bytes  # it is no JSON
    plain = text.replace(b"\\\\", b"\0\0")
    if _HALF_D.search(plain) is None and _HALF_CAPITAL.search(plain) is None:
        return text, bytes
    digits = next((d for d in _DIGITS if re.search(rb"\\u[%b][89a-fA-F]" % d, plain) is None), None)
    if digits is None:
        return None, bytes
    low, high = digits[:1], digits[1:]
    back = [
        (re.compile(rb"%b(?<=\\u%b)(?=[89a-fA-F])" % (digit, digit)), d) for digit, d in ((low, b"d"), (high, b"D"))
    ]

    def restore(part: bytes) -> bytes:
        if b"\\u" not in part:
            return part
        part = part.replace(b"\\\\", b"\0\0")
        for stand_in, digit in back:
            part = stand_in.sub(digit, part)
        return part.replace(b"\0\0", b"\\\\")

    whole = _HALF_CAPITAL.sub(high, _HALF_D.sub(low, plain))
    return whole.replace(b"\0\0", b"\\\\"), restore


def _children(text: bytes, opening: bytes) -> list[tuple[str, bytes]]:
    """Name ("" in an array) and text of each child of the outermost object or array. Raises `ValueError`."""
    found: list[tuple[str, bytes]] = []
    is_open: list[bool] = []  # of each array or object that is open: whether it is an object
    name, start, wants_name, wants_value, may_close = "", 0, False, True, False
    at, tokens, token = 0, 0, _TOKEN.match
    while True:
        match = token(text, at)
        tokens += 1
        if match is None:
            raise ValueError(f"JSON is malformed (byte {at})")
        if tokens > MOST_TOKENS:
            raise ValueError("it is nested too deeply for its size")
        kind, at = match.lastindex, match.end()
        depth = len(is_open)
        if kind == _OPENS and wants_value:
            if depth == MOST_DEPTH:
                raise ValueError("it is nested too deeply")
            here = text[at - 1 : at]
            if not depth and here != opening:
                break
            start = at - 1 if depth == 1 else start
            is_open.append(here == b"{")
            wants_name, wants_value, may_close = is_open[-1], not is_open[-1], True
            continue
        if kind == _IS_STRING and wants_name:
            colon = token(text, at)
            if colon is None or colon.lastindex != _COLON:
                raise ValueError(f"JSON is malformed (byte {at})")
            at = colon.end()
            if depth == 1:
                name = string(match[_IS_STRING])
            wants_name, wants_value, may_close = False, True, False
            continue
        if kind in (_IS_STRING, _IS_SCALAR) and wants_value and depth:
            start = match.start(kind) if depth == 1 else start
        elif kind == _CLOSES and may_close and is_open[-1] == (text[at - 1 : at] == b"}"):
            is_open.pop()
        elif kind == _COMMA and depth and not wants_name and not wants_value:
            wants_name, wants_value, may_close = is_open[-1], not is_open[-1], False
            continue
        else:
            raise ValueError(f"JSON is malformed (byte {match.start(kind or 0)})")
        # behind a value
        wants_name, wants_value, may_close = False, False, True
        if len(is_open) == 1:
            if kind != _CLOSES or depth == 2:
                found.append((name, text[start:at]))
        elif not is_open:
            end = _END.match(text, at)
            if end is None or end.end() != len(text):
                raise ValueError(f"JSON is malformed: trailing characters (byte {at})")
            return found
    raise ValueError("not an object" if opening == b"{" else "not an array")
