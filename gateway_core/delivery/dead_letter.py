"""Dead letters: undeliverable events, with attributes that say why.

`knativeerrordest`, `knativeerrorcode` and `knativeerrordata` are Knative Eventing's dead-letter attributes. Knative's
implementations disagree on the encoding of the data; here it is the response body cut at 1024 bytes, then base64.
"""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime
from typing import Any

from ..contract.event import Event
from ..contract.interfaces import Outcome
from ..contract.one_line import one_line

FACTS = (
    "knativeerrordest",
    "knativeerrorcode",
    "knativeerrordata",
    "tidegatetrigger",
    "tidegateattempts",
    "tidegatefirst",
    "tidegatelast",
    "tidegatestage",
    "tidegatereason",
)
"""The attributes that a dead letter adds to its event."""

STAGES = ("delivery", "decode", "encode", "filter", "order")
"""The values of `tidegatestage`: where an event failed. `filter`: the filter raised, so it is unknown whether the event
is wanted; `order`: the key mapper found no order key, or raised."""

DATA_BYTES = 1024


def rfc3339(ns: int) -> str:
    """Unix nanoseconds as RFC 3339 in UTC, to the microsecond."""
    return datetime.fromtimestamp(ns / 1e9, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def with_facts(
    event: Event, outcome: Outcome, *, trigger: str, dest: str, attempts: int, first_ns: int, last_ns: int, stage: str
) -> Event:
    """The event with the facts of its failure as extension attributes. They replace earlier ones."""
    facts: dict[str, Any] = {
        "knativeerrordest": dest,
        "tidegatetrigger": trigger,
        "tidegateattempts": attempts,
        "tidegatefirst": rfc3339(first_ns),
        "tidegatelast": rfc3339(last_ns),
        "tidegatestage": stage,
        "tidegatereason": one_line(outcome.reason, 500) or "no reason given",
    }
    if outcome.code is not None:
        facts["knativeerrorcode"] = str(outcome.code)
    if outcome.data:
        facts["knativeerrordata"] = b64encode(outcome.data[:DATA_BYTES]).decode()
    return without_facts(event).with_attributes(**facts)


def without_facts(event: Event) -> Event:
    """The event as it was before it became a dead letter (what a replay sends)."""
    attributes = {k: v for k, v in event.attributes.items() if k not in FACTS}
    return Event(attributes, event.data, event.json_data, event.key, event.received_ns, event.position, event.trace)
