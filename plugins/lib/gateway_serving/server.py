"""The server for ASGI applications off the hot path: the admin API, functions.

HTTP/1.1 only, with every limit of `ListenerLimits`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup

from .acceptor import Acceptor, Tls
from .budget import Budget
from .exchange import ClientDisconnected as ClientDisconnected
from .exchange import Exchange, ServedConnection
from .hosts import Hosts
from .http1 import Http1Connection
from .limits import ListenerLimits
from .unexpected import log_unexpected

log = logging.getLogger("tidegate.server")

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_SWEEP_S = 0.5
_POLL_S = 0.01
_LEAVE_S = 1.0  # so that responses are sent


class AsgiServer:
    """Serves `app`, which gets HTTP requests only and may raise `ClientDisconnected`. `max_body_bytes` is the longest
    body that the application accepts; the application itself refuses longer ones. Without `hosts`, the
    application checks host names, too. `makes_room`: see `Acceptor`."""

    def __init__(
        self,
        app: App,
        limits: ListenerLimits | None = None,
        max_body_bytes: int = 1024 * 1024,
        tls: Tls | None = None,
        hosts: Hosts | None = None,
        *,
        makes_room: bool = False,
    ) -> None:
        self._app = app
        self.hosts = hosts
        self.limits = limits or ListenerLimits()
        self.budget = Budget(self.limits.max_unfinished_bytes, self.limits.max_header_bytes + max_body_bytes)
        self.stopping = False
        self.encrypted = tls is not None
        self.now = 0.0
        self._tls = tls
        self._makes_room = makes_room
        self._acceptor: Acceptor | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._under_way = 0

    def start(self, sockets: Sequence[socket.socket], tasks: TaskGroup, *, graceful_s: float) -> None:
        """Serves on `sockets` and owns them. `stop` waits at most `graceful_s` for responses."""
        self._tasks = tasks
        self._graceful_s = graceful_s
        self._acceptor = Acceptor(sockets, self._connection, self.limits, self._tls, makes_room=self._makes_room)
        self._acceptor.start()

    async def stop(self) -> None:
        """Finishes the current requests and frees the addresses."""
        acceptor = self._acceptor
        if acceptor is None or self.stopping:
            return
        self.stopping = True
        acceptor.close()
        for connection in self.connections:
            connection.drain()
        try:
            with anyio.move_on_after(self._graceful_s):
                await self._until(lambda: not self._under_way)
                with anyio.move_on_after(_LEAVE_S):
                    await self._until(lambda: not acceptor.connections)
        finally:
            for connection in self.connections:
                connection.abort()
            if self._timer is not None:
                self._timer.cancel()

    async def _until(self, true: Callable[[], bool]) -> None:
        while not true():  # noqa: ASYNC110
            await anyio.sleep(_POLL_S)

    @property
    def connections(self) -> list[Http1Connection]:
        """The open connections."""
        found = self._acceptor.connections if self._acceptor is not None else ()
        return [c for c in found if isinstance(c, Http1Connection)]

    def _connection(self) -> Http1Connection:
        self._watch()
        return Http1Connection(self)

    def _watch(self) -> None:
        """Sweeps from now on, as long as there are connections."""
        if self._timer is None:
            self._tick()

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        self.now = loop.time()
        self._timer = loop.call_later(_SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        self._tick()
        for connection in self.connections:
            connection.check(self.now)
        self.budget.sweep(self.now)
        if self._timer is not None and (self._acceptor is None or not self._acceptor.connections):
            self._timer.cancel()
            self._timer = None

    # -- called by connections ----------------------------------------------------------------------------------------

    def made(self, connection: ServedConnection) -> bool:
        """Returns whether there is room for one more."""
        self._watch()
        return self._acceptor is not None and self._acceptor.made(connection)

    def lost(self, connection: ServedConnection) -> None:
        self.budget.release(connection)
        if self._acceptor is not None:
            self._acceptor.lost(connection)

    def run(self, connection: ServedConnection, exchange: Exchange) -> None:
        """Hands a request to the application."""
        self._under_way += 1
        self._tasks.start_soon(self._answer, connection, exchange)

    async def _answer(self, connection: ServedConnection, exchange: Exchange) -> None:
        try:
            await self._app(exchange.scope, partial(connection.receive, exchange), partial(connection.send, exchange))
        except ClientDisconnected:
            pass
        except Exception as e:
            log_unexpected(log, "answering a request", e)
        finally:
            self._under_way -= 1
            connection.ended(exchange)
