"""The HTTP server of a source: any method, HTTP/1.1, on its own socket."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from anyio.abc import TaskGroup
from gateway_serving.address import url_at
from gateway_serving.asgi import AsgiServer, Receive, Scope, Send, listening, read_body, respond
from gateway_serving.hosts import Hosts
from gateway_serving.limits import ListenerLimits
from gateway_serving.unexpected import log_unexpected

from gateway_core.contract.errors import StartError
from gateway_core.contract.peer import Peer
from gateway_core.contract.shortage import may_pass

from .request import Request
from .response import Response, busy, problem

log = logging.getLogger(__name__)

Handler = Callable[[Request], Awaitable[Response]]


class Server:
    """Reads complete requests, passes each to `handler` and writes the response."""

    def __init__(self, handler: Handler, limits: ListenerLimits, max_body_bytes: int, hosts: Hosts) -> None:
        self._handler = handler
        self._max_body_bytes = max_body_bytes
        self._server = AsgiServer(self._app, limits, max_body_bytes, hosts=hosts)

    async def start(self, listen: str, shared: bool, owner: str, tasks: TaskGroup) -> str:
        """Listens; returns the base URL. `shared` if other workers listen there too. Raises `StartError`."""
        try:
            sock = listening(listen, shared=shared)
        except OSError as e:
            raise StartError(f"{owner}: can't listen on {listen}: {e.strerror or e}") from e
        host, port = sock.getsockname()[:2]
        # the gateway's own stop limits the wait for responses
        self._server.start([sock], tasks, graceful_s=600.0)
        return url_at("http", host, port)

    async def stop(self) -> None:
        """Finishes the current requests and frees the address."""
        await self._server.stop()

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._answer(scope, receive)
        await respond(send, response.status, response.headers, response.body, head=scope["method"] == "HEAD")

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        body = await read_body(receive, self._max_body_bytes)
        if body is None:
            return problem(413, f"the body is longer than {self._max_body_bytes} bytes")
        try:
            return await self._handler(_request(scope, body))
        except Exception as e:
            log_unexpected(log, "calling a function", e)
            if may_pass(e):
                return busy("the gateway is short of resources")
            return problem(500, "the gateway failed; see its log")


def _request(scope: Scope, body: bytes) -> Request:
    target: bytes = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    headers = [(name.lower(), value) for name, value in scope["headers"]]
    authority = next((value for name, value in headers if name in (b"host", b":authority")), b"")
    if not authority:  # HTTP/1.0
        authority = b"%s:%d" % (scope["server"][0].encode(), scope["server"][1])
    client = scope.get("client")
    peer = Peer(url_at("", *client[:2]).partition("//")[2]) if client else Peer("")
    return Request(scope["method"], scope["scheme"], authority, target, headers, body, peer)
