"""What templates do with values: numbers, times and durations for people."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any


def count(value: float | None) -> str:
    """A whole number with separators; "–" for none."""
    return "–" if value is None else f"{value:,.0f}"


def rate(value: float | None) -> str:
    """A rate per second."""
    if value is None:
        return "–"
    return f"{value:,.0f}/s" if value >= 10 or value == 0 else f"{value:.1f}/s"


def seconds(value: float | None) -> str:
    """A duration, given in seconds."""
    if value is None:
        return "–"
    if value < 0.001:
        return f"{value * 1e6:.0f} µs"
    if value < 1:
        return f"{value * 1000:.3g} ms"
    if value < 120:
        return f"{value:.3g} s"
    if value < 7200:
        return f"{value / 60:.0f} min"
    return f"{value / 3600:.0f} h" if value < 172_800 else f"{value / 86_400:.0f} d"


def size(value: float | None) -> str:
    """A size, given in bytes."""
    if value is None:
        return "–"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"


def time_of(ns: int | None) -> str:
    """A time in UTC to the second, given in nanoseconds of Unix time."""
    return "–" if not ns else datetime.fromtimestamp(ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S")


def short(text: str | None, most: int = 200) -> str:
    """The start of a text that may be long, with the number of characters that it has."""
    text = text or ""
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def clock(ns: int | None) -> str:
    """A time of day in UTC to the millisecond, given in nanoseconds of Unix time."""
    return "–" if not ns else datetime.fromtimestamp(ns / 1e9, UTC).strftime("%H:%M:%S.%f")[:-3]


FILTERS: dict[str, Callable[..., Any]] = {
    "count": count,
    "rate": rate,
    "seconds": seconds,
    "short": short,
    "size": size,
    "time_of": time_of,
    "clock": clock,
}
