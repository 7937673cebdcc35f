"""The reader of the native HTTP server, given any bytes in any pieces: what must hold.

An input is two bytes that steer, then what the client sends. The first byte's bits say: answers are held back until all
is sent (1), the client closes its side at the end (2), it left before (4), it can't be written to (8). The second one
seeds how the bytes are cut.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Sequence
from typing import Any

import h11
from gateway_http.config import HttpSourceConfig
from gateway_http.endpoint import Endpoint
from gateway_http.listener import ServerConnection
from gateway_http.protocol import Connection
from gateway_http.server import NativeListener
from gateway_serving import unexpected

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Accepted

HELD, HALF_CLOSED, LEFT, BROKEN = 1, 2, 4, 8
LIMITS = {"max_header_bytes": 2048, "max_headers": 32, "max_body_bytes": 4096}
_ANSWER = re.compile(rb"HTTP/1\.1 (\d{3}) [A-Za-z -]*\r\n((?:[A-Za-z-]+: [^\r\n]*\r\n)*)\r\n")
_PATH = re.compile(rb"(?:[^/?]*://[^/?]*)?(?:/(?:\?.*)?)?")
_REFUSALS = {400, 404, 405, 408, 413, 415, 417, 431}


class Transport:
    """A transport as strict as the real ones."""

    def __init__(self, flags: int) -> None:
        self.written = bytearray()
        self.closing = self.ended = self.reading = False
        self.flags = flags

    def write(self, data: bytes) -> None:
        if self.ended:
            raise RuntimeError("Cannot call write() after write_eof()")
        if not self.closing:
            self.written += data

    def write_eof(self) -> None:
        if self.flags & BROKEN:
            raise OSError(107, "Transport endpoint is not connected")
        self.ended = True

    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    abort = close

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Codec:
    """Takes every message with a `ce-id`, and keeps it."""

    def __init__(self) -> None:
        self.taken: list[Message] = []

    def decode(self, message: Message) -> list[Event]:
        if message.header(b"ce-id") is None:
            raise Refused("id is missing")
        self.taken.append(message)
        return [Event({})]

    def encode(self, event: Event) -> Message:
        raise NotImplementedError


class Intake:
    stores = True
    deduplicates = False

    def __init__(self) -> None:
        self.holds = False
        self.held: list[Accepted] = []

    def accept(self, events: Sequence[Event], done: Accepted) -> None:
        if self.holds:
            self.held.append(done)
        else:
            done(None)

    def refuse(self, error: Refused) -> None:
        pass


class Listener(NativeListener):
    """One that need not listen: it has room for everyone."""

    def admit(self, connection: ServerConnection) -> bool:
        return True


async def _listener() -> Listener:
    return Listener(HttpSourceConfig.model_validate({"limits": LIMITS, "hosts": ["*"]}), None, "fuzz")


class Run:
    """One client's bytes through a connection, and what came of them."""

    def __init__(self, parts: Sequence[bytes], flags: int) -> None:
        codec, intake, listener = Codec(), Intake(), _LISTENER
        endpoint: Any = Endpoint("/", codec, lambda: 0, intake, max_body_bytes=LIMITS["max_body_bytes"])  # type: ignore[arg-type]
        listener.routes = {b"/": endpoint}
        connection = Connection(listener)
        transport: Any = Transport(flags)
        intake.holds = bool(flags & HELD)
        connection.connection_made(transport)
        for part in parts:
            if transport.closing:
                break
            connection.data_received(part)
        if flags & LEFT:
            connection.connection_lost(None)
        elif flags & HALF_CLOSED and not transport.closing and not connection.eof_received():
            transport.close()
        while intake.held:
            intake.held.pop(-1 if flags & HALF_CLOSED else 0)(None)
        self.unfinished = not transport.closing and not transport.ended
        for _ in range(2):  # no connection outlives its time limits
            if not transport.closing:
                listener.now += 1000
                connection.check(listener.now)
        assert transport.closing or flags & LEFT, "it stays open for ever"
        assert not connection.serves(None) or flags & LEFT, "a request stays unanswered"
        connection.connection_lost(None)
        assert listener.budget.held == 0, "what is gone still counts"
        self.taken = codec.taken
        self.answers = answers(bytes(transport.written))


def answers(written: bytes) -> list[tuple[int, bool]]:
    """Status and whether the connection ends, for each answer; interim ones are left out."""
    found: list[tuple[int, bool]] = []
    place = 0
    while place < len(written):
        answer = _ANSWER.match(written, place)
        assert answer is not None, written[place : place + 200]
        assert not found or not found[-1][1], "an answer after the last one"
        status, head = int(answer[1]), answer[2].lower()
        place = answer.end()
        if status == 100:
            continue
        length = re.search(rb"content-length: (\d+)\r\n", head)
        assert length is not None
        body = written[place : place + int(length[1])]
        if body[:1] == b"{" and body[-1:] == b"}":  # else it was a HEAD
            place += len(body)
        assert status != 500, "an error of our own"
        found.append((status, b"connection: close\r\n" in head))
    return found


_LISTENER = asyncio.run(_listener())


def check(data: bytes) -> None:
    """Raises where something does not hold."""
    flags, seed, sent = (data[0], data[1], data[2:]) if len(data) > 1 else (0, 0, data)
    before = sum(unexpected.counts.values())
    whole = Run([sent] if sent else [], flags)
    pieces = Run(cut(sent, seed), flags)
    assert sum(unexpected.counts.values()) == before, "an error was logged"
    if any(status == 431 for run in (whole, pieces) for status, _ in run.answers):
        return  # white space counts as long as a head is not complete
    facts = [[(m.headers, m.body, m.method) for m in run.taken] for run in (whole, pieces)]
    assert facts[0] == facts[1], "how the bytes are cut matters"
    if not flags & (LEFT | BROKEN):
        assert [kind(a) for a in whole.answers] == [kind(a) for a in pieces.answers], "how the bytes are cut matters"
        for run in (whole, pieces):
            assert sum(status == 202 for status, _ in run.answers) == len(run.taken), "not one answer for each event"
    _compare(sent, whole.taken)


def kind(answer: tuple[int, bool]) -> tuple[int, bool]:
    """The answer, but for which of the refusals it is that ends a connection."""
    status, last = answer
    return (400 if last and status in _REFUSALS else status, last)


def cut(data: bytes, seed: int) -> list[bytes]:
    """The bytes in pieces: of one each with seed 0."""
    if seed == 0:
        return [bytes([byte]) for byte in data]
    chance = random.Random(seed)
    parts = []
    place = 0
    while place < len(data):
        size = chance.choice((1, 2, 3, 7, 20, 100, 1000))
        parts.append(data[place : place + size])
        place += size
    return parts


def _compare(sent: bytes, taken: list[Message]) -> None:
    """What was taken is what h11, which is not our parser, reads: as far as it reads."""
    theirs = list(_by_h11(sent, len(taken)))
    for ours, (target, headers, body) in zip(taken, theirs, strict=False):
        if any(name in (b"upgrade", b"content-encoding") for name, _ in headers):
            return
        assert ours.url in ("/", target.decode("latin-1"))
        assert _plain(ours.headers) == _plain(headers)
        assert ours.body == body


def _plain(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name, value.lower() if name == b"transfer-encoding" else value) for name, value in headers]


def _by_h11(sent: bytes, count: int) -> list[tuple[bytes, list[tuple[bytes, bytes]], bytes]]:
    """The POST requests to / with a `ce-id`, at most `count`, up to the first fault that h11 finds."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    found: list[tuple[bytes, list[tuple[bytes, bytes]], bytes]] = []
    connection.receive_data(sent)
    try:
        while len(found) < count:
            request = connection.next_event()
            if not isinstance(request, h11.Request):
                break
            body = bytearray()
            while isinstance(event := connection.next_event(), h11.Data):
                body += event.data
            if not isinstance(event, h11.EndOfMessage):
                break
            ours = _PATH.fullmatch(request.target)
            if request.method == b"POST" and ours and any(name == b"ce-id" for name, _ in request.headers):
                found.append((request.target, list(request.headers), bytes(body)))
            connection.send(h11.Response(status_code=202, headers=[(b"content-length", b"0")]))
            connection.send(h11.EndOfMessage())
            connection.start_next_cycle()
    except (h11.RemoteProtocolError, h11.LocalProtocolError):
        pass
    return found


_P = b"POST / HTTP/1.1\r\nHost: x\r\nce-id: 1\r\n"
_REQUESTS = [
    _P + b"Content-Length: 2\r\n\r\nab",
    _P + b"Transfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\nt: u\r\n\r\n",
    _P + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nab",
    _P + b"Connection: Upgrade, close\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
    _P + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\nab",
    _P + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nab",
    _P + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    _P + b"Connection: close\r\n\r\n",
    b"POST / HTTP/1.0\r\nConnection: keep-alive\r\nce-id: 1\r\nContent-Length: 2\r\n\r\nab",
    b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"MKCOL / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\nWebHook-Request-Origin: a\r\n\r\n",
    b"HEAD / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
    b"GET http://h/a HTTP/1.1\r\nHost: x\r\n\r\n",
    b"FOO / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01",
    b"a: " + b"b" * 2000 + b"\r\n",
    _P + b"c: d\r\n" * 40 + b"\r\n",
    _P + b"Content-Length: 5000\r\n\r\n",
]
SEEDS = [
    *(bytes([flags, flags * 3]) + request for request in _REQUESTS for flags in (0, HELD, HELD | HALF_CLOSED, BROKEN)),
    *(b"\x01\x05" + one + other for one in _REQUESTS for other in _REQUESTS[::4]),
]
WORDS = [
    *(b"POST / HTTP/1.1\r\n", b"POST / HTTP/1.0\r\n", b"CONNECT x:1 HTTP/1.1\r\n", b"HEAD / HTTP/1.1\r\n", b"MKCOL /"),
    *(b"Host: x\r\n", b"ce-id: 1\r\n", b"Content-Length: ", b"Transfer-Encoding: ", b"chunked", b"Connection: "),
    *(b"Upgrade", b"Upgrade: x\r\n", b"close", b"keep-alive", b"Expect: 100-continue\r\n"),
    *(b"\r\n\r\n", b"\r\n", b"0\r\n\r\n", b"5\r\nhello\r\n", b"ffffffff\r\n", b";a=b", b"\t", b" HTTP/1.1\r\n"),
    *(b"OPTIONS * HTTP/1.1\r\n", b"FOO ", b"Content-Encoding: gzip\r\n"),
    *(b"gzip, ", b"identity", b"http://h/", b"1", b"2", b"\n", b"\r", b"\0", b", "),
]  # fmt: skip
