"""Accepts connections, counts and times them from the start, and copes with a shortage of file descriptors.

The event loop's own servers report neither a connection before its TLS handshake is done nor a failed accept.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol, cast

from gateway_core.contract.one_line import one_line
from gateway_core.contract.shortage import is_shortage

from . import descriptors
from .descriptors import Candidate
from .limits import ListenerLimits

log = logging.getLogger(__name__)

POLITE = 64
"""Connections beyond the limit that get a 503; any more are closed immediately."""
_BATCH = 64
_PAUSE_S = 0.1
_SHUTDOWN_S = 2.0  # how long a TLS client may take to shut down
_TOO_MANY = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Accepted(Protocol):
    """A connection, as the acceptor sees it. It calls `Acceptor.made` and `Acceptor.lost`."""

    def idle_since(self) -> tuple[int, float] | None:
        """The rank and time of `Candidate`; None while a request is being answered."""

    def abort(self) -> None:
        """Closes immediately."""


class Tls(Protocol):
    """TLS for connections."""

    def context(self) -> ssl.SSLContext:
        """The context for a connection that begins now."""


class Acceptor:
    """Accepts connections on `sockets` and owns them. `make` returns a protocol for each connection.

    Beyond the limit new connections get 503; if it `makes_room`, the one that has been silent for longest is closed
    instead. That takes time that grows with the number of connections."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        make: Callable[[], asyncio.Protocol],
        limits: ListenerLimits,
        tls: Tls | None = None,
        *,
        makes_room: bool = False,
    ) -> None:
        self.connections: dict[Accepted, None] = {}  # in the order in which they came
        self._sockets = sockets
        self._make = make
        self._limits = limits
        self._tls = tls
        self._makes_room = makes_room
        self._loop = asyncio.get_running_loop()
        self._opening: dict[asyncio.Protocol, tuple[float, asyncio.Task[bool]]] = {}
        self._timers: dict[socket.socket, asyncio.TimerHandle] = {}
        self.closed = False

    def start(self) -> None:
        descriptors.enlist(self)
        for sock in self._sockets:
            sock.setblocking(False)
            self._loop.add_reader(sock, self._accept, sock)

    def close(self) -> None:
        """Stops listening and ends connections in the TLS handshake. The others stay open."""
        self.closed = True
        for sock in self._sockets:
            if (timer := self._timers.pop(sock, None)) is not None:
                timer.cancel()
            else:
                self._loop.remove_reader(sock)
            sock.close()
        self._sockets = ()
        for _, task in self._handshakes():
            task.cancel()

    # -- called by connections ----------------------------------------------------------------------------------------

    def made(self, connection: Accepted) -> bool:
        """A connection is open, its handshake done. Returns whether there is room for it."""
        self._opening.pop(cast(asyncio.Protocol, connection), None)
        self.connections[connection] = None
        return self.count() <= self._limits.max_connections and not self.closed

    def lost(self, connection: Accepted) -> None:
        self.connections.pop(connection, None)

    # -- for the budget of descriptors
    # ----------------------------------------------------------------------------------------

    def count(self) -> int:
        return len(self.connections) + len(self._opening)

    def candidates(self) -> Iterator[Candidate]:
        for since, task in self._handshakes():
            if not task.cancelling():
                yield Candidate(0, since, lambda task=task: task.cancel() and None)  # type: ignore[misc]
        for connection in self.connections:
            if (found := connection.idle_since()) is not None:
                yield Candidate(*found, connection.abort)

    def _handshakes(self) -> list[tuple[float, asyncio.Task[bool]]]:
        # without TLS a connection opens immediately; if that is cancelled, uvloop does not report its end
        return [] if self._tls is None else list(self._opening.values())

    # -- accepting --------------------------------------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_BATCH):
            try:
                sock, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as e:
                self._failed(listener, e)
                return
            if not descriptors.has_room(sock.fileno()):
                if descriptors.relieve() or (self._opening and self._tls is None):
                    # others make room for it, but only in the next iteration of the loop
                    self._open(sock)
                    return
                descriptors.refused()
                self._refuse(sock)
            else:
                if self._makes_room and self.count() >= self._limits.max_connections:
                    self._close_one()
                if self.count() >= self._limits.max_connections + POLITE:
                    sock.close()
                else:
                    self._open(sock)

    def _close_one(self) -> None:
        """Closes the connection that has been silent for longest, if any is."""
        silent = [(found, c) for c in self.connections if (found := c.idle_since()) is not None]
        if silent:  # of several with the same time, the one that came first
            _, connection = min(silent, key=lambda pair: pair[0])
            self.lost(connection)  # it counts until the loop's next turn otherwise
            connection.abort()
        elif self._tls is not None and (handshakes := self._handshakes()):
            min(handshakes, key=lambda pair: pair[0])[1].cancel()

    def _failed(self, listener: socket.socket, error: OSError) -> None:
        """Tries again after a pause: the connection waits in the system's queue, and an immediate retry would spin."""
        if is_shortage(error):
            descriptors.exhausted(error, "accepting a connection")
        else:
            log.warning("accepting a connection failed: %s", error)
        self._loop.remove_reader(listener)
        self._timers[listener] = self._loop.call_later(_PAUSE_S, self._resume, listener)

    def _resume(self, listener: socket.socket) -> None:
        del self._timers[listener]
        self._loop.add_reader(listener, self._accept, listener)

    def _refuse(self, sock: socket.socket) -> None:
        try:
            if self._tls is None:
                sock.send(_TOO_MANY)
        except OSError:
            pass
        finally:
            sock.close()

    def _open(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        if sock.family != getattr(socket, "AF_UNIX", None):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        protocol = self._make()
        task = self._loop.create_task(self._connect(protocol, sock))
        self._opening[protocol] = self._loop.time(), task
        task.add_done_callback(partial(self._opened, protocol, sock))

    def _opened(self, protocol: asyncio.Protocol, sock: socket.socket, task: asyncio.Task[bool]) -> None:
        self._opening.pop(protocol, None)
        if task.cancelled():  # before it began: nothing else closes the socket
            sock.close()

    async def _connect(self, protocol: asyncio.Protocol, sock: socket.socket) -> bool:
        """Returns whether the connection is open. If not, the loop closes the socket."""
        try:
            if self._tls is None:
                await self._loop.connect_accepted_socket(lambda: protocol, sock)
            else:
                await self._loop.connect_accepted_socket(
                    lambda: protocol,
                    sock,
                    ssl=self._tls.context(),
                    ssl_handshake_timeout=self._limits.header_timeout_s,
                    ssl_shutdown_timeout=_SHUTDOWN_S,
                )
        except (OSError, asyncio.CancelledError) as e:
            # with TLS, clients disconnect, or their handshakes fail or take too long
            if self._tls is None and not self.closed:
                log.warning("an accepted connection could not be served: %s", one_line(e) or type(e).__name__)
            return False
        return True
