"""One HTTP/1.1 connection of a server that hands requests to an ASGI application, parsed by h11.

Invariants:

* One request at a time: pipelined requests stay unread until the response is written.
* Once `_deaf` is set, no byte of the connection is interpreted. A request that is not plain HTTP/1.1 ends the
  connection, so that no proxy with another interpretation can smuggle a second request (RFC 9112 section 11.2).
* The server's sweep checks the time limits (`check`).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from email.utils import formatdate
from typing import Any, cast

import h11

from .exchange import ClientDisconnected, ConnectionServer, Exchange
from .hosts import authority_in, origin_form
from .refusal import RequestRefused, check_head, check_host, problem, reason_phrase
from .strict import StrictLines
from .unexpected import log_unexpected

log = logging.getLogger("tidegate.server")

MOST_UNREAD = 64 * 1024
"""Bytes of a body that the application has not read, before reading from the connection pauses."""
LINGER_S = 2.0


class Http1Connection(asyncio.Protocol):
    """See the module's docstring."""

    def __init__(self, server: ConnectionServer) -> None:
        self._server = server
        self._limits = server.limits
        self._h11 = self._parser()
        self._transport: asyncio.Transport | None = None
        self._exchange: Exchange | None = None
        self._since = server.now  # when the connection became idle, or the head or body began
        self._head_bytes = 0
        self._lines = StrictLines()
        self._behind_head = b""  # data that came with the end of the head, until the head is read
        self._chunked = False
        self._deaf = self._eof = self._lingers = self._paused = self._held_back = False
        self._writable = asyncio.Event()
        self._writable.set()
        self.held = 0

    def _parser(self) -> h11.Connection:
        return h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.max_header_bytes)

    # -- transport ----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        if not self._server.made(self):
            self._refuse(RequestRefused(503, "Too many connections.", ((b"retry-after", b"1"),)))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._deaf = True
        self._server.lost(self)
        self._writable.set()
        if self._exchange is not None:
            self._exchange.gone = True
            self._exchange.wake.set()

    def eof_received(self) -> bool:
        self._eof = True
        exchange = self._exchange
        if self._deaf or exchange is None or not exchange.complete:
            return False
        if exchange.started:
            exchange.gone = True
            exchange.wake.set()
        return not self._server.encrypted  # the client may still read its response

    def pause_writing(self) -> None:
        self._since = self._server.now
        self._writable.clear()

    def resume_writing(self) -> None:
        self._since = self._server.now
        self._writable.set()

    def _steer_reading(self) -> None:
        exchange, transport = self._exchange, self._transport
        # while a request is answered, reading shows when the client disconnects; but no data is buffered then
        pause = self._held_back
        if exchange is not None:
            pause = pause or exchange.unread > MOST_UNREAD or (exchange.complete and self._head_bytes > 0)
        if transport is None or transport.is_closing() or pause == self._paused or self._deaf:
            return
        self._paused = pause
        if pause:
            transport.pause_reading()
        else:
            transport.resume_reading()

    # -- reading ------------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        if self._idle():
            self._since = self._server.now
            data = data.lstrip(b"\r\n")  # empty lines before a request are ignored (RFC 9112 section 2.2)
            if not data:
                return  # h11 would take it for the end
        try:
            self._check_lines(data)
            self._h11.receive_data(data)
            self._head_bytes += len(data)
            self._read()
        except Exception as e:
            self._failed(e)

    def _check_lines(self, data: bytes) -> None:
        """Checks the data of the request that is being read. What is behind it is checked when its turn comes."""
        exchange = self._exchange
        if exchange is None:
            self._behind_head = self._lines.head(data) or b""
        elif self._chunked and not exchange.complete:
            self._lines.chunks(data)

    def _idle(self) -> bool:
        return self._exchange is None and not self._head_bytes

    def _read(self) -> None:
        while not self._deaf:
            exchange = self._exchange
            if exchange is not None and exchange.complete:
                break  # what follows waits for the response, or is ignored
            event = self._h11.next_event()
            if isinstance(event, h11.Request):
                self._head_bytes = 0
                self._begin(event)
            elif exchange is None or event in (h11.NEED_DATA, h11.PAUSED) or isinstance(event, h11.ConnectionClosed):
                break
            elif isinstance(event, h11.Data):
                self._head_bytes = 0
                part = bytes(event.data)
                exchange.parts.append(part)
                exchange.size += len(part)
                exchange.unread += len(part)
                exchange.wake.set()
            elif isinstance(event, h11.EndOfMessage):
                self._head_bytes = 0
                exchange.complete = True
                exchange.wake.set()
        self._count()
        self._steer_reading()

    def _count(self) -> None:
        """Updates the budget: incomplete heads and bodies, and pipelined data."""
        if self._deaf:
            return
        exchange = self._exchange
        size = self._head_bytes + (exchange.size if exchange is not None and not exchange.taken else 0)
        if size:
            self._server.budget.hold(self, size)
        else:
            self._server.budget.release(self)

    def _begin(self, request: h11.Request) -> None:
        check_head(request, self._limits)
        headers = [(name, value) for name, value in request.headers if name not in (b"upgrade", b"http2-settings")]
        if (authority := authority_in(request.target)) is not None:
            headers = [(b"host", authority), *(header for header in headers if header[0] != b"host")]
        if (hosts := self._server.hosts) is not None:
            check_host(headers, hosts)
        path, _, query = origin_form(request.target).partition(b"?")
        peer, own = self._name("peername"), self._name("sockname")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.1"},
            "http_version": request.http_version.decode(),
            "method": request.method.decode(),
            "scheme": "https" if self._server.encrypted else "http",
            "path": path.decode("latin-1"),
            "raw_path": path,
            "query_string": query,
            "headers": headers,
            "client": peer,
            "server": own,
            "uid": self._uid() if peer is None else None,
        }
        self._chunked = any(name == b"transfer-encoding" for name, _ in headers)
        behind, self._behind_head = self._behind_head, b""
        if self._chunked:
            self._lines.chunks(behind)
        self._since = self._server.now
        self._exchange = Exchange(scope)
        self._server.run(self, self._exchange)

    def _uid(self) -> int | None:
        """The user at the other end of a unix socket, where the system tells it (Linux, `SO_PEERCRED`)."""
        sock = self._transport.get_extra_info("socket") if self._transport is not None else None
        option = getattr(socket, "SO_PEERCRED", None)
        if sock is None or option is None or sock.family != socket.AF_UNIX:
            return None
        try:
            return int(struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i")))[1])
        except OSError:
            return None

    def _name(self, which: str) -> tuple[str, int] | None:
        name = self._transport.get_extra_info(which) if self._transport is not None else None
        return (str(name[0]), int(name[1])) if isinstance(name, tuple) else None

    # -- the application's side ---------------------------------------------------------------------------------------

    async def receive(self, exchange: Exchange) -> dict[str, Any]:
        """ASGI's `receive`. Raises `ClientDisconnected` if the rest of the request won't come."""
        if not exchange.taken and not exchange.parts and self._h11.they_are_waiting_for_100_continue:
            self._send(h11.InformationalResponse(status_code=100, headers=[]))
        while not (exchange.parts or exchange.gone or (exchange.complete and not exchange.taken)):
            exchange.wake.clear()
            await exchange.wake.wait()
        if exchange.gone:
            if not exchange.taken:
                raise ClientDisconnected
            return {"type": "http.disconnect"}
        parts = b"".join(exchange.parts)
        exchange.parts.clear()
        exchange.unread = 0
        exchange.taken = exchange.complete
        self._count()
        self._steer_reading()
        return {"type": "http.request", "body": parts, "more_body": not exchange.complete}

    async def send(self, exchange: Exchange, message: dict[str, Any]) -> None:
        """ASGI's `send`. Drops what is sent after the client disconnected."""
        if exchange.answered or self._exchange is not exchange:
            return
        if message["type"] == "http.response.start":
            exchange.started = True
            headers = [*message["headers"], (b"date", formatdate(usegmt=True).encode())]
            if self._server.stopping:
                headers = [h for h in headers if h[0] != b"connection"] + [(b"connection", b"close")]
            status = message["status"]
            self._send(h11.Response(status_code=status, headers=headers, reason=reason_phrase(status)))
            if self._eof:
                exchange.gone = True
            return
        if body := message.get("body", b""):
            self._send(h11.Data(data=body))
        if not message.get("more_body", False):
            exchange.answered = True
            self._send(h11.EndOfMessage())
        await self._writable.wait()

    def _send(self, event: Any) -> None:
        data = self._h11.send(event)
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def ended(self, exchange: Exchange) -> None:
        """The application is done with this request."""
        if self._exchange is not exchange:
            return
        self._exchange = None
        if self._transport is None:
            return
        if not exchange.answered:
            if not (exchange.gone or self._server.stopping):
                log.warning("the application left a request without an answer: its connection is closed")
            self._transport.abort()  # the response is incomplete
        elif self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE or self._eof:
            self._end()
        elif self._server.stopping:
            self._transport.close()
        else:
            self._next()

    def _next(self) -> None:
        behind = self._h11.trailing_data[0]
        if behind[:1] in (b"\r", b"\n"):
            self._h11 = self._parser()
            if behind := behind.lstrip(b"\r\n"):
                self._h11.receive_data(behind)
        else:
            self._h11.start_next_cycle()
        self._head_bytes = len(behind)  # limits also apply to a head that arrived with the previous request
        self._since = self._server.now
        self._lines = StrictLines()
        self._steer_reading()
        try:
            self._check_lines(behind)
            self._read()
        except Exception as e:
            self._failed(e)

    # -- ends ---------------------------------------------------------------------------------------------------------

    def _failed(self, error: Exception) -> None:
        if isinstance(error, RequestRefused):
            self._refuse(error)
        elif isinstance(error, h11.ProtocolError):  # h11 blames us for some of what clients send
            self._refuse(RequestRefused(error.error_status_hint, f"Not HTTP/1.1: {error}."))
        else:
            log_unexpected(log, "reading a request", error)
            self._deaf = True
            self.abort()

    def _refuse(self, bad: RequestRefused) -> None:
        """Responds instead of the application, unless it has begun, and ignores everything that follows."""
        exchange, self._exchange = self._exchange, None
        started = exchange is not None and exchange.started
        if exchange is not None:
            exchange.gone = True
            exchange.parts.clear()
            exchange.wake.set()
        self._deaf = True
        self._server.budget.release(self)
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if started:
            transport.abort()
            return
        transport.write(problem(bad))
        self._end()

    def _end(self) -> None:
        # an immediate close would reset the connection if more data arrives, and the response would be lost
        transport = self._transport
        self._deaf = True
        self._server.budget.release(self)
        if transport is None:
            return
        self._since = self._server.now
        if self._eof or self._server.stopping or not transport.can_write_eof():
            transport.close()
            return
        self._lingers = True
        if self._paused:
            self._paused = False
            transport.resume_reading()
        try:
            transport.write_eof()
        except (OSError, RuntimeError):  # the client has disconnected
            transport.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def drain(self) -> None:
        """Takes no new request; closes immediately if none is in progress."""
        exchange = self._exchange
        if exchange is None or not exchange.complete:
            self.abort()

    # -- the listener's side ------------------------------------------------------------------------------------------

    def check(self, now: float) -> None:
        """Runs every half second: ends what takes too long."""
        waited, limits, exchange = now - self._since, self._limits, self._exchange
        if self._transport is None:
            return
        if self._lingers:
            if waited > LINGER_S:
                self._transport.abort()
        elif not self._writable.is_set() or self._idle():
            if waited > limits.idle_timeout_s:
                self._transport.abort()
        elif exchange is None:
            if waited > limits.header_timeout_s:
                self._refuse(RequestRefused(408, "The request took too long to arrive."))
        elif not exchange.complete and waited > limits.body_timeout_s:
            self._refuse(RequestRefused(408, "The request took too long to arrive."))

    def idle_since(self) -> tuple[int, float] | None:
        if self._transport is None or self._transport.is_closing():
            return None
        if self._lingers or self._idle():
            return 0, self._since
        if self._exchange is None or not self._exchange.complete or not self._writable.is_set():
            return 1, self._since
        return None

    def begun(self) -> float:
        return self._since

    def hold_back(self, paused: bool) -> None:
        self._held_back = paused
        self._steer_reading()

    def evict(self) -> None:
        if self._exchange is not None and self._exchange.complete:  # only its pipelined data is incomplete
            self._server.budget.release(self)
        else:
            self._refuse(
                RequestRefused(
                    503, "Too many incomplete requests; this one was the slowest.", ((b"retry-after", b"1"),)
                )
            )
