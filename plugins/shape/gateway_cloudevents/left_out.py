"""Optional attributes with invalid values: they are left out, so that one never costs an event. They are counted
for this process, and logged."""

from __future__ import annotations

import logging
from time import monotonic

from gateway_serving import process_facts

from gateway_core.contract.errors import Refused
from gateway_core.contract.one_line import one_line

log = logging.getLogger("tidegate.cloudevents")

TELL_S = 60.0
"""They are logged at most this often, with their number; in seconds."""


class _LeftOut:
    count = 0
    told = 0
    tell_at = 0.0


_left_out = _LeftOut()


def leave_out(fault: Refused) -> None:
    """Counts a value that was left out because of this fault."""
    _left_out.count += 1
    now = monotonic()
    if now >= _left_out.tell_at:
        _left_out.tell_at = now + TELL_S
        count, _left_out.told = _left_out.count - _left_out.told, _left_out.count
        log.warning("invalid values of optional attributes were left out: %d; the last: %s", count, one_line(fault))


def totals() -> dict[str, int]:
    """For status: `values_left_out` since the start of this process."""
    return {"values_left_out": _left_out.count}


process_facts.add(totals)
