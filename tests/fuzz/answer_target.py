"""The native client, given any bytes as answer in any pieces.

An input is two bytes that steer, then what the subscriber sends. The first byte's bits say: it closes at the end (1),
by a reset (2). The second one seeds how the bytes are cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gateway_cloudevents.bindings import HTTP
from gateway_http.outcome import ResponseClassifier
from gateway_http.pool import ClientConnection, Exchange
from gateway_testing import FakeClock

from gateway_core.config.registry import Registry
from gateway_core.contract.component import BuildContext, CodecRef
from gateway_core.contract.interfaces import Outcome
from tests.fuzz.http_target import cut

CLOSES, RESETS = 1, 2

_CONTEXT = BuildContext("fuzz", Path(), FakeClock(), Registry.installed(), binding=HTTP)


class Transport:
    def __init__(self) -> None:
        self.closing = False

    def write(self, data: bytes) -> None:
        assert not self.closing, "written after it was closed"

    def abort(self) -> None:
        self.closing = True

    def is_closing(self) -> bool:
        return self.closing

    def get_write_buffer_size(self) -> int:
        return 0


class Pool:
    """What a connection needs of its pool."""

    def __init__(self) -> None:
        self.classifier = ResponseClassifier(_CONTEXT.build(CodecRef("cloudevents")), True, "http://h/", lambda: 1e9)
        self.known: dict[bytes, Outcome] = {}
        self.outcomes: list[Outcome] = []

    def settled(self, connection: ClientConnection, exchange: Exchange, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    def end(self, exchange: Exchange, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    def remember(self, data: bytes, outcome: Outcome) -> None:
        self.known[data] = outcome

    def keep_idle(self, seconds: int) -> None:
        assert seconds >= 0

    def forget(self, connection: ClientConnection) -> None:
        pass


def check(data: bytes) -> None:
    """Raises where something does not hold."""
    flags, seed, sent = (data[0], data[1], data[2:]) if len(data) > 1 else (0, 0, data)
    one, other = _run([sent] if sent else [], flags), _run(cut(sent, seed), flags)
    assert _facts(one) == _facts(other), "how the bytes are cut matters"


def _run(parts: Sequence[bytes], flags: int) -> Outcome:
    pool, transport = Pool(), Transport()
    connection = ClientConnection(pool)  # type: ignore[arg-type]
    made: Any = transport
    connection.connection_made(made)
    connection.start(Exchange(b"", 0.0, 1.0, lambda outcome: None), False)
    for part in parts:
        if transport.closing:
            break
        connection.data_received(part)
    if flags & CLOSES or not pool.outcomes:
        connection.connection_lost(ConnectionResetError() if flags & RESETS else None)
    assert len(pool.outcomes) == 1, "not one outcome"
    for known in pool.known.values():  # what is remembered of an answer is what it meant
        assert known is pool.outcomes[0]
    return pool.outcomes[0]


def _facts(outcome: Outcome) -> tuple[Any, ...]:
    reply = outcome.reply
    return (outcome.code, outcome.delivered, outcome.retry, outcome.data, reply and (reply.attributes, reply.data))


_OK = b"HTTP/1.1 200 OK\r\n"
_REPLY = b"ce-specversion: 1.0\r\nce-id: 1\r\nce-source: /s\r\nce-type: t\r\n"
_ANSWERS = [
    b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    _OK + b"Transfer-Encoding: chunked\r\n\r\n2;a=b\r\nab\r\n0\r\nx: y\r\n\r\n",
    _OK + b"Connection: close\r\n\r\nto the end",
    _OK + _REPLY + b"Content-Length: 2\r\n\r\nab",
    _OK + b"Content-Type: application/cloudevents+json\r\nContent-Length: 2\r\n\r\n{}",
    _OK + _REPLY + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nab",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + _OK + b"Content-Length: 0\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nabc",
    b"HTTP/1.1 503 No\r\nRetry-After: 99999999999\r\nContent-Length: 1\r\n\r\nx",
    b"HTTP/1.1 429 No\r\nRetry-After: Fri, 31 Dec 1999 23:59:59 GMT\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.0 500 No\r\n\r\nabc",
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
    _OK + b"Keep-Alive: timeout=5\r\nContent-Length: 0\r\n\r\n" + _OK,
    b"HTTP/2.0 200 OK\r\n\r\n",
    b"nothing of the kind",
]
SEEDS = [bytes([flags, 5]) + answer for answer in _ANSWERS for flags in range(4)]
WORDS = [
    *(_OK, b"HTTP/1.0 ", b"HTTP/1.1 100 Continue\r\n\r\n", b"Content-Length: ", b"Transfer-Encoding: chunked\r\n"),
    *(b"Connection: close\r\n", b"Connection: Upgrade\r\n", b"Upgrade: x\r\n", b"Retry-After: ", b"ce-id: 1\r\n"),
    *(b"Content-Type: application/cloudevents+json\r\n", b"0\r\n\r\n", b"5\r\nhello\r\n", b"Keep-Alive: timeout="),
    *(b"\r\n\r\n", b"204", b"101", b"304", b"999"),
]  # fmt: skip
