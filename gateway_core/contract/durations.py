"""Durations as people and programs write them: a number with its unit (`90s`, `30m`, `2h`, `7d`, `1h30m`), which is the
form of our own docs, or ISO 8601 (`PT10M`). Both are read everywhere."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

YEAR_S = 31_536_000
"""The longest delay, in seconds."""
MOST_S = 100 * 366 * 86_400.0
"""The longest duration, in seconds."""
REMEDY = "write a number with its unit, as in 90s, 30m, 2h, 7d or 1h30m"
_PART = re.compile(r"(\d{1,9})(ms|s|m|h|d|w)", re.ASCII)
_UNITS_NS = {
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
    "w": 604_800_000_000_000,
}
_ISO = re.compile(
    r"P(?:(\d{1,6})W)?(?:(\d{1,6})D)?(?:T(?:(\d{1,8})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:[.,](\d{1,9}))?S)?)?", re.ASCII
)
_NUMBER = re.compile(r"\d+(\.\d+)?", re.ASCII)
_ISO_S = (604_800, 86_400, 3600, 60, 1)


def is_duration(text: str) -> bool:
    """Whether it is written as a duration, in either form."""
    return text.startswith("P") or (_PART.match(text) is not None and "-" not in text)


def duration_ns(text: str) -> int:
    """The nanoseconds of a duration, which may be zero. Raises `ValueError` with what is wrong and what to write."""
    found = _ISO.fullmatch(text)
    if found is not None and any(found.groups()) and not text.endswith("T"):
        *whole, fraction = found.groups()
        seconds = sum(int(part) * factor for part, factor in zip(whole, _ISO_S, strict=True) if part)
        ns = seconds * 1_000_000_000 + int((fraction or "").ljust(9, "0"))
    else:
        parts = _PART.findall(text[:100])
        if not parts or "".join(number + unit for number, unit in parts) != text:
            raise ValueError(f"{text[:100]!r} is not a duration: {REMEDY}")
        ns = sum(int(number) * _UNITS_NS[unit] for number, unit in parts)
    if ns > MOST_S * 1e9:
        raise ValueError(f"{text[:100]!r} is longer than a hundred years: {REMEDY}")
    return ns


def seconds_of(text: str) -> float:
    """The seconds of a duration that is not zero. Raises `ValueError` with what is wrong and what to write."""
    ns = duration_ns(text)
    if not ns:
        raise ValueError(f"{text!r} is longer than a hundred years, or nothing: {REMEDY}")
    return ns / 1e9


def _seconds(value: Any) -> Any:
    if not isinstance(value, str) or _NUMBER.fullmatch(value.strip()):
        return value
    return duration_ns(value.strip()) / 1e9


AS_SECONDS = BeforeValidator(_seconds, json_schema_input_type=float | str)
"""Makes of an option's text its seconds; numbers stay."""
Duration = Annotated[float, AS_SECONDS, Field(ge=0, allow_inf_nan=False)]
"""The type of an option: seconds as a number, or a text."""
