"""Replies: events that a subscriber answers with, on their way to the broker."""

from __future__ import annotations

from collections.abc import Callable

from ..contract.component_errors import text_of_error
from ..contract.event import Event, text_of
from ..contract.interfaces import Accepted, Outcome
from ..contract.normal_form import normal_attributes, without_names
from ..contract.shortage import may_pass

TTL = "knativebrokerttl"
"""Knative's loop guard: how many more replies may follow. Each reply has one less than its event."""
MOST_REPLIES = 255
TRACING = ("traceparent", "tracestate")


def publish(
    reply: Event,
    event: Event,
    now_ns: int,
    accept: Callable[[list[Event], Accepted], None],
    done: Callable[[Outcome | None], None],
) -> None:
    """Passes the reply to an event to `accept`. Calls `done` with None once it is safe, else with the failure."""

    def accepted(error: BaseException | None) -> None:
        # Knative Broker specification, Delivery: the first event SHOULD be delivered again
        done(None if error is None else Outcome(False, retry=True, reason=f"reply not accepted: {error}"))

    try:
        published = as_published(reply, event, now_ns)
    except Exception as e:
        done(Outcome(False, retry=may_pass(e), reason=f"the sink gave no event as a reply: {text_of_error(e)}"))
        return
    if published is None:
        done(Outcome(False, reason=f"reply loop: {TTL} of the event is used up"))
    else:
        accept([published], accepted)


def as_published(reply: Event, event: Event, now_ns: int) -> Event | None:
    """The reply as it goes to the broker: with the loop guard counted down, and with the event's trace context unless
    it has its own (Knative Broker specification, Observability). None if the loop guard is used up."""
    left = remaining(event) - 1
    if left <= 0:
        return None
    attributes = {**without_names(reply.attributes, (TTL,)), TTL: left}
    if "traceparent" not in attributes:
        attributes.update({name: event.attributes[name] for name in TRACING if name in event.attributes})
    return Event(attributes, reply.data, reply.json_data, reply.key, now_ns, trace=reply.trace)


def remaining(event: Event) -> int:
    """How many replies may follow this event: a producer may start lower, never higher."""
    text = text_of(normal_attributes(event.attributes).get(TTL, MOST_REPLIES))
    return min(int(text), MOST_REPLIES) if text.isascii() and text.isdigit() and len(text) < 10 else MOST_REPLIES
