"""Finds past events in a channel's stream (`gateway_core.contract.capabilities.Searchable`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from nats.errors import TimeoutError as NoMessage
from nats.js import JetStreamContext, api

from gateway_core.contract.capabilities import Found
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event

from .stored import stored_ns

WINDOW = 1000
PATIENCE_S = 2.0

Decode = Callable[[dict[str, str] | None, bytes], Event]


async def find(
    js: JetStreamContext, stream: str, decode: Decode, id: str, source: str | None, rest: Any, within_s: float
) -> Found:
    """Searches from the newest event back, a thousand at a time, each time with a consumer that is gone afterwards.
    `rest` is the first message that was searched. Raises what nats-py raises."""
    state = (await js.stream_info(stream)).state
    end = rest if isinstance(rest, int) else state.last_seq + 1
    until = time.monotonic() + within_s
    events: list[Event] = []
    searched = 0
    while end > state.first_seq and state.messages and not events:
        start = max(state.first_seq, end - WINDOW)
        for event in await _between(js, stream, decode, start, end):
            searched += 1
            same = event is not None and str(event.attributes.get("id")) == id
            if event is not None and same and source in (None, event.attributes.get("source")):
                events.insert(0, event)
        end = start
        if time.monotonic() > until:
            break
    return Found(events, searched, end if end > state.first_seq and state.messages else None)


async def _between(js: JetStreamContext, stream: str, decode: Decode, start: int, end: int) -> list[Event | None]:
    """The messages in [start, end); None for one that is not an event."""
    config = api.ConsumerConfig(
        ack_policy=api.AckPolicy.NONE,
        deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
        opt_start_seq=start,
        inactive_threshold=30,
        mem_storage=True,
    )
    made = await js.add_consumer(stream, config)
    subscription = await js.pull_subscribe_bind(consumer=made.name, stream=stream)
    found: list[Event | None] = []
    following = start
    try:
        while following < end:
            try:
                messages = await subscription.fetch(min(500, end - following), timeout=PATIENCE_S)
            except NoMessage:
                break  # the rest has been removed meanwhile
            for message in messages:
                following = message.metadata.sequence.stream + 1
                if following <= end:
                    event = _event(decode, message.headers, message.data, following - 1)
                    if event is not None:
                        event.received_ns = stored_ns(message.reply)
                    found.append(event)
    finally:
        await subscription.unsubscribe()
        await js.delete_consumer(stream, made.name)
    return found


def _event(decode: Decode, headers: dict[str, str] | None, data: bytes, position: int) -> Event | None:
    try:
        event = decode(headers, data)
    except Refused:
        return None
    event.position = position
    return event
