"""Moments and durations as people write them: `2026-11-28T08:00:00Z`, `2h`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PART = re.compile(r"(\d{1,9})(ms|s|m|h|d|w)")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_MOST_NS = 2**63 - 1
MOST_S = 100 * 366 * 86_400.0
"""The longest duration, in seconds."""
TIME_REMEDY = "write it with its zone, as in 2026-11-28T08:00:00Z"
DURATION_REMEDY = "write a number with its unit, as in 90s, 30m, 2h, 7d or 1h30m"


def time_ns_of(text: str) -> int:
    """Unix time in nanoseconds of an RFC 3339 time, from 0 to the end of 64 bits. Raises `ValueError` with what
    is wrong and what to write."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time (RFC 3339): {TIME_REMEDY}") from None
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone: {TIME_REMEDY}")
    return min(max((moment - _EPOCH) // timedelta(microseconds=1) * 1000, 0), _MOST_NS)


def seconds_of(text: str) -> float:
    """The seconds of a duration. Raises `ValueError` with what is wrong and what to write."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration: {DURATION_REMEDY}")
    seconds: float = sum(int(number) * _SECONDS[unit] for number, unit in parts)
    if not 0 < seconds <= MOST_S:
        raise ValueError(f"{text!r} is longer than a hundred years, or nothing: {DURATION_REMEDY}")
    return seconds


def moment_ns(text: str, now_ns: int) -> int:
    """Unix time in nanoseconds of a time, or of so long ago (`2h`), or `now`. Raises `ValueError`."""
    if text == "now":
        return now_ns
    if _PART.match(text) and "-" not in text:
        return now_ns - int(seconds_of(text) * 1e9)
    return time_ns_of(text)


def written(ns: int) -> str:
    """A Unix time in nanoseconds as RFC 3339, in UTC."""
    moment = _EPOCH + timedelta(microseconds=ns // 1000)
    return moment.isoformat(timespec="microseconds" if moment.microsecond else "seconds").replace("+00:00", "Z")
