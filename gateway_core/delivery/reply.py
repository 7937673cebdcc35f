"""What a reply inherits from the event that it answers."""

from __future__ import annotations

from ..contract.event import Event, text_of

TTL = "knativebrokerttl"
"""Knative's loop guard: how many more replies may follow. Each reply has one less than its event."""
MOST_REPLIES = 255

TRACING = ("traceparent", "tracestate")


def as_published(reply: Event, event: Event, now_ns: int) -> Event | None:
    """The reply as it goes to the broker: with the loop guard counted down, and with the event's trace context unless
    it has its own (Knative Broker specification, Observability). None if the loop guard is used up."""
    left = remaining(event) - 1
    if left <= 0:
        return None
    attributes = {**reply.attributes, TTL: left}
    if "traceparent" not in attributes:
        attributes.update({name: event.attributes[name] for name in TRACING if name in event.attributes})
    return Event(attributes, reply.data, reply.json_data, reply.key, now_ns, trace=reply.trace)


def remaining(event: Event) -> int:
    """How many replies may follow this event: a producer may start lower, never higher."""
    text = text_of(event.attributes.get(TTL, MOST_REPLIES))
    return min(int(text), MOST_REPLIES) if text.isascii() and text.isdigit() and len(text) < 10 else MOST_REPLIES
