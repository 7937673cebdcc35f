"""What every server on Hypercorn shares: sockets of our own (so that port 0 works), bounded bodies, start and stop."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

import anyio
from anyio.abc import TaskGroup

if TYPE_CHECKING:
    from hypercorn.config import Config

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

BACKLOG = 1024


class Left(Exception):
    """The client left before its request was complete."""


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


class AsgiServer:
    """Hypercorn in the running loop. `app` gets requests only: lifespan events are answered and WebSockets refused
    here, and a `Left` that it raises is dropped."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._stopping = asyncio.Event()
        self._stopped = asyncio.Event()
        self._stopped.set()

    def start(
        self,
        sockets: Sequence[socket.socket],
        tasks: TaskGroup,
        *,
        graceful_s: float,
        configure: Callable[[Config], None] = lambda config: None,
    ) -> None:
        """Serves on these sockets, which are its own from now on. `graceful_s` bounds how long `stop` waits for
        answers; `configure` sets what differs from the defaults."""
        from hypercorn.config import Config

        config = Config()
        config.bind = [f"fd://{sock.detach()}" for sock in sockets]
        config.accesslog = None
        config.errorlog = logging.getLogger("hypercorn.error")
        config.include_server_header = False
        config.graceful_timeout = graceful_s
        configure(config)
        self._stopped.clear()
        tasks.start_soon(self._serve, config)

    async def stop(self) -> None:
        """Answers what is being asked, and frees the addresses."""
        self._stopping.set()
        await self._stopped.wait()

    async def _serve(self, config: Config) -> None:
        from hypercorn.asyncio import serve

        try:
            await serve(cast("Any", self), config, shutdown_trigger=self._stopping.wait, mode="asgi")
        finally:
            self._stopped.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            try:
                await self._app(scope, receive, send)
            except Left:
                return
        else:
            await send({"type": "websocket.close", "code": 1000})  # before it was accepted: answered with 403


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


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return
