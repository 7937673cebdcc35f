"""Listening addresses, each shared by the sources and sinks that have it, and the server's opening handshake."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from gateway_access.gate import Gate
from gateway_options.secrecy import shown_url
from gateway_serving.acceptor import Acceptor
from gateway_serving.access import has_token
from gateway_serving.address import url_at
from gateway_serving.budget import Budget
from gateway_serving.hosts import Hosts, authority_in, origin_form
from gateway_serving.listen import split_listen
from gateway_serving.peer import peer_of
from gateway_serving.refusal import RequestRefused, problem
from gateway_serving.sockets import bind
from gateway_serving.tls import ServerTls, server_tls
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Refused, StartError, TidegateError
from gateway_core.contract.event import Message
from gateway_core.contract.identity import Identity

from .options import WebSocketConfig
from .socket import SILENT, TRY_LATER, WebSocket
from .subprotocol import offered

_END = b"\r\n\r\n"
_MOST_LINES, _LONGEST_LINE = 128, 8190  # the library's
_LINGER_S = 2.0
_SWEEP_S = 0.5


class Endpoint:
    """A path of a listener. `joined` gets each connection to it, once it is open, and sets its handler. With a `gate`,
    only those whose sender it knows are opened."""

    def __init__(
        self, owner: str, options: WebSocketConfig, joined: Callable[[WebSocket], None], gate: Gate | None = None
    ) -> None:
        assert options.listen is not None
        self.owner = owner
        self.options = options
        self.joined = joined
        self.gate = gate
        self.closed = False
        self.token = f"Bearer {options.token}".encode() if options.token else b""
        self.origins: Any = None if "*" in options.origins else [None, *options.origins]
        self.subprotocols = [Subprotocol(name) for name in offered(options.acknowledged)]


class Listener:
    """An address."""

    def __init__(self, options: WebSocketConfig, owner: str, tls: ServerTls | None) -> None:
        self.options = options
        self.owner = owner
        self.routes: dict[str, Endpoint] = {}
        self.port = 0
        assert options.listen is not None
        self.hosts = Hosts(split_listen(options.listen)[0], options.hosts)
        limits = options.limits
        self.budget = Budget(limits.max_unfinished_bytes, limits.max_header_bytes + options.max_message_bytes)
        self._tls = tls
        self._acceptor: Acceptor | None = None
        self._timer: asyncio.TimerHandle | None = None  # while there are connections

    def open(self, sockets: list[socket.socket]) -> None:
        self.port = sockets[0].getsockname()[1]
        self._acceptor = Acceptor(sockets, lambda: ServerSocket(self), self.options.limits, self._tls)
        self._acceptor.start()

    def made(self, connection: ServerSocket) -> bool:
        """Returns whether there is room for it."""
        if self._timer is None:
            self._sweep()
        return self._acceptor is not None and self._acceptor.made(connection)

    def lost(self, connection: ServerSocket) -> None:
        self.budget.release(connection)
        if self._acceptor is not None:
            self._acceptor.lost(connection)
            if not self._acceptor.connections and self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self.budget.sweep(loop.time())
        self._timer = loop.call_later(_SWEEP_S, self._sweep)

    async def close(self) -> None:
        """Stops listening. Open connections stay; the others end."""
        if self._acceptor is None:
            return
        self._acceptor.close()
        for connection in list(self._acceptor.connections):
            if isinstance(connection, ServerSocket) and connection.handler is None:
                connection.abort()
                await connection.finish()

    def url(self, path: str, *, hidden: bool = False) -> str:
        """The address as clients write it."""
        assert self.options.listen is not None
        host = split_listen(self.options.listen)[0]
        return shown_url(url_at("wss" if self._tls else "ws", host, self.port, path), hidden=hidden)


_listeners: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Listener]] = WeakKeyDictionary()


def attach(endpoint: Endpoint, context: BuildContext, instead: Endpoint | None = None) -> Listener:
    """Adds an endpoint to its address; the first one opens it. It may replace `instead`, or one of the same owner: a
    reload starts the new component before the old one stops. Raises `StartError`."""
    options = endpoint.options
    assert options.listen is not None
    fixed = split_listen(options.listen)[1] != 0
    shared = _listeners.setdefault(asyncio.get_running_loop(), {})
    listener = shared.get(options.listen) if fixed else None
    if listener is None:
        listener = Listener(options, context.owner, server_tls(options.tls, context.owner))
        try:
            listener.open(bind(options.listen, context.workers > 1))
        except OSError as e:
            raise StartError(f"{context.owner}: can't listen on {options.listen}: {e.strerror or e}") from e
        if fixed:
            shared[options.listen] = listener
    else:
        taken = listener.routes.get(options.path)
        if taken is not None and taken is not instead and taken.owner != endpoint.owner:
            where = f"{context.owner}: {options.listen}"
            raise StartError(f"{where} already serves the path {options.path!r} for {taken.owner}")
        other = listener.options
        if (options.tls, options.limits, options.hosts) != (other.tls, other.limits, other.hosts):
            where = f"{context.owner}: {options.listen}"
            raise StartError(f"{where} is shared with {listener.owner}: tls, limits and hosts must be the same")
    listener.routes[options.path] = endpoint
    return listener


async def detach(listener: Listener, endpoint: Endpoint) -> None:
    """Removes an endpoint from its address, unless another one replaced it; the last one closes the address."""
    endpoint.closed = True
    if listener.routes.get(endpoint.options.path) is endpoint:
        del listener.routes[endpoint.options.path]
    if listener.routes:
        return
    shared = _listeners.get(asyncio.get_running_loop(), {})
    if listener.options.listen is not None and shared.get(listener.options.listen) is listener:
        del shared[listener.options.listen]
    await listener.close()


class ServerSocket(WebSocket):
    """A connection that a client opened."""

    def __init__(self, listener: Listener) -> None:
        options = listener.options
        protocol = ServerProtocol(max_size=options.max_message_bytes, logger=SILENT)
        super().__init__(protocol, options, options.limits.header_timeout_s)
        self._listener = listener
        self._server = protocol
        self._head: bytearray | None = bytearray()
        self._room = True
        self._refused = False
        self._rest = b""  # what came behind the head
        self._held_back = False
        self._begun = 0.0
        self.held = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._room = self._listener.made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._listener.lost(self)
        super().connection_lost(exc)

    def idle_since(self) -> tuple[int, float] | None:
        return None if self.is_open else (1, self._heard)

    def _read(self, data: bytes) -> None:
        self._read_part(data)
        self._count()

    def _read_part(self, data: bytes) -> None:
        head = self._head
        if self._refused:
            return
        if head is None:
            super()._read(data)
            return
        seen = max(0, len(head) - len(_END))
        head += data
        end = head.find(_END, seen)
        most = self._listener.options.limits.max_header_bytes
        if end > most or (end < 0 and len(head) > most):
            self._head = None
            self._refuse(431, f"The head is longer than {most} bytes.")
        elif end >= 0:
            # what follows is read once the response is written: the library would answer a ping before it
            self._head, self._rest = None, bytes(head[end + len(_END) :])
            self._request(bytes(head[: end + len(_END)]))
            self._read_rest()

    def _read_rest(self) -> None:
        if self._rest and self.is_open:
            rest, self._rest = self._rest, b""
            super()._read(rest)
            self._count()

    # -- the budget of what has not come in completely ----------------------------------------------------------------

    def _count(self) -> None:
        size = 0
        if not self._refused:
            size = len(self._head or b"") + len(self._rest) + self.unfinished
        if size:
            if not self.held:
                self._begun = self._heard
            self._listener.budget.hold(self, size)
        elif self.held:
            self._listener.budget.release(self)

    def begun(self) -> float:
        return self._begun

    def hold_back(self, paused: bool) -> None:
        self._held_back = paused
        if self._transport is None or self._transport.is_closing() or self.holding:
            return
        if paused:
            self._transport.pause_reading()
        else:
            self._heard, self._pinged = self._loop.time(), None
            self._transport.resume_reading()

    def resume(self) -> None:
        super().resume()
        if self._held_back and self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def evict(self) -> None:
        self._listener.budget.release(self)
        self._rest = b""
        if self.is_open:
            self.fail(TRY_LATER, "too many incomplete messages; this one was the slowest")
        elif self._head is not None:
            self._head = None
            self._refuse(503, "Too many incomplete requests; this one was the slowest.", ("Retry-After", "1"))
        else:  # its credentials are being checked
            self.abort()

    # -- the handshake ------------------------------------------------------------------------------------------------

    def _request(self, head: bytes) -> None:
        lines = head.split(b"\r\n")
        if len(lines) > _MOST_LINES or len(max(lines, key=len)) > _LONGEST_LINE:
            self._refuse(431, f"A head has {_MOST_LINES} lines of {_LONGEST_LINE} bytes at most.")
            return
        self._server.receive_data(head)
        requests = self._server.events_received()
        if not requests or not isinstance(requests[0], Request):
            self._refuse(400, "Not an HTTP request.")
            return
        self._route(requests[0])

    def _route(self, event: Request) -> None:
        raw = event.path.encode()
        target = origin_form(raw).decode()
        if (host := authority_in(raw)) is None:
            host = event.headers.get("Host", "localhost").encode()
        endpoint = self._listener.routes.get(target.partition("?")[0])
        if not self._room:
            self._refuse(503, "Too many connections.", ("Retry-After", "1"))
        elif detail := self._listener.hosts.refusal(host):
            self._refuse(421, detail)
        elif endpoint is None or endpoint.closed:
            self._refuse(404, "There is nothing at this path.")
        elif endpoint.token and not _has_token(event, endpoint.token):
            self._refuse(401, "This needs the right bearer token.", ("WWW-Authenticate", "Bearer"))
        elif endpoint.gate is not None and self._transport is not None:
            fields = [(n.lower().encode("latin-1"), v.encode("latin-1")) for n, v in event.headers.raw_items()]
            message = Message(fields, None, None, "GET", target)
            message.peer = peer_of(self._transport)
            self._transport.pause_reading()  # what is sent before the response waits
            endpoint.gate.check(message, partial(self._checked, event, endpoint, message))
        else:
            self._accept(event, endpoint)

    def _checked(
        self, event: Request, endpoint: Endpoint, message: Message, who: Identity | None, error: TidegateError | None
    ) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        transport.resume_reading()
        if isinstance(error, Refused):
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in error.headers]
            self._refuse(error.status, error.detail, *headers)
        elif error is not None or endpoint.closed:
            self._refuse(503, str(error or "The endpoint was closed."), ("Retry-After", "1"))
        else:
            self.sender, self.request = who, message
            self._accept(event, endpoint)
            self._read_rest()

    def _accept(self, request: Request, endpoint: Endpoint) -> None:
        server, options = self._server, endpoint.options
        server.origins, server.available_subprotocols = (
            endpoint.origins,
            [Subprotocol(name) for name in endpoint.subprotocols],
        )
        server.max_message_size, self._timing = options.max_message_bytes, options
        response = server.accept(request)
        if response.status_code != 101:
            text = (response.body or b"").decode(errors="replace").partition("\n")[0]
            headers = [(name, response.headers[name]) for name in ("Allow", "Upgrade") if name in response.headers]
            self._refuse(response.status_code, text, *headers)
            return
        server.send_response(response)
        self._write()
        self._opened()
        endpoint.joined(self)

    def _refuse(self, status: int, detail: str, *headers: tuple[str, str]) -> None:
        """Responds with a problem description (RFC 9457), and ends the connection."""
        transport = self._transport
        self.reason, self._refused = f"{status} {detail}", True
        if transport is None or transport.is_closing():
            return
        written = tuple((name.encode(), value.encode()) for name, value in headers)
        transport.write(problem(RequestRefused(status, detail, written)))
        self._deadline = self._loop.time() + _LINGER_S
        if not transport.can_write_eof():
            transport.close()
            return
        try:
            transport.write_eof()  # an immediate close would reset the connection if more data arrives
        except (OSError, RuntimeError):  # the client has left while its credentials were checked
            transport.abort()


def _has_token(request: Request, wanted: bytes) -> bool:
    found = request.headers.get_all("Authorization")
    return has_token([value.encode("latin-1", "replace") for value in found], wanted)
