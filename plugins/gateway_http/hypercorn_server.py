"""The Hypercorn engine: HTTP/1.1 and HTTP/2, with the answers of the native one."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup
from hypercorn.asyncio import serve
from hypercorn.config import Config

from gateway_core.event import Message

from . import responses
from .config import HttpSourceConfig
from .endpoint import Endpoint, decide
from .responses import Response
from .server import Listener

log = logging.getLogger(__name__)

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class _Left(Exception):
    """The client left before its request was complete."""


class HypercornListener(Listener):
    """Serves the paths as an ASGI application."""

    def __init__(self, options: HttpSourceConfig, tls: ssl.SSLContext | None, owner: str) -> None:
        super().__init__(options, tls, owner)
        self._unanswered: Counter[Endpoint] = Counter()
        self._changed = asyncio.Condition()
        self._shutdown = asyncio.Event()
        self._ended = asyncio.Event()

    async def start(self, sockets: list[socket.socket], tasks: TaskGroup) -> None:
        tasks.start_soon(self._serve, self._config(sockets))

    def _config(self, sockets: list[socket.socket]) -> Config:
        config = Config()
        config.bind = [f"fd://{sock.detach()}" for sock in sockets]
        config.accesslog = None
        config.errorlog = logging.getLogger("hypercorn.error")
        config.keep_alive_timeout = self.limits.idle_timeout_s
        config.h11_max_incomplete_size = self.limits.max_header_bytes
        config.h2_max_header_list_size = self.limits.max_header_bytes
        config.include_server_header = False
        config.graceful_timeout = 600.0  # whoever stops the gateway bounds it
        if self.options.tls is not None:
            config.certfile = str(self.options.tls.cert_file)
            config.keyfile = str(self.options.tls.key_file)
            if self.options.tls.client_ca_file is not None:
                config.ca_certs = str(self.options.tls.client_ca_file)
                config.verify_mode = ssl.CERT_REQUIRED
        return config

    async def _serve(self, config: Config) -> None:
        try:
            await serve(self._app, config, shutdown_trigger=self._shutdown.wait, mode="asgi")  # type: ignore[arg-type]
        finally:
            self._ended.set()

    async def drain(self, endpoint: Endpoint) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._unanswered[endpoint])

    async def stop(self) -> None:
        self._shutdown.set()
        await self._ended.wait()

    # -- requests -------------------------------------------------------------------------------------------------

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            try:
                await _answer(send, await self._response(scope, receive), scope["method"] == "HEAD")
            except _Left:
                return
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _response(self, scope: Scope, receive: Receive) -> Response:
        headers = [(name, value) for name, value in scope["headers"] if name[:1] != b":"]
        limits = self.limits
        if len(headers) > limits.max_headers:
            return responses.problem(431, f"More than {limits.max_headers} header fields.")
        decision = decide(self.routes, scope["method"].encode("latin-1"), scope["raw_path"], headers)
        if not isinstance(decision, Endpoint):
            return decision
        try:
            with anyio.fail_after(limits.body_timeout_s):
                body = await _body(receive, limits.max_body_bytes)
        except TimeoutError:
            return responses.problem(408, "The request took too long to come.")
        if body is None:
            return responses.too_large(limits.max_body_bytes)
        return await self._take(decision, Message(headers, body, None, "POST", scope["raw_path"].decode("latin-1")))

    async def _take(self, endpoint: Endpoint, message: Message) -> Response:
        result: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

        def done(error: BaseException | None) -> None:
            if not result.done():
                result.set_result(error)

        self._unanswered[endpoint] += 1
        try:
            endpoint.take(message, done)
            return responses.for_error(await result)
        finally:
            self._unanswered[endpoint] -= 1
            async with self._changed:
                self._changed.notify_all()


async def _body(receive: Receive, limit: int) -> bytes | None:
    """The whole body, None where it is longer than the limit."""
    parts: list[bytes] = []
    size = 0
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise _Left
        part = event.get("body", b"")
        size += len(part)
        if size > limit:
            return None
        parts.append(part)
        if not event.get("more_body", False):
            return b"".join(parts)


async def _answer(send: Send, response: Response, head: bool) -> None:
    length = (b"content-length", str(len(response.body)).encode())
    headers = [*response.headers, length]
    if response.status in (408, 413):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else response.body})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        event = await receive()
        await send({"type": f"{event['type']}.complete"})
        if event["type"] == "lifespan.shutdown":
            return
