"""Live pages: the parts of a page that have changed, as server-sent events (WHATWG HTML, "Server-sent events").

A page names its parts with `sse-swap`; each part is an event of that name whose data is the part's HTML.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from inspect import isawaitable

import anyio
from gateway_api.routes import Answer, Handler, Problem, Request, Route, Text
from gateway_inspect.tap.stream import MEDIA

from .page import ROOT, tell
from .sampler import Sampler

EVERY_S = 1.0
BEAT = b":\n\n"
"""A comment: it shows whether the reader is still there."""
_BEAT_S = 5.0

Figures = Mapping[str, object]
"""JSON values by keys. Only those that have changed are sent, as one JSON object."""
LiveParts = Mapping[str, str | Figures]
Show = Callable[[Request], LiveParts | Awaitable[LiveParts]]
"""The parts of a page now, by name."""


def live(path: str, show: Show, sampler: Sampler, summary: str, every_s: float = EVERY_S) -> Route:
    """The route of a page's changes, below `/console`. It is for viewers. A problem that `show` raises ends the stream:
    the page says it, and does not ask again."""
    newest = Newest(show, every_s)
    return stream(path, lambda request: streamed(_changes(request, newest, sampler, every_s)), summary)


def stream(path: str, handler: Handler, summary: str) -> Route:
    """The route of a stream below `/console`, which `handler` answers with `streamed`. It is for viewers."""
    return Route(
        "GET", f"{ROOT}{path}", handler, summary, {200: Text(MEDIA)}, role="viewer", tell=tell, described=False
    )


def streamed(events: AsyncIterator[bytes]) -> Answer:
    """An answer with server-sent events, which no proxy keeps or holds back."""
    return Answer(stream=events, media=MEDIA, headers={"cache-control": "no-store", "x-accel-buffering": "no"})


def present() -> Route:
    """The route of pages without changes: it says that the gateway is there, and that the session continues."""

    async def beats() -> AsyncIterator[bytes]:
        while True:
            yield BEAT
            await anyio.sleep(_BEAT_S)

    return stream("/live/present", lambda request: streamed(beats()), "Whether the gateway is there")


class Newest:
    """The newest parts of a page, made once for all who see the same: readers with the same name and role, unless a
    part has the token of one of them."""

    def __init__(self, show: Show, every_s: float) -> None:
        self._show = show
        self._lasts_s = every_s * 0.9
        self._made: dict[tuple[object, ...], tuple[float, LiveParts]] = {}

    async def parts(self, request: Request) -> LiveParts:
        """The parts for this reader. Raises `Problem`."""
        asked = tuple((name, *values) for name, values in request.query.items())
        key = (request.path, request.who, request.role, asked)
        now = time.monotonic()
        if (kept := self._made.get(key)) is not None and now - kept[0] < self._lasts_s:
            return kept[1]
        self._made = {known: each for known, each in self._made.items() if now - each[0] < self._lasts_s}
        found = self._show(request)
        parts = await found if isawaitable(found) else found
        if not request.csrf or not any(request.csrf in part for part in parts.values() if isinstance(part, str)):
            self._made[key] = (now, parts)
        return parts


async def _changes(request: Request, newest: Newest, sampler: Sampler, every_s: float) -> AsyncIterator[bytes]:
    sent: dict[str, str | Figures] = {}
    with sampler.watched():
        while True:
            try:
                parts = await newest.parts(request)
            except Problem as problem:
                yield event("problem", problem.detail)
                return
            changed = {name: _news(sent.get(name), part) for name, part in parts.items() if sent.get(name) != part}
            sent.update(parts)
            yield b"".join(event(name, text) for name, text in changed.items()) or BEAT
            await anyio.sleep(every_s)


def _news(before: str | Figures | None, part: str | Figures) -> str:
    """What is sent of a part that has changed."""
    if isinstance(part, str):
        return part
    known: Figures = before if isinstance(before, Mapping) else {}
    return json.dumps({key: value for key, value in part.items() if known.get(key) != value}, separators=(",", ":"))


def event(name: str, text: str) -> bytes:
    """A server-sent event."""
    lines = "".join(f"data: {line}\n" for line in text.splitlines() or [""])
    return f"event: {name}\n{lines}\n".encode()
