"""Helpers for ASGI applications: addresses, limited bodies, complete responses and streams."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

import anyio

from .address import split_address
from .server import App as App
from .server import AsgiServer as AsgiServer
from .server import ClientDisconnected as ClientDisconnected
from .server import Receive as Receive
from .server import Scope as Scope
from .server import Send as Send

BACKLOG = 1024


def checked_path(text: str) -> str:
    """Returns the path if an ingress may have it. Raises `ValueError`."""
    if not text.startswith("/") or not text.isascii() or any(c in text for c in "?# ") or not text.isprintable():
        raise ValueError("a path begins with / and contains no ?, # or space; percent-encode other characters")
    return text


def listening(address: str, *, shared: bool = False) -> socket.socket:
    """A listening socket at `host:port`; `shared` if other workers listen there too. Raises `OSError`."""
    host, port = split_address(address)
    family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if where[0] == "::":  # stands for all addresses, of IPv4, too
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(where)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


async def read_body(receive: Receive, limit: int) -> bytes | None:
    """The whole body, or None if it is longer than `limit` bytes. Raises `ClientDisconnected`."""
    parts: list[bytes] = []
    size = 0
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise ClientDisconnected
        part = event.get("body", b"")
        size += len(part)
        if size > limit:
            return None
        parts.append(part)
        if not event.get("more_body", False):
            return b"".join(parts)


async def respond(send: Send, status: int, headers: Sequence[tuple[bytes, bytes]], *body: bytes, head: bool) -> None:
    """Writes one complete response; `head` leaves the body out (RFC 9110 section 9.3.2). A body in several parts is
    written one part at a time, as fast as the client reads."""
    written = list(headers)
    if status not in (204, 304):
        written.append((b"content-length", b"%d" % sum(map(len, body))))
    if status in (408, 413):  # the rest of the request is not read
        written.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": written})
    *some, last = (b"",) if head or not body else body
    for part in some:
        await send({"type": "http.response.body", "body": part, "more_body": True})
        await anyio.lowlevel.checkpoint()  # a client that reads fast would get all of them in one turn of the loop
    await send({"type": "http.response.body", "body": last})


async def stream(
    receive: Receive, send: Send, headers: Sequence[tuple[bytes, bytes]], parts: AsyncIterator[bytes]
) -> None:
    """Writes a 200 response part by part, until the parts end or the client disconnects."""
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
