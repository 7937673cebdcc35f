"""Which events a tap shows, and its filter."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from gateway_api.filter_texts import BadFilter as BadFilter
from gateway_api.filter_texts import compile_all as compile_all

MOST_HELD = 1000
"""Maximum number of unread lines; further lines are counted and dropped."""


class Choice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a tap shows: the events that `broker` (or a bridge) accepts, or the attempts of `trigger` (or a bridge) if
    it is set; only events that match all `filters`; with up to `data_bytes` of their data. It holds `held` lines that
    nobody has read yet."""

    broker: str | None = None
    trigger: str | None = None
    filters: tuple[str, ...] = ()
    data_bytes: int = 0
    held: int = MOST_HELD


@dataclass(frozen=True, slots=True)
class TapTarget:
    """Something that a tap can be attached to: a broker, a bridge or a trigger."""

    kind: str
    name: str

    def shown_by(self, choice: Choice) -> bool:
        """Whether a tap of this choice needs it."""
        if choice.trigger is not None:
            return self.kind in ("trigger", "bridge") and self.name == choice.trigger
        return self.kind in ("broker", "bridge") and choice.broker in (None, self.name)
