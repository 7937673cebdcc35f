"""A tap as server-sent events (WHATWG HTML, "Server-sent events"), over all workers.

Each event's data is JSON: `open` (the number of tapped workers), `tap` (one line), `dropped` (the number of lines
without room), `end` (the gateway is stopping). A regular comment detects clients that have disconnected.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import anyio

from ..context import InspectContext
from .choice import Choice, compile_all

MEDIA = "text/event-stream"
MOST_LINES = 200
EVERY_S = 0.05
BEAT_S = 5.0


@dataclass(frozen=True, slots=True)
class Batch:
    """What a tap has seen since the last batch: lines in JSON, and how many were `dropped`. `workers` is set in the
    first one; the last one has `ended`."""

    lines: Sequence[bytes] = ()
    dropped: int = 0
    workers: int = 0
    ended: bool = False


async def batches(
    choice: Choice, service: InspectContext, every_s: float = EVERY_S, most_lines: int = MOST_LINES
) -> AsyncGenerator[Batch, None]:
    """What happens from now on, at most `most_lines` each `every_s`; an empty batch now and then. It ends with the
    gateway; closing it closes the tap."""
    tap = service.taps.open(choice, compile_all(choice.filters, service.gateway.registry))
    number = 0
    try:
        number = await service.gateway.peers.open(service.name, choice, tap.push)
        yield Batch(workers=len(service.gateway.others()) + 1)
        while True:
            with anyio.move_on_after(BEAT_S):
                await tap.wait()
            lines, dropped = tap.take(most_lines)
            ended = tap.closed and not lines
            yield Batch(lines, dropped, ended=ended)
            if ended:
                return
            await anyio.sleep(every_s)
    finally:
        service.taps.close(tap)
        with anyio.CancelScope(shield=True):
            await service.gateway.peers.close(number)


async def stream(choice: Choice, service: InspectContext) -> AsyncIterator[bytes]:
    """`batches` as server-sent events."""
    async with aclosing(batches(choice, service)) as found:
        async for batch in found:
            if batch.workers:
                yield b'event: open\ndata: {"workers":%d}\n\n' % batch.workers
                continue
            parts = [b"event: tap\ndata: %s\n\n" % line for line in batch.lines]
            if batch.dropped:
                parts.append(b'event: dropped\ndata: {"dropped":%d}\n\n' % batch.dropped)
            if batch.ended:
                parts.append(b'event: end\ndata: {"reason":"the gateway is stopping"}\n\n')
            yield b"".join(parts) or b":\n\n"
