"""The HTTP server of a source: Hypercorn on a socket of our own. Any method, HTTP/1.1 and HTTP/2 without TLS."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any, cast

import anyio
from anyio.abc import TaskGroup

from gateway_core.asgi import split_address
from gateway_core.errors import StartError

from .request import Request
from .response import Response, problem

log = logging.getLogger(__name__)

BODY_TIMEOUT_S = 30.0
Handler = Callable[[Request], Awaitable[Response]]
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class _Left(Exception):
    """The caller left before the request was complete."""


class Server:
    """Reads whole requests, hands each to `handler` and writes what it returns."""

    def __init__(self, handler: Handler, max_body_bytes: int) -> None:
        self._handler = handler
        self._max_body_bytes = max_body_bytes
        self._stopping = asyncio.Event()
        self._stopped = asyncio.Event()
        self._stopped.set()

    async def start(self, listen: str, shared: bool, owner: str, tasks: TaskGroup) -> str:
        """Listens; returns the base URL. `shared` where other workers listen there too. Raises `StartError`."""
        sock = _bind(listen, shared, owner)
        host, port = sock.getsockname()[:2]
        self._stopped.clear()
        tasks.start_soon(self._serve, sock)
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def stop(self) -> None:
        """Answers what is being asked, and frees the address."""
        self._stopping.set()
        await self._stopped.wait()

    async def _serve(self, sock: socket.socket) -> None:
        from hypercorn.asyncio import serve
        from hypercorn.config import Config

        config = Config()
        config.bind = [f"fd://{sock.detach()}"]
        config.accesslog = None
        config.errorlog = logging.getLogger("hypercorn.error")
        config.include_server_header = False
        config.graceful_timeout = 600.0  # whoever stops the gateway bounds it
        try:
            await serve(cast("Any", self), config, shutdown_trigger=self._stopping.wait, mode="asgi")
        finally:
            self._stopped.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            try:
                response = await self._answer(scope, receive)
            except _Left:
                return
            await _write(send, response, scope["method"] == "HEAD")
        else:
            await send({"type": "websocket.close", "code": 1000})  # before it was accepted: answered with 403

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        try:
            with anyio.fail_after(BODY_TIMEOUT_S):
                body = await _body(receive, self._max_body_bytes)
        except TimeoutError:
            return problem(408, "the request took too long to come")
        if body is None:
            return problem(413, f"the body is longer than {self._max_body_bytes} bytes")
        try:
            return await self._handler(_request(scope, body))
        except Exception:
            log.exception("unexpected error while a function was called")
            return problem(500, "the gateway failed; see its log")


def _request(scope: Scope, body: bytes) -> Request:
    target: bytes = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    headers = [(name.lower(), value) for name, value in scope["headers"]]
    authority = next((value for name, value in headers if name in (b"host", b":authority")), b"")
    if target[:1] != b"/" and b"://" in target:  # absolute form (RFC 9112 section 3.2.2)
        authority, slash, rest = target.partition(b"://")[2].partition(b"/")
        target = slash + rest or b"/"
    if not authority:  # HTTP/1.0
        authority = b"%s:%d" % (scope["server"][0].encode(), scope["server"][1])
    return Request(scope["method"], scope["scheme"], authority, target, headers, body)


async def _body(receive: Receive, limit: int) -> bytes | None:
    """The whole body, None where it is longer than the limit."""
    parts: list[bytes] = []
    size = 0
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise _Left
        parts.append(event.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            return None
        if not event.get("more_body", False):
            return b"".join(parts)


async def _write(send: Send, response: Response, head: bool) -> None:
    headers = list(response.headers)
    if response.status not in (204, 304):
        headers.append((b"content-length", str(len(response.body)).encode()))
    if response.status in (408, 413):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else response.body})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return


def _bind(listen: str, shared: bool, owner: str) -> socket.socket:
    host, port = split_address(listen)
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shared:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            sock.bind(where)
            sock.listen(1024)
            sock.setblocking(False)
        except BaseException:
            sock.close()
            raise
    except OSError as e:
        raise StartError(f"{owner}: can't listen on {listen}: {e.strerror or e}") from e
    return sock
