"""One connection of the native client: one exchange at a time, HTTP/1.1 with llhttp's strict parser.

Invariants: whenever `_exchange` is None, the parser is between two messages, and any byte received closes the
connection. `_untouched` is true until the first byte of the response. The outcome is reported after `feed_data` has
returned, so that no exchange starts inside the parser. `Pool.known` maps the bytes of plain responses, which are no
reply and name no time, to their outcome; one that arrives in one read with the same bytes is not parsed again.

Nothing is sent twice here: if the server was closing a kept-alive connection while a request went out on it, the
attempt has failed, and is counted, delayed and limited like any other. `stale` finds most such connections before they
are used.
"""

from __future__ import annotations

import asyncio
import re
import select
from collections.abc import Callable
from typing import Protocol, cast

import httptools

from gateway_core.contract.interfaces import Outcome

from .outcome import Classifier, unanswered

MAX_HEAD_BYTES = 64 * 1024
MAX_ANSWER_BYTES = 4 * 1024 * 1024  # per response, including interim responses, chunk extensions and trailers
_KNOWN_BYTES = 1024
_LARGE_BYTES = 16 * 1024  # a request that may not fit into the socket's buffer
_KEEP_ALIVE = re.compile(rb"timeout=(\d{1,6})")
# macOS has no POLLRDHUP
_ENDED = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


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
            self._pool.end(exchange, unanswered(reason))
