"""A listening address, as its connections and its sources see it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Protocol, cast

import anyio
from anyio.abc import TaskGroup
from gateway_serving import responses
from gateway_serving.acceptor import Accepted, Acceptor
from gateway_serving.budget import Budget, Unfinished
from gateway_serving.hosts import Hosts
from gateway_serving.listen import split_listen
from gateway_serving.tls import ServerTls

from .config import HttpSourceConfig
from .endpoint import Endpoint, Routes

SWEEP_S = 0.5
_POLL_S = 0.01


class Listener:
    """A listening address. Subclasses provide the HTTP engine."""

    def __init__(self, options: HttpSourceConfig, tls: ServerTls | None, owner: str) -> None:
        self.options = options
        self.limits = options.limits
        self.hosts = Hosts(split_listen(options.listen)[0], options.hosts)
        self.known_hosts: set[bytes] = set()  # values of `Host` that it answers to; limited in size
        self.tls = tls
        self.owner = owner
        self.routes: Routes = {}
        self.port = 0
        self.spare: list[socket.socket] = []  # duplicates of the sockets, for a listener that replaces this one

    async def start(self, sockets: list[socket.socket], tasks: TaskGroup) -> None:
        raise NotImplementedError

    async def drain(self, endpoint: Endpoint) -> None:
        """Returns when every request of this endpoint is answered."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Stops listening; returns when all requests are answered."""
        raise NotImplementedError


class ServerConnection(Accepted, Unfinished, Protocol):
    """A connection, as its listener sees it."""

    def serves(self, endpoint: Endpoint | None) -> bool:
        """Whether a request (of this endpoint; None: any) is still unanswered."""

    def drain(self) -> None:
        """Takes no more requests; closes once those it has are answered."""

    def check(self, now: float) -> None:
        """Runs every half second: ends what takes too long."""


class HttpListener(Listener):
    """Counts, times and stops the connections of an engine. A sweep updates `now`, `date` and `accepted` twice a second
    for all connections. Subclasses make the connections."""

    def __init__(self, options: HttpSourceConfig, tls: ServerTls | None, owner: str) -> None:
        super().__init__(options, tls, owner)
        self.budget = Budget(
            self.limits.max_unfinished_bytes, self.limits.max_header_bytes + self.limits.max_body_bytes
        )
        self.stopping = False
        self._acceptor: Acceptor | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tick()

    def _tick(self) -> None:
        self.now = asyncio.get_running_loop().time()
        self.date = responses.date_now()
        self.accepted = responses.wire(responses.ACCEPTED, self.date)

    async def start(self, sockets: list[socket.socket], tasks: TaskGroup) -> None:
        self._acceptor = Acceptor(sockets, self._connection, self.limits, self.tls)
        self._acceptor.start()
        self._sweep()

    def _connection(self) -> asyncio.Protocol:
        """The protocol of a new connection."""
        raise NotImplementedError

    @property
    def connections(self) -> tuple[ServerConnection, ...]:
        """The open connections."""
        found = self._acceptor.connections if self._acceptor is not None else ()
        return cast("tuple[ServerConnection, ...]", tuple(found))

    def _sweep(self) -> None:
        self._tick()
        self._timer = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)
        for connection in self.connections:
            try:
                connection.check(self.now)
            except Exception as e:  # the time limits of the others still apply
                responses.log_once(e)
                connection.abort()
        self.budget.sweep(self.now)

    def admit(self, connection: ServerConnection) -> bool:
        """Whether there is room for one more connection."""
        return self._acceptor is not None and self._acceptor.made(connection)

    def lost(self, connection: ServerConnection) -> None:
        """A connection has ended, or another protocol takes it over."""
        self.budget.release(connection)
        if self._acceptor is not None:
            self._acceptor.lost(connection)

    async def drain(self, endpoint: Endpoint) -> None:
        await _until(lambda: not any(c.serves(endpoint) for c in self.connections))

    async def stop(self) -> None:
        self.stopping = True
        if self._acceptor is not None:
            self._acceptor.close()
        for connection in self.connections:
            connection.drain()
        try:
            await _until(lambda: not any(c.serves(None) for c in self.connections))
            with anyio.move_on_after(1):  # so that the responses are sent
                await _until(lambda: not self.connections)
        finally:
            for connection in self.connections:
                connection.abort()
            if self._timer is not None:
                self._timer.cancel()


async def _until(true: Callable[[], bool]) -> None:
    # a stop is rare and short; an event per connection would cost every request
    while not true():  # noqa: ASYNC110
        await anyio.sleep(_POLL_S)
