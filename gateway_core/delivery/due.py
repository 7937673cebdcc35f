"""When an event is due, for triggers with `delay` or `deliver_at`."""

from __future__ import annotations

from collections.abc import Callable, Container

from ..contract.durations import YEAR_S, duration_ns, is_duration
from ..contract.event import Event, text_of
from ..contract.moments import time_ns_of
from ..contract.normal_form import normal_attributes

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
        due_ns = received_ns + duration_ns(text) if is_duration(text) else time_ns_of(text)
    except ValueError as e:
        raise ValueError(f"deliver_at: {attribute}: {e}") from None
    if due_ns - received_ns > YEAR_S * 1_000_000_000:
        raise ValueError(f"deliver_at: {attribute}: {text[:100]!r} is more than a year after the event came")
    return due_ns
