"""What the applications of our servers share: addresses, bounded bodies, whole answers and streams."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

import anyio

from .serving.server import App as App
from .serving.server import AsgiServer as AsgiServer
from .serving.server import Left as Left
from .serving.server import Receive as Receive
from .serving.server import Scope as Scope
from .serving.server import Send as Send

BACKLOG = 1024


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port` (`[::1]:9080` for IPv6). Raises `ValueError`."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ValueError(f"{address!r} is no address: write HOST:PORT")
    return host, int(port)


def checked_path(text: str) -> str:
    """A path that an ingress may have. Raises `ValueError`."""
    if not text.startswith("/") or not text.isascii() or any(c in text for c in "?# ") or not text.isprintable():
        raise ValueError("a path begins with / and has no ?, # or blank; percent-encode other characters")
    return text


def listening(address: str, *, shared: bool = False) -> socket.socket:
    """A listening socket at `host:port`; `shared` where other workers listen there too. Raises `OSError`."""
    host, port = split_address(address)
    family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(where)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


async def read_body(receive: Receive, limit: int) -> bytes | None:
    """The whole body, None where it is longer than `limit` bytes. Raises `Left`."""
    parts: list[bytes] = []
    size = 0
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise Left
        part = event.get("body", b"")
        size += len(part)
        if size > limit:
            return None
        parts.append(part)
        if not event.get("more_body", False):
            return b"".join(parts)


async def respond(send: Send, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes, *, head: bool) -> None:
    """Writes one whole answer; `head` leaves the body out (RFC 9110 section 9.3.2)."""
    written = list(headers)
    if status not in (204, 304):
        written.append((b"content-length", b"%d" % len(body)))
    if status in (408, 413):  # the rest of the request is not read
        written.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": written})
    await send({"type": "http.response.body", "body": b"" if head else body})


async def stream(
    receive: Receive, send: Send, headers: Sequence[tuple[bytes, bytes]], parts: AsyncIterator[bytes]
) -> None:
    """Writes an answer of 200 part by part, until there are no more or the client leaves."""
    await send({"type": "http.response.start", "status": 200, "headers": list(headers)})
    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

        tasks.start_soon(watch)
        async with aclosing(parts):  # type: ignore[type-var]
            async for part in parts:
                await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        tasks.cancel_scope.cancel()
