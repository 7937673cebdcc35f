"""The reading half of a native server connection: bytes in, requests out, by llhttp's strict parser.

A request's state is in the attributes that `_reset` sets, and in no other. `_between` says that nothing of the next
request was seen. After `_deaf` is set no byte of the connection is interpreted: a malformed request ends it, whatever
follows. Trailers are dropped. The counters bound what may come before the parser calls back: `_fed` counts a head that
is not complete, `_stray` what comes within a body that is no body (chunk extensions, trailers).

Every read ends: the parser is fed each byte once, and where it stops at a request to change the protocol, each turn of
the loop in `_stopped` uses up at least one byte of the read. No exception leaves `data_received`.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

import httptools

from gateway_core import content_coding
from gateway_core.content_coding import UnknownCoding
from gateway_core.event import Message

from . import responses
from .endpoint import Endpoint, Routes, decide, method_refused
from .responses import Response

if TYPE_CHECKING:
    from .server import NativeListener

_SPECIAL = frozenset((b"host", b"connection", b"upgrade", b"expect", b"transfer-encoding", b"content-encoding"))
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_START_LINE = re.compile(rb"(%s) ([!-~]+) HTTP/1\.[01]\r?" % _TOKEN)
_BEGUN = re.compile(rb"%s(?: [!-~]*(?: [HTP/1.0]*\r?)?)?" % _TOKEN)
_OTHER_PROTOCOL = "Invalid method for HTTP"  # how llhttp begins its error for the methods of RTSP
_HOST = re.compile(rb"(?:\[[0-9A-Za-z:.%~_-]+\]|(?:[0-9A-Za-z._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?")
_names: dict[bytes, bytes] = {}  # header names as clients write them -> lower case; bounded
_hosts: set[bytes] = set()  # those that were found right; bounded


class Rejected(Exception):
    """Raised in a parser callback: the request is answered with `response`, and the connection ends."""

    def __init__(self, response: Response) -> None:
        self.response = response


class Finished(Exception):
    """Raised in a parser callback: the last request of the connection was read, and nothing after it is."""


class RequestReader(asyncio.Protocol):
    """Calls `_take` for each event request, `_reply` where the answer is known, `_refuse` where the connection ends."""

    __slots__ = (
        "_between", "_body", "_chunk", "_deaf", "_fed", "_head_done", "_headers", "_host", "_last", "_limits",
        "_listener", "_mixed", "_owes_continue", "_parser", "_routes", "_since", "_slow", "_special", "_stray",
        "_target", "_transport", "_waits_body",
    )  # fmt: skip

    def __init__(self, listener: NativeListener) -> None:
        self._listener = listener
        self._limits = listener.limits
        self._routes = listener.routes
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._deaf = False
        self._last = False  # no request follows the one being read
        self._slow = False  # the next answer needs more than the prepared bytes
        self._mixed = False  # the read under way also held a whole request
        self._since = listener.now
        self._chunk = 0
        self._reset()

    def _reset(self) -> None:
        self._between = True  # nothing of the next request was seen
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
            self._parser.feed_data(data)
            if not self._between and not self._deaf:
                self._incomplete()
        except Exception as e:
            stop = e
        if stop is not None:  # not within `except`: the parser's next error would lose its cause
            self._stopped(data, stop)

    def _stopped(self, data: bytes, stop: Exception | None) -> None:
        """Deals with whatever made the parser stop within `data`, and lets it go on where it stopped at a request to
        change the protocol."""
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
            if value not in _hosts:
                _check_host(value)
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
                return  # feed_data is about to say where the request goes on
            coded = b"content-encoding" in self._special
        target = self._target
        headers = self._headers
        endpoint = self._routes.get(target)
        method = self._parser.get_method()
        if endpoint is None or method != b"POST":
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
        """A request that is not simply a POST to an endpoint's path."""
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

    # -- what is not simple -----------------------------------------------------------------------------------------

    def _unusual_head(self) -> None:
        """All about a head that is not HTTP/1.1 with one Host and no other header that steers the protocol."""
        if self._parser.should_upgrade():
            if self._parser.get_method() == b"CONNECT":
                raise Rejected(responses.not_allowed(b"CONNECT"))
            return  # it is read once more without that
        version = self._parser.get_http_version()
        special = self._special or {}
        if version not in ("1.1", "1.0"):
            raise Rejected(responses.problem(400, "HTTP/1.1 is spoken here."))
        if self._host > 1 or (self._host == 0 and version == "1.1"):
            raise Rejected(responses.problem(400, "There must be one Host header.", rule="RFC 9112 section 3.2"))
        coding = special.get(b"transfer-encoding")
        if coding is not None and (version == "1.0" or coding.lower() != b"chunked"):
            raise Rejected(responses.problem(400, "The transfer coding is not chunked.", rule="RFC 9112 section 6.1"))
        if version == "1.0" or not self._parser.should_keep_alive():
            self._last = self._slow = True
        expect = special.get(b"expect")
        if expect is not None and version == "1.1":
            self._expect(expect)

    def _expect(self, expect: bytes) -> None:
        """`Expect: 100-continue` (RFC 9110 section 10.1.1): a final answer is given before the body is sent."""
        if expect.lower() != b"100-continue":
            raise Rejected(responses.problem(417, "Only 100-continue can be expected."))
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
        """A request to change the protocol is ignored (RFC 9110 section 7.8). The parser stops after its head, so a new
        one is given the same head without that request, then what followed. Returns what stopped it, if anything."""
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
            return Rejected(responses.problem(400, "The protocol can't be changed.", rule="RFC 9110 section 7.8"))
        except Exception as e:
            return e
        try:
            self._parser.feed_data(rest)
        except Exception as e:
            return e
        return None

    def _incomplete(self) -> None:
        """The data ended within a request: its clock starts, and what has come is counted."""
        limits = self._limits
        try:
            if not self._head_done:
                if not self._fed:
                    self._since = self._listener.now
                self._fed += 1 if self._mixed else self._chunk  # a read that also held older requests is not counted
                if self._fed > limits.max_header_bytes:
                    raise Rejected(responses.problem(431, f"The head is longer than {limits.max_header_bytes} bytes."))
            elif not self._waits_body:
                self._waits_body = True
                self._stray = 0
                self._since = self._listener.now
                self._check_length()
            else:
                self._stray += self._chunk  # chunk extensions and trailers: on_body makes up for its read
                if self._stray > limits.max_header_bytes:
                    raise Rejected(responses.problem(431, "The chunk extensions or trailers are too long."))
        except Rejected as e:
            self._refuse(e.response)

    def _malformed(self, data: bytes, error: Exception) -> None:
        cause = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else error
        if isinstance(cause, Rejected):
            self._refuse(cause.response)
        elif isinstance(cause, Finished) or (self._last and self._between):
            self._deaf = True  # data after the last request: nothing of it is answered
        elif not isinstance(cause, httptools.HttpParserError):
            self._refuse(responses.for_error(cause))
        elif isinstance(cause, httptools.HttpParserInvalidMethodError):
            begun = b"M" if self._fed else b""  # for what of the method came in reads before
            self._refuse(_for_unknown_method(self._routes, begun + data, cause))
        elif str(cause).startswith(_OTHER_PROTOCOL):
            self._refuse(method_refused(self._routes, self._target))
        else:
            self._refuse(_malformed(cause))


def _check_host(value: bytes) -> None:
    if not _HOST.fullmatch(value):
        raise Rejected(responses.problem(400, "The Host header is no host.", rule="RFC 9112 section 3.2"))
    if len(value) <= 100:
        if len(_hosts) >= 1000:
            _hosts.clear()
        _hosts.add(value)


def _for_unknown_method(routes: Routes, data: bytes, error: Exception) -> Response:
    """The answer to a request whose method the parser does not know. It begins somewhere in `data`, and may go on in
    the next read: what can be no request line gets 400."""
    *lines, rest = data.split(b"\n")
    for line in lines:
        if (found := _START_LINE.fullmatch(line)) and found[1] != b"POST":
            return method_refused(routes, found[2])
    return responses.not_allowed(b"This method") if _BEGUN.fullmatch(rest) else _malformed(error)


def _malformed(error: Exception) -> Response:
    return responses.problem(400, f"Not HTTP/1.1: {error}.")
