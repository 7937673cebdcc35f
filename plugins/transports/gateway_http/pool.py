"""The native client's connections to one address, and the queue of requests that wait for one: HTTP/1.1 with llhttp's
strict parser, one exchange at a time on a connection.

Invariants of a connection: whenever `_exchange` is None, the parser is between two messages, and any byte received
closes the connection. `_untouched` is true until the first byte of the response. The outcome is reported after
`feed_data` has returned, so that no exchange starts inside the parser. `Pool.known` maps the bytes of plain responses,
which are no reply and name no time, to their outcome; one that arrives in one read with the same bytes is not parsed
again.

Nothing is sent twice here: if the server was closing a kept-alive connection while a request went out on it, the
attempt has failed, and is counted, delayed and limited like any other. `stale` finds most such connections before they
are used. Connections die without a word when a firewall forgets them. So one that gives no answer in time takes the
idle ones with it, and the next attempt has a new one. None is used longer than `MAX_AGE_S`: names get other addresses.

Time limits: a limit below `FINE_S` has its own timer; the others are checked by a sweep, which ends a request up to one
period early and never late. The sweep runs only while requests are in flight.
"""

from __future__ import annotations

import asyncio
import re
import select
import ssl
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Protocol, cast

import anyio
import httptools
from gateway_serving import descriptors
from gateway_serving.descriptors import Candidate

from gateway_core.contract.interfaces import Outcome
from gateway_core.contract.outcome import short
from gateway_core.contract.shortage import is_shortage

from .local_ports import no_port_left
from .outcome import Classifier, unanswered

MAX_HEAD_BYTES = 64 * 1024
MAX_ANSWER_BYTES = 4 * 1024 * 1024  # per response, including interim responses, chunk extensions and trailers
_KNOWN_BYTES = 1024
_LARGE_BYTES = 16 * 1024  # a request that may not fit into the socket's buffer
_KEEP_ALIVE = re.compile(rb"timeout=(\d{1,6})")
# macOS has no POLLRDHUP
_ENDED = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR
SWEEP_S = 0.1
FINE_S = 2.0
IDLE_S = 60.0
MAX_AGE_S = 300.0
FRESH_S = 0.005  # a connection that was idle for less is used without checking its socket
_KNOWN = 64


class Exchange:
    """One request and the callback for its outcome. `deadline` is in the loop's time."""

    __slots__ = ("data", "deadline", "done", "timeout_s", "timer")

    def __init__(self, data: bytes, deadline: float, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        self.data = data
        self.deadline = deadline
        self.timeout_s = timeout_s
        self.done = done
        self.timer: asyncio.TimerHandle | None = None


class ConnectionOwner(Protocol):
    """What a connection needs from its pool."""

    classifier: Classifier
    known: dict[bytes, Outcome]
    """Outcomes by the bytes of a response."""

    def settled(self, connection: ClientConnection, exchange: Exchange, outcome: Outcome) -> None: ...

    def end(self, exchange: Exchange, outcome: Outcome) -> None: ...

    def remember(self, data: bytes, outcome: Outcome) -> None: ...

    def keep_idle(self, seconds: int) -> None: ...

    def forget(self, connection: ClientConnection) -> None: ...

    def distrust(self) -> None:
        """A kept connection gave no answer: the other idle ones may be as dead."""


class ClientConnection(asyncio.Protocol):
    """See the module's docstring."""

    __slots__ = (
        "_body", "_bytes", "_complete", "_exchange", "_framed", "_head_bytes", "_head_done", "_headers", "_interim",
        "_keep", "_limit", "_parser", "_pool", "_reused", "_size", "_status", "_transport", "_untouched", "idle_since",
        "opened_at",
    )  # fmt: skip

    def __init__(self, pool: ConnectionOwner) -> None:
        self._pool = pool
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._exchange: Exchange | None = None
        self.idle_since = self.opened_at = 0.0
        self._bytes = 0
        self._reset()

    def _reset(self) -> None:
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._size = self._status = self._limit = self._head_bytes = 0
        self._complete = self._interim = self._head_done = self._framed = False
        self._keep = self._untouched = True

    @property
    def exchange(self) -> Exchange | None:
        return self._exchange

    @property
    def reached(self) -> bool:
        """Whether the server surely had the connection when the request was written. A kept one may be dead since."""
        return not self._reused or not self._untouched

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def stale(self) -> bool:
        """Whether the server has sent something on this idle connection that the loop has not read yet, usually its
        end."""
        if self._transport is None:
            return True
        asked = _ENDED
        if self._transport.get_extra_info("sslcontext") is None:  # TLS may send session tickets at any time
            asked |= select.POLLIN
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), asked)
        return bool(poll.poll(0))

    def start(self, exchange: Exchange, reused: bool) -> None:
        """Sends a request. The connection must be usable and idle."""
        assert self._transport is not None
        self._exchange = exchange
        self._reused = reused
        self._transport.write(exchange.data)

    def retire(self) -> None:
        """Closes the connection after the response it waits for."""
        self._keep = self._untouched = False

    def abort(self) -> Exchange | None:
        """Closes immediately and returns the exchange that was in flight."""
        exchange, self._exchange = self._exchange, None
        if self._transport is not None:
            self._transport.abort()
        return exchange

    # -- transport ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._pool.forget(self)
        exchange = self._exchange
        if exchange is None:
            return
        if self._head_done and not self._framed and not self._interim and exc is None:
            self._keep = False  # the end of the connection is the end of the body (RFC 9112 section 6.3)
            self._finish(exchange)
        elif self._untouched and self._reused:
            self._pool.distrust()
            self._fail("the kept-alive connection was closed before a response arrived")
        else:
            reset = isinstance(exc, ConnectionResetError)
            self._fail("connection reset" if reset else "connection closed before the response was complete")

    def data_received(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None:
            self.abort()
            return
        whole = self._untouched
        if whole:
            known = self._pool.known.get(data)
            if known is not None:
                self._exchange = None
                self._pool.settled(self, exchange, known)
                return
            self._untouched = False
        self._bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._keep = False
        except httptools.HttpParserError as e:
            self._keep = False
            if not self._complete:
                self._fail(f"malformed response: {e}")
                return
        if self._complete:
            self._finish(exchange, data if whole and len(data) <= _KNOWN_BYTES else b"")
            return
        if not self._head_done:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._fail("malformed response: the head is too long")
                return
        if self._bytes > MAX_ANSWER_BYTES:
            if self._head_done and not self._interim:
                self._keep = False  # the status is enough
                self._finish(exchange)
            else:
                self._fail(f"malformed response: {MAX_ANSWER_BYTES} bytes arrived without a final response")

    # -- parser callbacks -----------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._complete:
            self._keep = False  # more data than the response: none of it is trusted

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head_done:
            return  # trailers
        name = name.lower()
        self._headers.append((name, value.rstrip(b" \t")))
        if name == b"content-length" or name == b"transfer-encoding":
            self._framed = True

    def on_headers_complete(self) -> None:
        if self._complete:
            return
        self._head_done = True
        self._status = self._parser.get_status_code()
        self._interim = 100 <= self._status < 200 and self._status != 101
        if self._status == 101:  # final here: the request asked for no other protocol
            self._complete = True
            self._keep = False
        self._limit = self._pool.classifier.body_limit(self._status)

    def on_body(self, part: bytes) -> None:
        if self._size <= self._limit and not self._complete:
            self._body.append(part)
        self._size += len(part)

    def on_message_complete(self) -> None:
        if self._complete:
            return
        if self._interim:
            self._reset()
            self._untouched = False
            self._head_bytes = 1  # a response after an interim one is never a known one
            return
        self._complete = True
        if not self._parser.should_keep_alive():
            self._keep = False

    # -- the end of an exchange -----------------------------------------------------------------------------------

    def _finish(self, exchange: Exchange, data: bytes = b"") -> None:
        limit = self._limit
        body = b"".join(self._body)[:limit]
        whole = self._complete or not self._framed
        outcome = self._pool.classifier.classify(self._status, self._headers, body, self._size > limit or not whole)
        if (
            len(exchange.data) > _LARGE_BYTES
            and self._transport is not None
            and self._transport.get_write_buffer_size()
        ):
            self._keep = False  # the response came before the whole request was read: the connection can't be reused
        for name, value in self._headers:
            if name == b"keep-alive" and (found := _KEEP_ALIVE.search(value)):
                self._pool.keep_idle(int(found[1]))
        simple = outcome.reply is None and outcome.retry_after_s is None and self._keep and not self._head_bytes
        keep = self._keep
        self._exchange = None
        self._bytes = 0
        self._reset()
        if data and simple:
            self._pool.remember(data, outcome)
        if not keep:
            self.abort()
        self._pool.settled(self, exchange, outcome)

    def _fail(self, reason: str) -> None:
        exchange = self.abort()
        if exchange is not None:
            self._pool.end(exchange, unanswered(reason, self.reached))


_NO_CONNECTIONS: set[ClientConnection] = set()
_NO_EXCHANGES: deque[Exchange] = deque()
"""Those of a pool that has had none: each of its own takes more memory than all the rest of an idle trigger's pool."""


class Starting(Protocol):
    """What runs tasks, such as a `TaskGroup`."""

    def start_soon(self, func: Callable[[], Coroutine[Any, Any, Any]], /) -> object:
        """Runs `func` as a task."""


class Pool:
    """At most `limit` connections; all of them may be idle."""

    __slots__ = (
        "_connect_timeout_s", "_connections", "_host", "_idle", "_idler", "_keep_s", "_limit", "_loop", "_now",
        "_opening", "_port", "_short", "_stopped", "_sweeper", "_tasks", "_tls", "_waiting", "classifier", "known",
    )  # fmt: skip

    def __init__(
        self,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        limit: int,
        connect_timeout_s: float,
        classifier: Classifier,
    ) -> None:
        self._host = host
        self._port = port
        self._tls = tls
        self._limit = limit
        self._connect_timeout_s = connect_timeout_s
        self.classifier = classifier
        self.known: dict[bytes, Outcome] = {}
        self._connections: set[ClientConnection] = _NO_CONNECTIONS
        self._idle: list[ClientConnection] = []
        self._waiting: deque[Exchange] = _NO_EXCHANGES
        self._opening = 0
        self._sweeper: asyncio.TimerHandle | None = None
        self._idler: asyncio.TimerHandle | None = None
        self._stopped = True
        self._keep_s = IDLE_S
        self._short: Outcome | None = None  # why no more connections could be opened, if this machine is the reason

    def start(self, tasks: Starting) -> None:
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._stopped = False

    def stop(self) -> None:
        """Closes everything. Requests in flight end without a response."""
        self._stopped = True
        descriptors.take_back(self)
        for timer in (self._sweeper, self._idler):
            if timer is not None:
                timer.cancel()
        ended = [c.abort() for c in tuple(self._connections)]
        ended += self._waiting
        self._waiting.clear()
        self._idle.clear()
        for exchange in ended:
            if exchange is not None:
                self.end(exchange, unanswered("the gateway is stopping"))

    # -- exchanges ------------------------------------------------------------------------------------------------

    def send(self, exchange: Exchange) -> None:
        if self._stopped:
            self._loop.call_soon(self.end, exchange, unanswered("the gateway is stopping"))
            return
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)
        if exchange.timeout_s < FINE_S:
            exchange.timer = self._loop.call_at(exchange.deadline, self._expire, exchange)
        idle = self._idle
        while idle:
            connection = idle.pop()
            if connection.usable:
                rested = exchange.deadline - exchange.timeout_s - connection.idle_since
                if rested < FRESH_S or (rested < self._keep_s and not connection.stale()):
                    connection.start(exchange, True)
                    return
                connection.abort()
        if self._waiting is _NO_EXCHANGES:
            self._waiting = deque()
        self._waiting.append(exchange)
        self._open()

    def settled(self, connection: ClientConnection, exchange: Exchange, outcome: Outcome) -> None:
        """An exchange has ended; the connection takes the next one or becomes idle."""
        if connection.usable:
            self._serve(connection, True)
        elif self._waiting:
            self._open()
        self.end(exchange, outcome)

    def end(self, exchange: Exchange, outcome: Outcome) -> None:
        if exchange.timer is not None:
            exchange.timer.cancel()
        exchange.done(outcome)

    def remember(self, data: bytes, outcome: Outcome) -> None:
        if len(self.known) >= _KNOWN:
            self.known.clear()
        self.known[data] = outcome

    def keep_idle(self, seconds: int) -> None:
        """The server closes connections that are idle for `seconds`: shortly before that they are no longer used."""
        self._keep_s = min(IDLE_S, seconds * 0.8)

    # -- connections ----------------------------------------------------------------------------------------------

    def distrust(self) -> None:
        """Closes the idle connections: one like them gave no answer."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.abort()

    def candidates(self) -> Iterator[Candidate]:
        """See `descriptors.Lender`."""
        for connection in self._idle:
            yield Candidate(0, connection.idle_since, partial(self._close, connection))

    def _close(self, connection: ClientConnection) -> None:
        if connection in self._idle:
            self._idle.remove(connection)
            connection.abort()

    def forget(self, connection: ClientConnection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            descriptors.take_back(self)
        if connection in self._idle:
            self._idle.remove(connection)
        if self._waiting:
            self._open()

    def _serve(self, connection: ClientConnection, reused: bool) -> None:
        if self._waiting:
            connection.start(self._waiting.popleft(), reused)
        else:
            connection.idle_since = self._now()
            self._idle.append(connection)

    def _open(self) -> None:
        """Opens one more connection if more requests wait than connections are being opened."""
        room = len(self._connections) + self._opening < self._limit
        if room and self._opening < len(self._waiting) and not self._stopped:
            self._opening += 1
            self._tasks.start_soon(self._connect)

    async def _connect(self) -> None:
        failure: Outcome | None = None
        connection: ClientConnection | None = None
        name = self._host if self._tls else None
        try:
            with anyio.fail_after(self._connect_timeout_s):
                _, connection = await self._loop.create_connection(
                    lambda: ClientConnection(self), self._host, self._port, ssl=self._tls, server_hostname=name
                )
        except Exception as e:
            failure = await self._failure(e)
        finally:
            self._opening -= 1
            if self._stopped and connection is not None:
                connection.abort()
        if self._stopped:
            return
        self._short = failure if failure is not None and failure.local else None
        if failure is not None:
            if failure.local and self._connections:
                return  # the existing connections serve the waiting requests
            if self._waiting:
                self.end(self._waiting.popleft(), failure)
        elif connection is not None and connection.usable:
            if self._connections is _NO_CONNECTIONS:
                self._connections = set()
            if not self._connections:
                descriptors.lend(self)
            if self._idler is None:
                self._idler = self._loop.call_later(IDLE_S / 2, self._close_idle)
            self._connections.add(connection)
            connection.opened_at = self._now()
            self._serve(connection, False)
        self._open()

    async def _failure(self, error: Exception) -> Outcome:
        """The outcome of a failed connection."""
        if isinstance(error, TimeoutError):
            return unanswered(f"no connection within {self._connect_timeout_s:g} s")
        if isinstance(error, ssl.SSLError):
            return unanswered(f"TLS failed: {getattr(error, 'verify_message', '') or error.reason or error}")
        if is_shortage(error):
            return short(error)
        if await no_port_left(error, self._host, self._port):
            return short("all local ports for connections to the address are in use")
        return unanswered(_text(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}")

    # -- time -----------------------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        now = self._now()
        soon, too_old = now + SWEEP_S, now - MAX_AGE_S
        busy = False
        for connection in tuple(self._connections):
            exchange = connection.exchange
            if exchange is not None:
                busy = True
                if connection.opened_at < too_old:
                    connection.retire()
                if exchange.deadline < soon and exchange.timer is None:
                    self._expire(exchange)
        for exchange in [e for e in self._waiting if e.deadline < soon and e.timer is None]:
            self._expire(exchange)
        if busy or self._waiting:
            self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)
        else:
            self._sweeper = None

    def _expire(self, exchange: Exchange) -> None:
        if exchange in self._waiting:
            self._waiting.remove(exchange)
            if self._short is not None:
                self.end(exchange, self._short)
                return
        reached = False
        for connection in tuple(self._connections):
            if connection.exchange is exchange:
                reached = connection.reached
                connection.abort()
                self.distrust()
        self.end(exchange, unanswered(f"no response within {exchange.timeout_s:g} s", reached))

    def _close_idle(self) -> None:
        self._idler = None
        now = self._now()
        for connection in self._idle[:]:
            if now - connection.idle_since > IDLE_S or now - connection.opened_at > MAX_AGE_S:
                self._idle.remove(connection)
                connection.abort()
        if self._connections and not self._stopped:
            self._idler = self._loop.call_later(IDLE_S / 2, self._close_idle)


def _text(error: OSError) -> str:
    """One line, without the address: "connection refused"."""
    text = error.strerror or str(error)
    text = text.partition("[Errno")[0] or str(error)
    lowered = text.lower()
    for known in ("connection refused", "connection reset", "network is unreachable", "no route to host"):
        if known in str(error).lower():
            return known
    return lowered.strip()
