"""The Hypercorn engine: HTTP/1.1 and HTTP/2, with the answers of the native one."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from gateway_core.asgi import AsgiServer, Receive, Scope, Send, read_body, respond
from gateway_core.event import Message

from . import responses
from .config import HttpSourceConfig
from .endpoint import Endpoint, decide
from .responses import Response
from .server import Listener

if TYPE_CHECKING:
    from hypercorn.config import Config


class HypercornListener(Listener):
    """Serves the paths as an ASGI application."""

    def __init__(self, options: HttpSourceConfig, tls: ssl.SSLContext | None, owner: str) -> None:
        super().__init__(options, tls, owner)
        self._unanswered: Counter[Endpoint] = Counter()
        self._changed = asyncio.Condition()
        self._server = AsgiServer(self._app)

    async def start(self, sockets: list[socket.socket], tasks: TaskGroup) -> None:
        # whoever stops the gateway bounds the wait for answers
        self._server.start(sockets, tasks, graceful_s=600.0, configure=self._configure)

    def _configure(self, config: Config) -> None:
        config.keep_alive_timeout = self.limits.idle_timeout_s
        config.h11_max_incomplete_size = self.limits.max_header_bytes
        config.h2_max_header_list_size = self.limits.max_header_bytes
        if self.options.tls is not None:
            config.certfile = str(self.options.tls.cert_file)
            config.keyfile = str(self.options.tls.key_file)
            if self.options.tls.client_ca_file is not None:
                config.ca_certs = str(self.options.tls.client_ca_file)
                config.verify_mode = ssl.CERT_REQUIRED

    async def drain(self, endpoint: Endpoint) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._unanswered[endpoint])

    async def stop(self) -> None:
        await self._server.stop()

    # -- requests -------------------------------------------------------------------------------------------------

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        status, headers, body = await self._response(scope, receive)
        await respond(send, status, headers, body, head=scope["method"] == "HEAD")

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
                body = await read_body(receive, limits.max_body_bytes)
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
            coded = message.header(b"content-encoding") is not None
            (endpoint.take_coded if coded else endpoint.take)(message, done)
            return responses.for_error(await result)
        finally:
            self._unanswered[endpoint] -= 1
            async with self._changed:
                self._changed.notify_all()
