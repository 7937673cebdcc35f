"""Live pages: the parts of a page that have changed, as server-sent events (WHATWG HTML, "Server-sent events").

A page names its parts with `sse-swap`; each part is an event of that name whose data is the part's HTML.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from inspect import isawaitable

import anyio
from gateway_admin.routes import Answer, Request, Route, Text

from .page import ROOT, tell
from .sampler import Sampler

MEDIA = "text/event-stream"
EVERY_S = 1.0
BEAT = b":\n\n"
"""A comment: it shows whether the reader is still there."""

Parts = Mapping[str, str]
Show = Callable[[Request], Parts | Awaitable[Parts]]
"""The parts of a page now, by name."""


def live(path: str, show: Show, sampler: Sampler, summary: str, every_s: float = EVERY_S) -> Route:
    """The route of a page's changes, below `/console`. It is for viewers."""

    def answer(request: Request) -> Answer:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return Answer(stream=_changes(request, show, sampler, every_s), media=MEDIA, headers=headers)

    return Route(
        *("GET", f"{ROOT}{path}", answer, summary, {200: Text(MEDIA)}), role="viewer", tell=tell, described=False
    )


async def _changes(request: Request, show: Show, sampler: Sampler, every_s: float) -> AsyncIterator[bytes]:
    sent: dict[str, str] = {}
    with sampler.watched():
        while True:
            found = show(request)
            parts = await found if isawaitable(found) else found
            changed = {name: text for name, text in parts.items() if sent.get(name) != text}
            sent.update(changed)
            yield b"".join(event(name, text) for name, text in changed.items()) or BEAT
            await anyio.sleep(every_s)


def event(name: str, text: str) -> bytes:
    """A server-sent event."""
    lines = "".join(f"data: {line}\n" for line in text.splitlines() or [""])
    return f"event: {name}\n{lines}\n".encode()
