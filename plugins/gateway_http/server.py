"""Listening sockets: one for each address, shared by the sources that name it, with a table of paths."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Protocol, cast
from weakref import WeakKeyDictionary

import anyio
from anyio.abc import TaskGroup

from gateway_core.errors import StartError
from gateway_core.serving.acceptor import Accepted, Acceptor
from gateway_core.serving.budget import Budget, Unfinished

from . import responses
from .config import HttpSourceConfig, split_listen
from .endpoint import Endpoint, Routes
from .protocol import Connection

SWEEP_S = 0.5
_BACKLOG = 1024
_POLL_S = 0.01


class Listener:
    """An address that is listened on. Subclasses bring the HTTP engine."""

    def __init__(self, options: HttpSourceConfig, tls: ssl.SSLContext | None, owner: str) -> None:
        self.options = options
        self.limits = options.limits
        self.tls = tls
        self.owner = owner
        self.routes: Routes = {}
        self.port = 0
        self.spare: list[socket.socket] = []  # the same sockets once more, for a listener that follows this one

    async def start(self, sockets: list[socket.socket], tasks: TaskGroup) -> None:
        raise NotImplementedError

    async def drain(self, endpoint: Endpoint) -> None:
        """Returns when nothing of this endpoint is unanswered."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Stops listening; returns when all requests are answered."""
        raise NotImplementedError


class ServerConnection(Accepted, Unfinished, Protocol):
    """A connection, as its listener sees it."""

    def serves(self, endpoint: Endpoint | None) -> bool:
        """Whether a request (of this endpoint; None: any) is still unanswered."""

    def drain(self) -> None:
        """Takes no more; closes once what was taken is answered."""

    def check(self, now: float) -> None:
        """Called every half second: ends what takes too long."""


class NativeListener(Listener):
    """The native engine. `now`, `date` and `accepted` are kept by a sweep twice a second for all connections."""

    def __init__(self, options: HttpSourceConfig, tls: ssl.SSLContext | None, owner: str) -> None:
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
        return Connection(self)

    @property
    def connections(self) -> tuple[ServerConnection, ...]:
        """Those that are open now."""
        found = self._acceptor.connections if self._acceptor is not None else ()
        return cast("tuple[ServerConnection, ...]", tuple(found))

    def _sweep(self) -> None:
        self._tick()
        self._timer = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)
        for connection in self.connections:
            try:
                connection.check(self.now)
            except Exception as e:  # the others' time limits go on
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
            with anyio.move_on_after(1):  # for the answers to leave
                await _until(lambda: not self.connections)
        finally:
            for connection in self.connections:
                connection.abort()
            if self._timer is not None:
                self._timer.cancel()


async def _until(true: Callable[[], bool]) -> None:
    # a stop is rare and short; an event for each connection would be paid by every request
    while not true():  # noqa: ASYNC110
        await anyio.sleep(_POLL_S)


def bind(listen: str, reuse_port: bool) -> list[socket.socket]:
    """Listening sockets for all addresses of a `HOST:PORT`, on one port. Raises `OSError`."""
    host, port = split_listen(listen)
    sockets: list[socket.socket] = []
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            sock = socket.socket(family, kind, protocol)
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if reuse_port:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((address[0], port or address[1], *address[2:]))
            port = sock.getsockname()[1]
            sock.listen(_BACKLOG)
            sock.setblocking(False)
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    return sockets


_listeners: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Listener]] = WeakKeyDictionary()


async def attach(
    options: HttpSourceConfig, endpoint: Endpoint, make: Callable[[], Listener], workers: int, tasks: TaskGroup
) -> Listener:
    """Puts an endpoint on its address; the first one there starts to listen. Raises `StartError`."""
    shared = _listeners.setdefault(asyncio.get_running_loop(), {})
    listener = shared.get(options.listen)
    if listener is not None:
        _check_shared(listener, options, endpoint)
        listener.routes[endpoint.target] = endpoint
        return listener
    listener = make()
    listener.routes[endpoint.target] = endpoint
    fixed = split_listen(options.listen)[1] != 0
    if fixed:  # before the first await, so that the next source finds it
        shared[options.listen] = listener
    try:
        await _open(listener, bind(options.listen, workers > 1), tasks)
    except OSError as e:
        if fixed:
            del shared[options.listen]
        raise StartError(f"{listener.owner}: can't listen on {options.listen}: {e.strerror or e}") from e
    return listener


async def _open(listener: Listener, sockets: list[socket.socket], tasks: TaskGroup) -> None:
    listener.port = sockets[0].getsockname()[1]
    listener.spare = [sock.dup() for sock in sockets]
    await listener.start(sockets, tasks)


async def follow(
    listener: Listener,
    gone: Endpoint,
    options: HttpSourceConfig,
    endpoint: Endpoint,
    make: Callable[[], Listener],
    tasks: TaskGroup,
) -> Listener | None:
    """Puts an endpoint in the place of another at the same address, at once or on a listener of its own that takes the
    sockets over: no client finds the address closed. None where other sources share it and it can't be changed."""
    if endpoint.target != gone.target and endpoint.target in listener.routes:
        return None
    if _alike(options, listener.options):
        del listener.routes[gone.target]
        listener.routes[endpoint.target] = endpoint
        await listener.drain(gone)
        return listener
    if len(listener.routes) > 1:
        return None
    successor = make()
    successor.routes[endpoint.target] = endpoint
    sockets, listener.spare = listener.spare, []
    await _open(successor, sockets, tasks)
    shared = _listeners.get(asyncio.get_running_loop(), {})
    if shared.get(options.listen) is listener:
        shared[options.listen] = successor
    await listener.stop()
    listener.routes.clear()
    return successor


def _alike(options: HttpSourceConfig, others: HttpSourceConfig) -> bool:
    same = {"server", "tls", "limits"}
    return options.model_dump(include=same) == others.model_dump(include=same)


def _check_shared(listener: Listener, options: HttpSourceConfig, endpoint: Endpoint) -> None:
    where = f"{endpoint.owner}: {options.listen}"
    if (taken := listener.routes.get(endpoint.target)) is not None:
        raise StartError(f"{where} has the path {endpoint.path!r} already, for {taken.owner}")
    if not _alike(options, listener.options):
        raise StartError(f"{where} is shared with {listener.owner}: server, tls and limits must be the same")


async def detach(listener: Listener, endpoint: Endpoint) -> None:
    """Takes an endpoint off its address; the last one there stops listening."""
    if listener.routes.get(endpoint.target) is not endpoint:
        return
    if len(listener.routes) > 1:
        del listener.routes[endpoint.target]
        await listener.drain(endpoint)
        return
    shared = _listeners.get(asyncio.get_running_loop(), {})
    if shared.get(listener.options.listen) is listener:
        del shared[listener.options.listen]
    for sock in listener.spare:
        sock.close()
    try:
        await listener.stop()
    finally:
        listener.routes.clear()
