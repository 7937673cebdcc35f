"""Moments as people and programs write them, such as `2026-11-28T08:00:00Z`: the one reader and the one writer of RFC
3339, both exact to the nanosecond.

A time is a Unix time, which has no leap seconds: second 60 is read as the first of the next minute, and never written.
"""

from __future__ import annotations

import re
from datetime import date

from .durations import duration_ns, is_duration

_FORM = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,30}))?(?:([Zz])|([+-])(\d\d):(\d\d))?", re.ASCII
)
_EPOCH = date(1970, 1, 1).toordinal()
_DAY = 86_400
SECOND_NS = 1_000_000_000
MOST_NS = 2**63 - 1
"""The last moment (in the year 2262)."""
REMEDY = "write it with its zone, as in 2026-11-28T08:00:00Z"


def time_ns_of(text: str) -> int:
    """Unix time in nanoseconds of an RFC 3339 time, from 0 to the end of 64 bits. What is finer is rounded up, so it is
    never early. Raises `ValueError` with what is wrong and what to write."""
    found = _FORM.fullmatch(text) if len(text) <= 100 else None
    if found is None:
        raise ValueError(f"{text[:100]!r} is not a time (RFC 3339): {REMEDY}")
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    fraction, zulu, sign, *offset = found.groups()[6:]
    if zulu is None and sign is None:
        raise ValueError(f"{text!r} has no time zone: {REMEDY}")
    try:
        days = date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        raise ValueError(f"{text!r} is no day of the calendar: {REMEDY}") from None
    east = 0
    if zulu is None:
        hours, minutes = map(int, offset)
        east = (3600 * hours + 60 * minutes) * (-1 if sign == "-" else 1)
    if hour > 23 or minute > 59 or second > 60 or abs(east) >= _DAY or (offset[1] is not None and int(offset[1]) > 59):
        raise ValueError(f"{text!r} is no time of the day: {REMEDY}")
    seconds = days * _DAY + hour * 3600 + minute * 60 + second - east
    ns = int((fraction or "0")[:9].ljust(9, "0")) + bool((fraction or "")[9:].strip("0"))
    return min(max(seconds * SECOND_NS + ns, 0), MOST_NS)


def moment_ns(text: str, now_ns: int) -> int:
    """Unix time in nanoseconds of a time, or of so long ago (`2h`), or `now`. Raises `ValueError`."""
    if text == "now":
        return now_ns
    if is_duration(text):
        return now_ns - duration_ns(text)
    return time_ns_of(text)


def written(ns: int) -> str:
    """A Unix time in nanoseconds as RFC 3339, in UTC, with as many digits as it needs: none, three, six or nine."""
    text = stamped(ns)
    while text.endswith("000Z"):
        text = f"{text[:-4]}Z"
    return text.replace(".Z", "Z")


def stamped(ns: int) -> str:
    """The same with nine digits always: such texts are in the order of their times."""
    seconds, rest = divmod(ns, SECOND_NS)
    days, second = divmod(seconds, _DAY)
    day = date.fromordinal(_EPOCH + days)
    return f"{day.isoformat()}T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}.{rest:09d}Z"
