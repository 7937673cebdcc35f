"""When an event is due, for triggers with `delay` or `deliver_at`."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from datetime import UTC, datetime, timedelta

from ..contract.durations import YEAR_S, duration_ns
from ..contract.event import Event, text_of
from ..contract.normal_form import normal_attributes

_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,30})?([Zz]|[+-]\d\d:\d\d)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

DueOf = Callable[[Event, int], int]


def due_of(delay_s: float, attribute: str | None, undecided: Container[int] = ()) -> DueOf | None:
    """Returns what tells when an event is due, given when it was received (Unix time in nanoseconds), and raises
    `ValueError` if its attribute does not say so; None if none is delayed. An event that has the attribute is due by
    it, the others after the delay, and those in `undecided` (by identity) at once: their filter raised."""
    if not delay_s and attribute is None:
        return None
    delay_ns = round(delay_s * 1e9)

    def due(event: Event, received_ns: int) -> int:
        if id(event) in undecided:
            return 0
        if attribute is None:
            return received_ns + delay_ns
        value = normal_attributes(event.attributes).get(attribute)
        if value is None:
            return received_ns + delay_ns
        return _due_by(attribute, text_of(value), received_ns)

    return due


def _due_by(attribute: str, text: str, received_ns: int) -> int:
    try:
        due_ns = received_ns + duration_ns(text) if text.startswith("P") else time_ns(text)
    except ValueError as e:
        raise ValueError(f"deliver_at: {attribute}: {e}") from None
    if due_ns - received_ns > YEAR_S * 1_000_000_000:
        raise ValueError(f"deliver_at: {attribute}: {text[:100]!r} is more than a year after the event came")
    return due_ns


def time_ns(text: str) -> int:
    """The Unix time of an RFC 3339 time in nanoseconds; what is finer than a microsecond is rounded up. Raises
    `ValueError`."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:100]!r} is no time with a zone (RFC 3339), and no duration")
    leap = text[17:19] == "60"
    whole = datetime.fromisoformat((text[:17] + ("59" if leap else text[17:19]) + found[2]).upper())
    fraction = (found[1] or ".")[1:]
    rounded = int(fraction[:6].ljust(6, "0")) + (1 if fraction[6:].strip("0") else 0)
    return ((whole - _EPOCH) // timedelta(microseconds=1) + rounded + (1_000_000 if leap else 0)) * 1000
