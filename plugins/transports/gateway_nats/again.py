"""Past events of a stream again, for replays (`gateway_core.contract.replayable`), each time with a consumer that
is gone afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from nats.errors import TimeoutError as NoMessage
from nats.js import JetStreamContext, api
from nats.js.errors import NotFoundError

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event
from gateway_core.contract.replayable import Stretch

from .find import Decode
from .stored import stored_ns

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER = 2**63 - 1
_PATIENCE_S = 2.0
_MOST = 500


async def stretch(js: JetStreamContext, stream: str, subject: str, from_ns: int, to_ns: int) -> Stretch:
    """See `Replayable.stretch`. Raises what nats-py raises."""
    state = (await js.stream_info(stream)).state
    end = state.last_seq + 1
    first = await _first_since(js, stream, subject, from_ns, end)
    parts = {0: (first, max(first, await _first_since(js, stream, subject, to_ns, end)))}
    oldest_ns = 0
    if state.messages:
        try:
            time = (await js.get_msg(stream, seq=state.first_seq)).time
        except NotFoundError:  # deleted just now
            time = None
        oldest_ns = 0 if time is None else (time - _EPOCH) // timedelta(microseconds=1) * 1000
    if state.first_seq <= 1:
        return Stretch(parts, oldest_ns, 0)
    return Stretch(parts, oldest_ns, oldest_ns or _NEVER)


async def read(
    js: JetStreamContext, stream: str, subject: str, decode: Decode, first: int, end: int, most: int
) -> tuple[list[Event], int]:
    """See `Replayable.read_again`. Raises what nats-py raises."""
    start = {"deliver_policy": api.DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": max(1, first)}
    until = min(end, first + min(most, _MOST))
    found: list[Event] = []
    async with _reading(js, stream, subject, start) as subscription:
        pending = (await subscription.consumer_info()).num_pending or 0
        following = first
        while following < until and pending:
            try:
                messages = await subscription.fetch(min(until - following, pending), timeout=_PATIENCE_S)
            except NoMessage:
                break  # the rest has been removed meanwhile
            pending -= len(messages)
            for message in messages:
                number = message.metadata.sequence.stream
                following = number + 1
                if number >= end:
                    return found, end
                if number >= until:
                    return found, number
                try:
                    event = decode(message.headers, message.data)
                except Refused:
                    continue
                event.position, event.received_ns = number, stored_ns(message.reply)
                found.append(event)
        return found, until if following >= until else end


async def _first_since(js: JetStreamContext, stream: str, subject: str, ns: int, end: int) -> int:
    """The first sequence number of a message that was stored then or later, else `end`."""
    moment = _EPOCH + timedelta(microseconds=ns // 1000)
    start = {"deliver_policy": api.DeliverPolicy.BY_START_TIME, "opt_start_time": moment}
    async with _reading(js, stream, subject, start) as subscription:
        if not (await subscription.consumer_info()).num_pending:
            return end
        try:
            (message,) = await subscription.fetch(1, timeout=_PATIENCE_S)
        except NoMessage:
            return end
        return min(end, message.metadata.sequence.stream)


@asynccontextmanager
async def _reading(
    js: JetStreamContext, stream: str, subject: str, start: dict[str, Any]
) -> AsyncIterator[JetStreamContext.PullSubscription]:
    config = api.ConsumerConfig(
        ack_policy=api.AckPolicy.NONE, filter_subject=subject, inactive_threshold=30, mem_storage=True, **start
    )
    made = await js.add_consumer(stream, config)
    subscription = await js.pull_subscribe_bind(consumer=made.name, stream=stream)
    try:
        yield subscription
    finally:
        await subscription.unsubscribe()
        await js.delete_consumer(stream, made.name)
