"""The data of an event as a value, for filters that look at it.

It is decoded only if a filter asks, and at most once while an event is offered to all triggers: the value of the last
event that was asked about is kept until `release`, or until another event is asked about. There is one for the whole
process, not one on each event: events stay in memory for long, and their values would, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from itertools import accumulate
from json import loads
from typing import Any, Final

import msgspec

from .event import Event
from .normal_form import normal_attributes

MOST_DEPTH = 100
"""The most arrays and objects in one another in data that is decoded."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Data that has no value, and why: `reason` is the word for counts, `text` is for people."""

    reason: str
    text: str


NO_DATA: Final = Unreadable("", "the event has no data")
"""Not counted: there is nothing that could not be read."""
NOT_JSON: Final = Unreadable("not_json", "the content type of the data is not JSON")
INVALID: Final = Unreadable("invalid", "the data is not valid JSON")
TOO_LARGE: Final = Unreadable("too_large", "the data is larger than the filter decodes")
TOO_DEEP: Final = Unreadable("too_deep", f"the data is nested deeper than {MOST_DEPTH} levels")


class UnreadableData:
    """How many events had data that a trigger's filters could not read, by reason."""

    __slots__ = ("_last", "counts")

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._last = (0, 0, 0)

    def count(self, event: Event, found: Unreadable) -> None:
        """Counts an event, once if several filters of the trigger say so one after the other."""
        this = (event.received_ns, event.position, id(event.data))
        if found.reason and this != self._last:
            self._last = this
            self.counts[found.reason] = self.counts.get(found.reason, 0) + 1


_Held = tuple[bytes | None, object, bool, Any]
_NOTHING: Final[_Held] = (None, None, False, None)
_held: _Held = _NOTHING  # data, its content type, `json_data`, and the value; replaced as a whole
asked = False
"""Whether a filter has asked since `release`: what need not be called costs events without such filters nothing."""


def json_value(event: Event, most_bytes: int) -> Any:
    """The value of an event's data, or the `Unreadable` that says why it has none. Data is JSON if its content type or
    the event format says so; more than `most_bytes` are not decoded. Nobody may change the value.

    Numbers are exact: `int`, or `Decimal` for those with a fraction or an exponent (one that is too far from zero for
    that is infinite, one too near to zero is the smallest there is). Of members with one name the last counts. Half a
    surrogate pair, which JSON allows as an escape (RFC 8259 section 8.2), stays as it is."""
    global _held, asked
    data = event.data
    if data is None:
        return NO_DATA
    attributes = event.attributes
    if attributes.get("specversion") != "1.0":
        attributes = normal_attributes(attributes)
    media = attributes.get("datacontenttype")
    held = _held
    if held[0] is data and held[1] == media and held[2] is event.json_data:
        return held[3] if len(data) <= most_bytes else TOO_LARGE
    if not (event.json_data or is_json(media)):
        return NOT_JSON
    if len(data) > most_bytes:
        return TOO_LARGE
    value = _decoded(data)
    _held, asked = (data, media, event.json_data, value), True
    return value


def release() -> None:
    """Drops the value that is kept. Whoever offers events to filters calls it afterwards, if filters have `asked`."""
    global _held, asked
    _held, asked = _NOTHING, False


def is_json(media: object) -> bool:
    """Whether a content type is JSON's (CloudEvents 1.0.2 json-format.md section 3.1.1)."""
    return isinstance(media, str) and media.partition(";")[0].strip().lower().endswith(("/json", "+json"))


# -- decoding -------------------------------------------------------------------------------------------------------

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_STEP = [{ord("["): 1, ord("{"): 1}.get(byte, -1) for byte in range(256)]
_EXACT = Context(traps=[InvalidOperation])
_SMALLEST = Decimal("1e-999999999999999999")
_MOST_DIGITS = 4000
"""Python refuses to make an `int` of more than 4,300 digits, because that takes too long."""


def _decoded(data: bytes) -> Any:
    # not left to the parser, whose limit depends on how deep the stack is at this moment
    if data.count(b"[") + data.count(b"{") > MOST_DEPTH and _depth(data) > MOST_DEPTH:
        return TOO_DEEP
    try:
        return _quickly(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _slowly(data)


def _depth(data: bytes) -> int:
    brackets = _STRING.sub(b"", data).translate(None, _NO_BRACKET)
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0)


def _slowly(data: bytes) -> Any:
    """The value of text that msgspec refuses; it may be JSON all the same."""
    try:
        text = data.decode().removeprefix("\ufeff")
        return loads(text, parse_float=_number, parse_int=_whole, parse_constant=_refuse)
    except ValueError:  # also of UTF-8
        return INVALID


def _whole(text: str) -> int | Decimal:
    return int(text) if len(text) <= _MOST_DIGITS else _number(text)


def _number(text: str) -> Decimal:
    try:
        return Decimal(text, _EXACT)
    except InvalidOperation:  # the exponent has more than 18 digits
        mantissa, _, exponent = text.lower().partition("e")
        if not mantissa.strip("-0."):
            return Decimal(0)
        found = _SMALLEST if exponent.startswith("-") else Decimal("Infinity")
        return -found if mantissa.startswith("-") else found


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


_quickly = msgspec.json.Decoder(float_hook=_number).decode
