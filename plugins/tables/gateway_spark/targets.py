"""Which tables a batch is written to, with a table for each event type."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple


class Targets(NamedTuple):
    """`own`: the event types with a table, in the order in which they are written. `beyond`: whether there are events
    of types without one, `unknown`: whether there are rows that are not events; both go to tables of their own."""

    own: list[str]
    beyond: bool
    unknown: bool


def targets_of(found: Collection[str | None], tables: Mapping[str, str]) -> Targets:
    """The targets of a batch with rows of these types; None stands for rows that are not events."""
    own = sorted(t for t in found if t is not None and t in tables)
    return Targets(own, any(t is not None and t not in tables for t in found), None in found)
