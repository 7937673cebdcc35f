"""Requests of subscribers, and the responses to them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
from gateway_serving.asgi import Receive, Scope, Send, read_body, respond, stream
from gateway_serving.responses import Response, problem

from . import endpoint as bodies
from .endpoint import Endpoint, Wrong
from .leases import Item
from .stream import HEADERS, Stream

__all__ = ["answer_of", "problem"]

_JSON = (b"content-type", b"application/json")
_BODIES: dict[str, msgspec.json.Decoder[Any]] = {
    "receive": msgspec.json.Decoder(bodies.Receive),
    "ack": msgspec.json.Decoder(bodies.Settle),
    "release": msgspec.json.Decoder(bodies.Release),
    "extend": msgspec.json.Decoder(bodies.Extend),
}
_DO: dict[str, Callable[[Endpoint, Any, list[Item]], None]] = {
    "ack": Endpoint.ack,
    "release": Endpoint.give_back,
    "extend": Endpoint.extend,
}
_MOST_BODY = 1024 * 1024


async def answer_of(endpoints: Sequence[Endpoint], word: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers a request for a word below the path of these endpoints, "" for the path itself. The first one is in use;
    the others have leases of before a reload."""
    endpoint = endpoints[0]
    headers = scope["headers"]
    origin = next((value for name, value in headers if name.lower() == b"origin"), None)
    allowed: list[tuple[bytes, bytes]] = []
    if origin is not None and endpoint.allows(origin):
        allowed = [(b"access-control-allow-origin", origin), (b"vary", b"origin")]
    method = scope["method"]

    async def reply(response: Response) -> None:
        await respond(send, response.status, [*response.headers, *allowed], response.body, head=method == "HEAD")

    if (refusal := _refusal(endpoint, word, method, headers, origin)) is not None:
        await reply(refusal)
    elif method == "OPTIONS":
        await reply(_preflight(word))
    elif word == "":
        counts = {"available": endpoint.leases.available, "leased": endpoint.leases.leased}
        await reply(Response(200, (_JSON,), msgspec.json.encode(counts)))
    elif word == "events":
        last = next((value for name, value in headers if name.lower() == b"last-event-id"), b"")
        await stream(receive, send, [*HEADERS, *allowed], Stream(endpoints, last.decode("latin-1")).parts())
    elif isinstance(body := await _read(word, receive), Response):
        await reply(body)
    elif word != "receive":
        await reply(_settled(endpoints, word, body))
    elif endpoint.stopping:
        await reply(problem(503, "The gateway stops, or its config changes.", headers=((b"retry-after", b"1"),)))
    else:  # the response begins before the wait: then a subscriber that leaves is noticed
        await stream(receive, send, [_JSON, *allowed], _received(endpoint, body))


def _refusal(
    endpoint: Endpoint, word: str, method: str, headers: list[tuple[bytes, bytes]], origin: bytes | None
) -> Response | None:
    if word and word != "events" and word not in _BODIES:
        return problem(404, "There are only `receive`, `ack`, `release`, `extend` and `events`.")
    if not endpoint.allows(origin) or (origin is None and _foreign(headers) and "*" not in endpoint.options.origins):
        return problem(403, "Pages of this origin may not fetch events: see `origins`.")
    if method == "OPTIONS":
        return None
    if not endpoint.trusts([value for name, value in headers if name.lower() == b"authorization"]):
        return problem(401, "This needs the right bearer token.", headers=((b"www-authenticate", b"Bearer"),))
    methods = ("POST",) if word in _BODIES else ("GET", "HEAD") if word == "" else ("GET",)
    if method not in methods:
        return problem(405, f"Use {methods[0]}.", headers=((b"allow", ", ".join((*methods, "OPTIONS")).encode()),))
    return None


def _foreign(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether a page of another origin had its browser send this, for instance as an image: then there is no `Origin`
    (Fetch Metadata, section 2.3)."""
    return any(name.lower() == b"sec-fetch-site" and value in (b"cross-site", b"same-site") for name, value in headers)


def _preflight(word: str) -> Response:
    methods = b"POST, OPTIONS" if word in _BODIES else b"GET, OPTIONS"
    return Response(
        204,
        (
            (b"allow", methods),
            (b"access-control-allow-methods", methods),
            (b"access-control-allow-headers", b"authorization, content-type, last-event-id"),
            (b"access-control-max-age", b"600"),
        ),
    )


async def _read(word: str, receive: Receive) -> Any:
    """The body of a request, or the response if it is not what the word needs."""
    text = await read_body(receive, _MOST_BODY)
    if text is None:
        return problem(413, f"The body is longer than {_MOST_BODY} bytes.")
    try:
        body = _BODIES[word].decode(text or b"{}")
        body.check()
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, Wrong) as e:
        return problem(400, f"The body is not what `{word}` needs: {e}")
    return body


async def _received(endpoint: Endpoint, body: bodies.Receive) -> AsyncIterator[bytes]:
    yield msgspec.json.encode(await endpoint.receive(body))


def _settled(endpoints: Sequence[Endpoint], word: str, body: Any) -> Response:
    """What became of the leases: `done`, and those that are `gone` (their events were or will be delivered again)."""
    done: list[str] = []
    gone: list[str] = []
    for token in dict.fromkeys(body.leases):
        found = False
        for endpoint in endpoints:
            items = _of(endpoint, token, up_to=getattr(body, "up_to", False))
            if items:
                _DO[word](endpoint, body, items)
                found = True
        (done if found else gone).append(token)
    return Response(200, (_JSON,), msgspec.json.encode({"done": done, "gone": gone}))


def _of(endpoint: Endpoint, token: str, *, up_to: bool) -> list[Item]:
    if up_to:
        return endpoint.leases.up_to(token)
    item = endpoint.leases.find(token)
    return [] if item is None else [item]
