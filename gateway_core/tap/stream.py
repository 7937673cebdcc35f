"""A tap as server-sent events (WHATWG HTML, "Server-sent events"), over all workers.

Each event's data is JSON: `open` (how many workers are tapped), `tap` (one line), `dropped` (how many lines there was
no room for), `end` (the gateway stops). A comment comes now and then, so that a reader who left is noticed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import anyio

from .choice import Choice, compile_all

if TYPE_CHECKING:
    from ..runtime import Gateway

MEDIA = "text/event-stream"
MOST_LINES = 200
EVERY_S = 0.05
BEAT_S = 5.0


async def stream(choice: Choice, gateway: Gateway, workers: int) -> AsyncIterator[bytes]:
    """What happens from now on. Ends with the gateway; closing it closes the tap."""
    tap = gateway.taps.open(choice, compile_all(choice.filters, gateway.registry))
    number = 0
    try:
        number = await gateway.colleagues.tap(choice, tap.push)
        yield b'event: open\ndata: {"workers":%d}\n\n' % workers
        while True:
            with anyio.move_on_after(BEAT_S):
                await tap.wait()
            lines, dropped = tap.take(MOST_LINES)
            parts = [b"event: tap\ndata: %s\n\n" % line for line in lines]
            if dropped:
                parts.append(b'event: dropped\ndata: {"dropped":%d}\n\n' % dropped)
            if tap.closed and not lines:
                yield b"".join([*parts, b'event: end\ndata: {"reason":"the gateway stops"}\n\n'])
                return
            yield b"".join(parts) or b":\n\n"
            await anyio.sleep(EVERY_S)
    finally:
        gateway.taps.close(tap)
        with anyio.CancelScope(shield=True):
            await gateway.colleagues.untap(number)
