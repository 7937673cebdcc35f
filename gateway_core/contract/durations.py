"""Durations in configs and events: seconds, or ISO 8601 such as `PT10M`."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

YEAR_S = 31_536_000
"""The longest delay, in seconds."""
_ISO = re.compile(
    r"P(?:(\d{1,6})W)?(?:(\d{1,6})D)?(?:T(?:(\d{1,8})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:[.,](\d{1,9}))?S)?)?"
)
_FACTORS = (604_800, 86_400, 3600, 60, 1)


def duration_ns(text: str) -> int:
    """The nanoseconds of an ISO 8601 duration of weeks, days, hours, minutes and seconds. Raises `ValueError`."""
    found = _ISO.fullmatch(text)
    if found is None or not any(found.groups()) or text.endswith("T"):
        raise ValueError(f"{text[:100]!r} is no duration such as PT10M, PT1H30M or P1D")
    *whole, fraction = found.groups()
    seconds = sum(int(part) * factor for part, factor in zip(whole, _FACTORS, strict=True) if part)
    return seconds * 1_000_000_000 + int((fraction or "").ljust(9, "0"))


def _seconds(value: Any) -> Any:
    return duration_ns(value) / 1e9 if isinstance(value, str) and value.startswith("P") else value


Delay = Annotated[float, BeforeValidator(_seconds), Field(ge=0, le=YEAR_S, allow_inf_nan=False)]
"""The type of an option: seconds, or an ISO 8601 duration; at most a year."""
