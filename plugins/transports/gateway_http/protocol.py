"""One connection of the native server: HTTP/1.1 and 1.0. `RequestReader` is its reading half: bytes in, requests out,
with llhttp's strict parser. `Connection` answers; responses leave in the order of requests.

The fast path is `data_received`, `on_header` per header, `on_body`, `on_message_complete`, `Endpoint.take`,
`_answered`. It creates no task, future or scope.

Reading: the state of a request is in the attributes that `_reset` sets, and only there. `_between` is true until the
first byte of the next request. Once `_deaf` is set, nothing more is interpreted: a malformed request ends the
connection, whatever follows. Trailers are dropped. Counters limit what may arrive before the parser calls back: `_fed`
counts an incomplete head, `_stray` the chunk extensions and trailers within a body. Every read terminates: each byte is
fed once, and if the parser stops at an upgrade request, each iteration in `_stopped` consumes at least one byte. No
exception leaves `data_received`.

Answering:

* Responses leave in the order of the requests. While `_busy` is set, `_answered` (a bound method made once) answers the
  oldest request; each request behind it has a `Pending` in `_queue`.
* A response may come after the client has disconnected: `_transport` is None then, and nothing is written.
* The listener's sweep checks the time limits (`check`); the fast path only copies its coarse clock.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from typing import cast

import httptools
from gateway_serving import content_coding, responses
from gateway_serving.content_coding import UnknownCoding
from gateway_serving.hosts import authority_in
from gateway_serving.peer import peer_of
from gateway_serving.responses import Response, wire

from gateway_core.contract.event import Message
from gateway_core.contract.peer import Peer

from .endpoint import Endpoint, Routes, decide, method_refused
from .listener import HttpListener

MAX_PENDING = 16  # unanswered requests per connection before reading pauses
LINGER_S = 2.0  # how long a refused client may keep sending, so that it can read the response
_SPECIAL = frozenset((b"host", b"connection", b"upgrade", b"expect", b"transfer-encoding", b"content-encoding"))
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_START_LINE = re.compile(rb"(%s) ([!-~]+) HTTP/1\.[01]\r?" % _TOKEN)
_BEGUN = re.compile(rb"%s(?: [!-~]*(?: [HTP/1.0]*\r?)?)?" % _TOKEN)
_OTHER_PROTOCOL = "Invalid method for HTTP"  # the beginning of llhttp's error for RTSP methods
_RTSP = b" RTSP/"
_HOST = re.compile(rb"(?:\[[0-9A-Za-z:.%~_-]+\]|(?:[0-9A-Za-z._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?")
_names: dict[bytes, bytes] = {}  # header names as clients write them -> lower case; limited in size


class Rejected(Exception):
    """Raised in a parser callback: the request is answered with `response`, and the connection ends."""

    def __init__(self, response: Response) -> None:
        self.response = response


class Finished(Exception):
    """Raised in a parser callback: the last request of the connection has been read, and nothing after it counts."""


class RequestReader(asyncio.Protocol):
    """Calls `_take` for each event request, `_reply` if the response is known, `_refuse` if the connection ends."""

    __slots__ = (
        "_between", "_body", "_chunk", "_deaf", "_fed", "_head_done", "_headers", "_host", "_last", "_limits", "_line",
        "_listener", "_mixed", "_owes_continue", "_parser", "_routes", "_since", "_slow", "_special", "_stray",
        "_target", "_transport", "_waits_body",
    )  # fmt: skip

    def __init__(self, listener: HttpListener) -> None:
        self._listener = listener
        self._limits = listener.limits
        self._routes = listener.routes
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._deaf = False
        self._last = False  # no request follows the one being read
        self._slow = False  # the next response needs more than the prepared bytes
        self._mixed = False  # the current read also held a complete request
        self._since = listener.now
        self._chunk = 0
        # the end of what came in earlier reads, until a header of the first request is complete
        self._line: bytes | None = b""
        self._reset()

    def _reset(self) -> None:
        self._between = True  # no byte of the next request has arrived
        self._headers: list[tuple[bytes, bytes]] = []
        self._target = b""
        self._body: bytes | bytearray = b""
        self._special: dict[bytes, bytes] | None = None
        self._head_done = self._waits_body = False
        self._owes_continue = False
        self._host = self._fed = self._stray = 0

    def _take(self, endpoint: Endpoint, message: Message, coded: bool) -> None:
        raise NotImplementedError

    def _reply(self, response: Response, head: bool = False) -> None:
        raise NotImplementedError

    def _refuse(self, response: Response) -> None:
        raise NotImplementedError

    def _continue(self) -> None:
        raise NotImplementedError

    def _fail(self, error: Exception) -> None:
        raise NotImplementedError

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        self._chunk = len(data)
        self._mixed = False
        stop = None
        try:
            if self._line is None:
                self._parser.feed_data(data)
            else:
                self._feed_first(data)
            if not self._between and not self._deaf:
                self._incomplete()
        except Exception as e:
            stop = e
        if stop is not None:  # not within `except`: the parser's next error would lose its cause
            self._stopped(data, stop)

    def _feed_first(self, data: bytes) -> None:
        """Feeds data until the first head of the connection is complete. The parser takes RTSP/1.0 for HTTP/1.0, so it
        is fed up to each ` RTSP/`, where its state says whether that is within the request line."""
        seen, fed = (self._line or b"") + data, len(self._line or b"")
        end = fed
        while not (self._head_done or self._mixed):
            found = seen.find(_RTSP, max(0, end - len(_RTSP) + 1))
            if found < 0:
                break
            end = found + len(_RTSP)
            self._feed_part(seen, fed, end)
            fed = end
            if self._target and not self._head_done and not self._headers:
                line = b"%s %s RTSP/" % (self._parser.get_method(), self._target)
                start = end - len(line)
                if seen[max(0, start) : end] == line and (start == 0 or seen[start - 1 : start] == b"\n"):
                    raise Rejected(responses.problem(400, "This server speaks HTTP/1.1, not RTSP."))
        self._feed_part(seen, fed, len(seen))
        done = self._head_done or self._mixed or self._headers
        self._line = None if done else seen[-len(self._target) - 64 :]

    def _feed_part(self, seen: bytes, start: int, end: int) -> None:
        try:
            self._parser.feed_data(seen[start:end])
        except httptools.HttpParserUpgrade as e:  # its offset, counted in the data of this read
            self._line = None
            raise httptools.HttpParserUpgrade(e.args[0] + self._chunk - (len(seen) - start)) from None

    def _stopped(self, data: bytes, stop: Exception | None) -> None:
        """Handles what made the parser stop within `data`; after an upgrade request it continues behind the head."""
        rest = memoryview(data)
        try:
            while isinstance(stop, httptools.HttpParserUpgrade):
                rest = rest[max(1, stop.args[0]) :]
                stop = self._without_upgrade(rest)
            if stop is not None:
                self._malformed(data, stop)
            if not self._between and not self._deaf:
                self._incomplete()
        except Exception as e:
            self._fail(e)

    # -- parser callbacks -----------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._between = False

    def on_url(self, part: bytes) -> None:
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head_done:
            return  # a trailer of a chunked body: never part of the event (RFC 9110 section 6.5.1)
        if value and value[-1] < 33:
            value = value.rstrip(b" \t")  # trailing white space is not part of the value (RFC 9112 section 5.1)
        self._headers.append((_names.get(name) or self._new_name(name, value), value))

    def _new_name(self, name: bytes, value: bytes) -> bytes:
        lower = name.lower()
        if lower == b"host":
            self._host += 1
            # the name in a target in absolute form counts in place of this one (RFC 9112 section 3.2.2)
            if value not in self._listener.known_hosts and authority_in(self._target) is None:
                _check_host(value, self._listener)
        elif lower in _SPECIAL:
            if self._special is None:
                self._special = {}
            old = self._special.get(lower)
            self._special[lower] = value if old is None else old + b"," + value
        elif len(lower) <= 64:
            if len(_names) >= 1000:
                _names.clear()
            _names[name] = lower
        return lower

    def on_headers_complete(self) -> None:
        self._head_done = True
        limits = self._limits
        headers = self._headers
        if len(headers) > limits.max_headers:
            raise Rejected(responses.problem(431, f"More than {limits.max_headers} header fields."))
        if self._fed or self._chunk > limits.max_header_bytes:
            size = len(self._target) + sum([len(n) + len(v) + 4 for n, v in headers])
            if size > limits.max_header_bytes:
                raise Rejected(responses.problem(431, f"The head is longer than {limits.max_header_bytes} bytes."))
        if self._special is not None or self._host != 1 or not self._parser.should_keep_alive():
            self._unusual_head()

    def on_body(self, part: bytes) -> None:
        self._stray = -self._chunk  # `_incomplete` is about to add this read, which may be longer than the limit
        if self._body:
            if type(self._body) is bytes:
                self._body = bytearray(self._body)
            self._body += part
        else:
            self._body = part
        if len(self._body) > self._limits.max_body_bytes:
            raise Rejected(responses.too_large(self._limits.max_body_bytes))

    def on_message_complete(self) -> None:
        coded = False
        if self._special is not None:
            if self._parser.should_upgrade():
                return  # feed_data raises HttpParserUpgrade next, with the offset
            coded = b"content-encoding" in self._special
        target = self._target
        headers = self._headers
        endpoint = self._routes.get(target)
        method = self._parser.get_method()
        if endpoint is None or method != b"POST":
            if (host := authority_in(target)) is not None and (detail := self._listener.hosts.refusal(host)):
                raise Rejected(responses.problem(421, detail))
            self._answer_other(method, decide(self._routes, method, target, headers), coded)
            return
        body = self._body
        message = Message(headers, body if type(body) is bytes else bytes(body), None, "POST", endpoint.path)
        last = self._last
        self._reset()
        self._mixed = True
        self._take(endpoint, message, coded)
        if last:
            raise Finished

    def _answer_other(self, method: bytes, decision: Endpoint | Response, coded: bool) -> None:
        """Any request other than a plain POST to an endpoint's path."""
        if method == b"CONNECT":
            raise Rejected(responses.not_allowed(b"CONNECT"))  # what follows would be a tunnel
        target, headers, body, last = self._target, self._headers, bytes(self._body), self._last
        self._reset()
        self._mixed = True
        if isinstance(decision, Endpoint):
            self._take(decision, Message(headers, body, None, "POST", target.decode("latin-1")), coded)
        else:
            self._reply(decision, head=method == b"HEAD")
        if last:
            raise Finished

    # -- special cases -----------------------------------------------------------------------------------------

    def _unusual_head(self) -> None:
        """Checks a head that is not HTTP/1.1, has no single Host, or has other headers that control the protocol."""
        if self._parser.should_upgrade():
            if self._parser.get_method() == b"CONNECT":
                raise Rejected(responses.not_allowed(b"CONNECT"))
            return  # the head is read again without the upgrade
        version = self._parser.get_http_version()
        special = self._special or {}
        if version not in ("1.1", "1.0"):
            raise Rejected(responses.problem(400, "This server speaks HTTP/1.1."))
        if self._host > 1 or (self._host == 0 and version == "1.1"):
            raise Rejected(responses.problem(400, "Send exactly one Host header.", rule="RFC 9112 section 3.2"))
        coding = special.get(b"transfer-encoding")
        if coding is not None and (version == "1.0" or coding.lower() != b"chunked"):
            raise Rejected(
                responses.problem(400, "The only supported transfer coding is chunked.", rule="RFC 9112 section 6.1")
            )
        if version == "1.0" or not self._parser.should_keep_alive():
            self._last = self._slow = True
        expect = special.get(b"expect")
        if expect is not None and version == "1.1":
            self._expect(expect)

    def _expect(self, expect: bytes) -> None:
        """`Expect: 100-continue` (RFC 9110 section 10.1.1): a final response comes before the body is sent."""
        if expect.lower() != b"100-continue":
            raise Rejected(responses.problem(417, "The only supported expectation is 100-continue."))
        decision = decide(self._routes, self._parser.get_method(), self._target, self._headers)
        if not isinstance(decision, Endpoint):
            raise Rejected(decision)
        self._check_length()
        try:
            content_coding.coding_of(self._headers)
        except UnknownCoding as e:
            raise Rejected(responses.for_error(e)) from None
        self._continue()

    def _check_length(self) -> None:
        limit = self._limits.max_body_bytes
        for name, value in self._headers:
            if name == b"content-length" and int(value) > limit:  # llhttp let digits through only
                raise Rejected(responses.too_large(limit))

    def _without_upgrade(self, rest: memoryview) -> Exception | None:
        """Ignores an upgrade request (RFC 9110 section 7.8). The parser stops after its head, so a new parser gets the
        same head without the upgrade, then the data behind it. Returns what stopped that parser, if anything."""
        lines = [b"%s %s HTTP/%s" % (self._parser.get_method(), self._target, self._parser.get_http_version().encode())]
        for name, value in self._headers:
            if name == b"connection":
                options = [option for option in value.split(b",") if option.strip().lower() != b"upgrade"]
                value = b",".join(options)
            if name != b"upgrade":
                lines.append(b"%s: %s" % (name, value))
        self._parser = httptools.HttpRequestParser(self)
        self._reset()
        try:
            self._parser.feed_data(b"\r\n".join(lines) + b"\r\n\r\n")
        except httptools.HttpParserUpgrade:
            return Rejected(responses.problem(400, "The protocol can't be upgraded.", rule="RFC 9110 section 7.8"))
        except Exception as e:
            return e
        try:
            self._parser.feed_data(rest)
        except Exception as e:
            return e
        return None

    def _incomplete(self) -> None:
        """The read ended within a request: starts its clock and counts what has arrived."""
        limits = self._limits
        try:
            if not self._head_done:
                if not self._fed:
                    self._since = self._listener.now
                self._fed += 1 if self._mixed else self._chunk  # a read that also held older requests does not count
                if self._fed > limits.max_header_bytes:
                    raise Rejected(responses.problem(431, f"The head is longer than {limits.max_header_bytes} bytes."))
            elif not self._waits_body:
                self._waits_body = True
                self._stray = 0
                self._since = self._listener.now
                self._check_length()
            else:
                self._stray += self._chunk  # chunk extensions and trailers; on_body compensates for its own read
                if self._stray > limits.max_header_bytes:
                    raise Rejected(responses.problem(431, "The chunk extensions or trailers are too long."))
        except Rejected as e:
            self._refuse(e.response)

    def _malformed(self, data: bytes, error: Exception) -> None:
        cause = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else error
        if isinstance(cause, Rejected):
            self._refuse(cause.response)
        elif isinstance(cause, Finished) or (self._last and self._between):
            self._deaf = True  # data after the last request gets no response
        elif not isinstance(cause, httptools.HttpParserError):
            self._refuse(responses.for_error(cause))
        elif isinstance(cause, httptools.HttpParserInvalidMethodError):
            begun = b"M" if self._fed else b""  # stands for the part of the method in earlier reads
            self._refuse(_for_unknown_method(self._routes, begun + data, cause))
        elif str(cause).startswith(_OTHER_PROTOCOL):
            self._refuse(method_refused(self._routes, self._target))
        else:
            self._refuse(_malformed(cause))


def _check_host(value: bytes, listener: HttpListener) -> None:
    if not _HOST.fullmatch(value):
        raise Rejected(responses.problem(400, "The Host header is not a valid host.", rule="RFC 9112 section 3.2"))
    if detail := listener.hosts.refusal(value):
        raise Rejected(responses.problem(421, detail))
    known = listener.known_hosts
    if len(value) <= 100:
        if len(known) >= 1000:
            known.clear()
        known.add(value)


def _for_unknown_method(routes: Routes, data: bytes, error: Exception) -> Response:
    """The response to a request with a method that the parser does not know. It begins somewhere in `data` and may
    continue in the next read. Data that can't be a request line gets 400."""
    *lines, rest = data.split(b"\n")
    for line in lines:
        if (found := _START_LINE.fullmatch(line)) and found[1] != b"POST":
            return method_refused(routes, found[2])
    return responses.not_allowed(b"This method") if _BEGUN.fullmatch(rest) else _malformed(error)


def _malformed(error: Exception) -> Response:
    return responses.problem(400, f"Not HTTP/1.1: {error}.")


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
