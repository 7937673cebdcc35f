"""Listening addresses, each shared by the sinks that have it."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from anyio.abc import TaskGroup
from gateway_serving.address import url_at
from gateway_serving.asgi import AsgiServer, Receive, Scope, Send, respond
from gateway_serving.hosts import Hosts
from gateway_serving.listen import split_listen
from gateway_serving.sockets import bind
from gateway_serving.tls import server_tls

from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import StartError

from .config import PullSinkConfig
from .responses import answer_of, problem

if TYPE_CHECKING:
    from .endpoint import Endpoint

MAX_BODY_BYTES = 1024 * 1024
GRACEFUL_S = 5.0


class Listener:
    """An address. At each path is the endpoint of one sink; behind it, during a reload, the one it replaces."""

    def __init__(self, options: PullSinkConfig, owner: str) -> None:
        self.options = options
        self.owner = owner
        self.routes: dict[str, list[Endpoint]] = {}
        self.port = 0
        self.hosts = Hosts(split_listen(options.listen)[0], options.hosts)
        tls = server_tls(options.tls, owner)
        self._server = AsgiServer(self._app, options.limits, MAX_BODY_BYTES, tls, self.hosts)

    def open(self, sockets: list[socket.socket], tasks: TaskGroup) -> None:
        self.port = sockets[0].getsockname()[1]
        self._server.start(sockets, tasks, graceful_s=GRACEFUL_S)

    async def close(self) -> None:
        await self._server.stop()

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        base, _, word = path.rpartition("/")
        endpoints = self.routes.get(path)
        if endpoints is not None:
            word = ""
        else:
            endpoints = self.routes.get(base or "/")
        if endpoints is None:
            refusal = problem(404, "There is no subscription at this path.")
            await respond(send, refusal.status, refusal.headers, refusal.body, head=scope["method"] == "HEAD")
            return
        await answer_of(endpoints, word, scope, receive, send)

    def url(self, path: str) -> str:
        """The address as subscribers write it."""
        host = split_listen(self.options.listen)[0]
        return url_at("https" if self.options.tls else "http", host, self.port, path)


_listeners: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Listener]] = WeakKeyDictionary()


def attach(endpoint: Endpoint, options: PullSinkConfig, context: BuildContext, tasks: TaskGroup) -> Listener:
    """Adds an endpoint to its address; the first one opens it. One of the same owner is replaced: a reload starts the
    new sink before the old one stops. Raises `StartError`."""
    fixed = split_listen(options.listen)[1] != 0
    shared = _listeners.setdefault(asyncio.get_running_loop(), {})
    listener = shared.get(options.listen) if fixed else None
    if listener is None:
        listener = Listener(options, context.owner)
        try:
            listener.open(bind(options.listen, False), tasks)
        except OSError as e:
            raise StartError(f"{context.owner}: can't listen on {options.listen}: {e.strerror or e}") from e
        if fixed:
            shared[options.listen] = listener
    else:
        where = f"{context.owner}: {options.listen}"
        if taken := [e for e in listener.routes.get(options.path, ()) if e.owner != endpoint.owner]:
            raise StartError(f"{where} already serves the path {options.path!r} for {taken[0].owner}")
        other = listener.options
        if (options.tls, options.limits, options.hosts) != (other.tls, other.limits, other.hosts):
            raise StartError(f"{where} is shared with {listener.owner}: tls, limits and hosts must be the same")
    listener.routes.setdefault(options.path, []).insert(0, endpoint)
    return listener


async def detach(listener: Listener, endpoint: Endpoint, path: str) -> None:
    """Removes an endpoint from its address; the last one closes the address."""
    endpoints = listener.routes.get(path, [])
    if endpoint in endpoints:
        endpoints.remove(endpoint)
        if not endpoints:
            del listener.routes[path]
    if listener.routes:
        return
    shared = _listeners.get(asyncio.get_running_loop(), {})
    if shared.get(listener.options.listen) is listener:
        del shared[listener.options.listen]
    await listener.close()
