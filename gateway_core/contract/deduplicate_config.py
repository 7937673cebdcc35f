"""How a broker keeps events from being stored twice (`deduplicate`)."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from .attribute_names import AttributeName
from .options import Config

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
MOST_KEYS = 10_000_000


def _span(value: Any) -> Any:
    """A span of time as it is written: a number of seconds, or a number with a unit."""
    if isinstance(value, str) and (found := re.fullmatch(r"(\d+)([smhdw])", value.strip())):
        return int(found[1]) * _UNITS[found[2]]
    if isinstance(value, str):
        raise ValueError("write a span of time like `90s`, `15m`, `12h`, `7d` or `2w`, or a number of seconds")
    return value


class DeduplicateConfig(Config):
    """Stores events with the same key once: of those that are accepted within the window, only the first. A sender that
    sends an event again gets the answer of a success. The channel must be able to do it (`log`)."""

    window: Annotated[float, BeforeValidator(_span), Field(ge=1, le=31_536_000, allow_inf_nan=False)]
    """How long a key counts after its first event was accepted: a number of seconds, or with a unit, like `7d`, `12h`,
    `30m`."""
    key: Annotated[list[AttributeName], Field(min_length=1, max_length=8)] = ["source", "id"]
    """The attributes that make up the key. Events that lack one of them are stored each time. After a change of it, the
    keys of before count no more."""
    on_conflict: Literal["accept_first", "refuse"] = "accept_first"
    """What happens to an event that has the key of an earlier one, but other attributes or data: `accept_first` treats
    it as any other duplicate, and counts it; `refuse` answers 409."""
    max_keys: Annotated[int, Field(ge=1000, le=100_000_000)] = MOST_KEYS
    """How many keys are kept. With more, the oldest are dropped first, and status says that the window is shorter."""
