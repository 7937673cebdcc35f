"""One connection of the native server: HTTP/1.1 and 1.0. `reader` reads requests; responses leave in the order of
requests.

The fast path is `data_received`, `on_header` per header, `on_body`, `on_message_complete`, `Endpoint.take`,
`_answered`. It creates no task, future or scope. Invariants:

* Responses leave in the order of the requests. While `_busy` is set, `_answered` (a bound method made once) answers the
  oldest request; each request behind it has a `Pending` in `_queue`.
* A response may come after the client has disconnected: `_transport` is None then, and nothing is written.
* The listener's sweep checks the time limits (`check`); the fast path only copies its coarse clock.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import cast

from gateway_serving import responses
from gateway_serving.peer import peer_of
from gateway_serving.responses import Response, wire

from gateway_core.contract.event import Message
from gateway_core.contract.peer import Peer

from .endpoint import Endpoint
from .listener import HttpListener
from .reader import RequestReader

MAX_PENDING = 16  # unanswered requests per connection before reading pauses
LINGER_S = 2.0  # how long a refused client may keep sending, so that it can read the response


class Pending:
    """A request that arrived while an older one was unanswered."""

    __slots__ = ("close", "connection", "endpoint", "head", "response")

    def __init__(self, connection: Connection, endpoint: Endpoint | None, response: Response | None = None) -> None:
        self.connection = connection
        self.endpoint = endpoint
        self.response = response
        self.head = False

    def left(self) -> bool:
        return self.connection.left()

    def answered(self, error: BaseException | None) -> None:
        if self.response is None:
            self.response = responses.for_error(error)
            try:
                self.connection._flush()
            except Exception as e:
                self.connection._fail(e)


class Connection(RequestReader):
    """One client. See the module's docstring for the invariants."""

    __slots__ = (
        "_busy", "_done", "_endpoint", "_eof", "_head_bytes", "_held_back", "_lingers", "_paused", "_peer", "_queue",
        "_write_blocked", "held",
    )  # fmt: skip

    def __init__(self, listener: HttpListener) -> None:
        super().__init__(listener)
        self._done = self._answered
        self._endpoint: Endpoint | None = None
        self._peer: Peer | None = None
        self._queue: deque[Pending] = deque()
        self._busy = self._paused = self._write_blocked = self._lingers = self._eof = self._held_back = False
        self.held = 0  # bytes in the listener's budget
        self._head_bytes = 0

    # -- transport ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        if not self._listener.admit(self):
            self._refuse(responses.problem(503, "Too many connections.", headers=((b"retry-after", b"1"),)))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._deaf = True
        self._listener.lost(self)

    def eof_received(self) -> bool:
        # a client may close its side and still read: pending responses are written first
        self._deaf = self._eof = True
        if self._busy or self._queue:
            self._last = self._slow = True
            return self._listener.tls is None
        return False

    def left(self) -> bool:
        """Whether the client has disconnected, or has closed its side: then it may still read, but most have ended.
        See `gateway_core.contract.departure`."""
        return self._transport is None or self._eof

    def pause_writing(self) -> None:
        self._write_blocked = True
        self._since = self._listener.now
        self._steer_reading()

    def resume_writing(self) -> None:
        self._write_blocked = False
        self._steer_reading()

    def _steer_reading(self) -> None:
        transport = self._transport
        pause = self._write_blocked or self._held_back or len(self._queue) >= MAX_PENDING
        if transport is None or transport.is_closing() or pause == self._paused:
            return
        self._paused = pause
        if pause:
            transport.pause_reading()
        else:
            transport.resume_reading()

    # -- answers --------------------------------------------------------------------------------------------------

    def _take(self, endpoint: Endpoint, message: Message, coded: bool) -> None:
        if self.held:
            self._release()
        take = endpoint.take_coded if coded else endpoint.take
        if endpoint.asks_peer:
            message.peer = self._peer = self._peer or peer_of(self._transport)
        if self._busy or self._queue:
            pending = Pending(self, endpoint)
            self._push(pending)
            take(message, pending.answered)
        else:
            self._busy = True
            self._endpoint = endpoint
            take(message, self._done)

    def _answered(self, error: BaseException | None) -> None:
        if not self._busy:
            return
        self._busy = False
        listener = self._listener
        self._since = listener.now
        try:
            if error is None and not self._slow and self._transport is not None:
                self._transport.write(listener.accepted)
                if self._queue:
                    self._flush()
            else:
                self._write(responses.for_error(error))
                self._flush()
        except Exception as e:
            self._fail(e)

    def _reply(self, response: Response, head: bool = False) -> None:
        if self.held:
            self._release()
        if self._busy or self._queue:
            pending = Pending(self, None, response)
            pending.head = head
            self._push(pending)
        else:
            self._write(response, head)

    def _refuse(self, response: Response) -> None:
        """Responds, and ignores everything that follows on the connection."""
        head = self._head_done and self._parser.get_method() == b"HEAD"
        self._deaf = self._last = self._slow = True
        self._reply(response, head)

    def _fail(self, error: Exception) -> None:
        """Ends the connection after an unexpected error."""
        responses.log_once(error)
        self._deaf = True
        self.abort()

    def _continue(self) -> None:
        if self._busy or self._queue:
            self._owes_continue = self._slow = True
        elif self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _push(self, pending: Pending) -> None:
        self._queue.append(pending)
        if len(self._queue) >= MAX_PENDING:
            self._steer_reading()

    def _flush(self) -> None:
        """Writes the responses that are next in order."""
        if self._busy:
            return
        queue = self._queue
        while queue and (response := queue[0].response) is not None:
            head = queue.popleft().head
            self._write(response, head)
        if self._paused:
            self._steer_reading()
        if self._owes_continue and not queue and self._transport is not None and not self._deaf:
            self._owes_continue = False
            self._continue()

    def _write(self, response: Response, head: bool = False) -> None:
        transport = self._transport
        if transport is None or transport.is_closing() or self._lingers:
            return
        final = self._last and not self._queue and (self._between or self._deaf)
        self._since = self._listener.now
        transport.write(wire(response, self._listener.date, close=final, head=head))
        if final:
            self._end(transport)

    def _end(self, transport: asyncio.Transport) -> None:
        # an immediate close would reset the connection if more data arrives, and the response would be lost
        self._deaf = True
        if not self._eof and not self._listener.stopping and transport.can_write_eof():
            self._lingers = True
            try:
                transport.write_eof()
            except (OSError, RuntimeError):  # the client has disconnected
                transport.abort()
        else:
            transport.close()

    # -- the budget -------------------------------------------------------------------------------------------------

    def _incomplete(self) -> None:
        super()._incomplete()
        if self._deaf:
            return
        if not self._head_done:
            size = max(self._fed, self._chunk)
        else:
            if not self._head_bytes:
                self._head_bytes = len(self._target) + sum([len(n) + len(v) + 64 for n, v in self._headers])
            size = self._head_bytes + len(self._body)
        self._listener.budget.hold(self, size)

    def _release(self) -> None:
        self._head_bytes = 0
        self._listener.budget.release(self)

    def begun(self) -> float:
        return self._since

    def hold_back(self, paused: bool) -> None:
        self._held_back = paused
        self._steer_reading()

    def evict(self) -> None:
        headers = ((b"retry-after", b"1"),)
        self._refuse(responses.problem(503, "Too many incomplete requests; this one was the slowest.", headers=headers))
        self._body, self._headers = b"", []  # frees the memory before the connection has ended

    # -- the listener's side --------------------------------------------------------------------------------------

    def idle_since(self) -> tuple[int, float] | None:
        """(0, time) if the connection is idle since then; (1, time) if a request is incomplete or a response unread
        since then; None while a request is being answered."""
        if self._transport is None or self._transport.is_closing():
            return None
        if self._busy or self._queue:
            return (1, self._since) if self._write_blocked else None
        return (0 if self._between or self._deaf else 1), self._since

    def serves(self, endpoint: Endpoint | None) -> bool:
        """Whether a request (of this endpoint; None: any) is still unanswered."""
        mine = [p.endpoint for p in self._queue if p.response is None or self._transport is not None]
        if self._busy:
            mine.append(self._endpoint)
        return bool(mine) if endpoint is None else endpoint in mine

    def drain(self) -> None:
        """Takes no more requests; closes once those it has are answered."""
        self._deaf = self._last = self._slow = True
        if not self._busy and not self._queue and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        self._slow = True
        if self._transport is not None:
            self._transport.abort()

    def check(self, now: float) -> None:
        """Runs every half second: ends what takes too long."""
        transport, waited, limits = self._transport, now - self._since, self._limits
        if transport is None:
            return
        if self._lingers:
            if waited > LINGER_S:
                transport.abort()
        elif self._write_blocked:
            if waited > limits.idle_timeout_s:
                self._slow = True
                transport.abort()
        elif self._busy or self._queue:
            return
        elif self._between or self._deaf:
            if waited > limits.idle_timeout_s:
                transport.close()
        elif waited > (limits.body_timeout_s if self._head_done else limits.header_timeout_s):
            self._refuse(responses.problem(408, "The request took too long to arrive."))
