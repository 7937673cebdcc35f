"""Events as a stream of server-sent events (WHATWG HTML, section 9.2).

Each event's `id` is its lease. A browser repeats the last one when it connects again (`Last-Event-ID`), which
acknowledges that event and all before it in its stream. So that also a reader that does nothing else gets on, a stream
ends when it has sent as much as it may without an acknowledgement, or half a lease after the first such event: then the
reader connects again. One that acknowledges by `ack` keeps its stream.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import anyio

from .endpoint import Endpoint
from .leases import Holder

HEADERS = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
MOST_AT_ONCE = 100
"""The most events of a stream that are not acknowledged."""
SILENT_S = 15.0
"""A stream without events gets a comment so often, so that nobody takes it for dead; in seconds."""
RETRY_MS = 100
"""How soon a reader connects again."""


class Stream:
    """One stream of the first endpoint. `last` is the reader's `Last-Event-ID`, "" for none."""

    def __init__(self, endpoints: Sequence[Endpoint], last: str) -> None:
        self._endpoint = endpoints[0]
        if last:
            for endpoint in endpoints:
                endpoint.leases.settle(endpoint.leases.up_to(last))
        self._holder = Holder()

    async def parts(self) -> AsyncIterator[bytes]:
        """The stream's text, until it ends."""
        yield b"retry: %d\n\n" % RETRY_MS
        endpoint, held = self._endpoint, self._holder.held
        most = max(1, min(MOST_AT_ONCE, endpoint.options.max_leased // 2))
        half = endpoint.options.lease_s / 2
        oldest: int | None = None
        since = anyio.current_time()
        while not endpoint.stopping:
            first = next(iter(held), None)
            if first != oldest:
                oldest, since = first, anyio.current_time()
            left = half - (anyio.current_time() - since) if first is not None else SILENT_S
            if left <= 0 or len(held) >= most:
                return
            items = await endpoint.fetch(most - len(held), min(left, SILENT_S), self._holder)
            if items:
                yield b"".join(_event(item.token, item.text) for item in items)
            elif not held:
                yield b": nothing yet\n\n"


def _event(token: str, text: bytes) -> bytes:
    lines = text.splitlines() if b"\n" in text or b"\r" in text else [text]  # white space between values
    return b"id: %s\n%s\n" % (token.encode(), b"".join(b"data: %s\n" % line for line in lines))
