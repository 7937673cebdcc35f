"""A tap as server-sent events (WHATWG HTML, "Server-sent events"), over all workers.

Each event's data is JSON: `open` (the number of tapped workers), `tap` (one line), `dropped` (the number of lines
without room), `end` (the gateway is stopping). A regular comment detects clients that have disconnected.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio

from ..context import InspectContext
from .choice import Choice, compile_all

MEDIA = "text/event-stream"
MOST_LINES = 200
EVERY_S = 0.05
BEAT_S = 5.0


async def stream(choice: Choice, service: InspectContext, workers: int) -> AsyncIterator[bytes]:
    """Streams what happens from now on. It ends with the gateway; closing it closes the tap."""
    tap = service.taps.open(choice, compile_all(choice.filters, service.gateway.registry))
    number = 0
    try:
        number = await service.gateway.peers.open(service.name, choice, tap.push)
        yield b'event: open\ndata: {"workers":%d}\n\n' % workers
        while True:
            with anyio.move_on_after(BEAT_S):
                await tap.wait()
            lines, dropped = tap.take(MOST_LINES)
            parts = [b"event: tap\ndata: %s\n\n" % line for line in lines]
            if dropped:
                parts.append(b'event: dropped\ndata: {"dropped":%d}\n\n' % dropped)
            if tap.closed and not lines:
                yield b"".join([*parts, b'event: end\ndata: {"reason":"the gateway is stopping"}\n\n'])
                return
            yield b"".join(parts) or b":\n\n"
            await anyio.sleep(EVERY_S)
    finally:
        service.taps.close(tap)
        with anyio.CancelScope(shield=True):
            await service.gateway.peers.close(number)
