"""The facts of a dead letter: extension attributes that say why an event could not be delivered.

`knativeerrordest`, `knativeerrorcode` and `knativeerrordata` are Knative Eventing's dead-letter attributes. Knative's
implementations disagree on the encoding of the data; here it is the response body cut at 1024 bytes, then base64.
"""

from __future__ import annotations

from base64 import b64encode

from .event import Event
from .moments import stamped
from .normal_form import without_names
from .one_line import one_line
from .outcome import Outcome

FACTS = (
    "knativeerrordest",
    "knativeerrorcode",
    "knativeerrordata",
    "tidegatetrigger",
    "tidegatebroker",
    "tidegateattempts",
    "tidegatefirst",
    "tidegatelast",
    "tidegatestage",
    "tidegatereason",
)
"""The attributes that a dead letter adds to its event."""
_FACTS = frozenset(FACTS)
DATA_BYTES = 1024
"""At most so many bytes of a response are kept as `knativeerrordata`."""


def with_facts(
    event: Event,
    outcome: Outcome,
    *,
    trigger: str,
    dest: str,
    attempts: int,
    first_ns: int,
    last_ns: int,
    broker: str = "",
) -> Event:
    """The event with the facts of its failure as extension attributes. They replace earlier ones. `broker` is that of
    the trigger; a bridge has none, and what a broker could not take has had no trigger."""
    letter = without_facts(event)
    facts = letter.attributes
    facts |= {
        "knativeerrordest": dest,
        "tidegatetrigger": trigger,
        "tidegateattempts": attempts,
        "tidegatefirst": stamped(first_ns),
        "tidegatelast": stamped(last_ns),
        "tidegatestage": outcome.stage.value,
        "tidegatereason": one_line(outcome.reason, 500) or "no reason given",
    }
    if broker:
        facts["tidegatebroker"] = broker
    if outcome.code is not None:
        facts["knativeerrorcode"] = str(outcome.code)
    if outcome.data:
        facts["knativeerrordata"] = b64encode(outcome.data[:DATA_BYTES]).decode()
    return letter


def without_facts(event: Event) -> Event:
    """The event as it was before it became a dead letter (what a replay sends)."""
    attributes = without_names(event.attributes, _FACTS)
    return Event(attributes, event.data, event.json_data, event.key, event.received_ns, event.position, event.trace)
