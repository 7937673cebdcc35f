"""What of a channel's stream may be removed: events that all consumers have settled, and that are old enough."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from nats.js import JetStreamContext, api
from nats.js.errors import APIError

PAGE = 256
STEPS = 40


async def settled_before(js: JetStreamContext, stream: str, keep_s: float, needed: Collection[str] = ()) -> int:
    """The first message that must stay: not settled by a consumer, or younger than `keep_s` seconds. 0 if the stream
    has no consumer, or lacks one of those `needed` (it is being made again), since nobody could tell what is settled
    then. Raises what nats-py raises."""
    floors: dict[str, int] = {}
    while True:
        page = await js.consumers_info(stream, offset=len(floors))
        floors |= {info.name: info.ack_floor.stream_seq if info.ack_floor else 0 for info in page}
        if len(page) < PAGE:
            break
    state = (await js.stream_info(stream)).state
    if not floors or not state.messages or any(name not in floors for name in needed):
        return 0
    return await _first_younger(js, stream, state.first_seq, min(floors.values()) + 1, keep_s)


async def _first_younger(js: JetStreamContext, stream: str, low: int, high: int, keep_s: float) -> int:
    """The first message in [low, high) that is younger, by bisection; `high` if none is."""
    limit = datetime.now(UTC) - timedelta(seconds=keep_s)
    for _ in range(STEPS):
        if low >= high:
            break
        middle = (low + high) // 2
        stored = await _stored(js, stream, middle)
        if stored is None or stored <= limit:
            low = middle + 1
        else:
            high = middle
    return low


async def _stored(js: JetStreamContext, stream: str, sequence: int) -> datetime | None:
    try:
        found: api.RawStreamMsg = await js.get_msg(stream, sequence)
    except APIError:
        return None  # it is gone
    return found.time
