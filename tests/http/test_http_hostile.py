"""What a hostile client may try at the native server: to make it spin, to make it log, to make it answer twice."""

from __future__ import annotations

import logging
import socket
import struct
import threading
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from gateway_serving import unexpected

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]

POST = b"POST / HTTP/1.1\r\nHost: x\r\nce-id: 1\r\n"
EMPTY = b"Content-Length: 0\r\n\r\n"
UPGRADE = b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
SMUGGLED = b"POST / HTTP/1.1\r\nHost: x\r\nce-id: smuggled\r\nContent-Length: 0\r\n\r\n"

TUNNELS = {
    "close": b"Connection: close\r\n",
    "chunked": b"Transfer-Encoding: chunked\r\n",
    "upgrade": UPGRADE,
    "upgrade and close": b"Connection: upgrade, close\r\nUpgrade: x\r\n",
    "expect": b"Expect: 100-continue\r\n",
    "keep-alive": b"Connection: keep-alive\r\n",
    "length": b"Connection: keep-alive\r\nContent-Length: 3\r\n",
}


@pytest.mark.spec("SAFE-16")
@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
@pytest.mark.parametrize("header", TUNNELS.values(), ids=TUNNELS.keys())
@pytest.mark.parametrize("piecewise", [False, True], ids=["whole", "bytewise"])
async def test_connect_is_answered_and_the_gateway_lives(
    kit: Any, intake: Any, header: bytes, version: bytes, piecewise: bool
) -> None:
    raw = b"CONNECT x:80 HTTP/%s\r\nHost: x\r\n%s\r\n" % (version, header) + SMUGGLED
    async with kit.source(intake) as source, kit.connect(source) as client:
        for part in [bytes([b]) for b in raw] if piecewise else [raw]:
            client.write(part)
            await client.writer.drain()
        status, headers, _ = await client.response()
        assert (status, headers["allow"], headers["connection"]) == (405, "POST, OPTIONS", "close")
        assert await client.rest() == b""
        async with kit.connect(source) as other:
            other.write(POST + EMPTY)
            assert (await other.response())[0] == 202
        assert intake.ids() == ["1"]


@pytest.mark.slow
@pytest.mark.spec("SAFE-16")
async def test_a_read_full_of_upgrades_is_answered_request_by_request(kit: Any, intake: Any) -> None:
    count = 2000
    one = POST + UPGRADE + b"Content-Length: 2\r\n\r\nab"
    async with kit.source(intake) as source, kit.connect(source) as client:
        client.write(one * count)
        for _ in range(count):
            status, headers, _ = await client.response()
            assert status == 202
            assert "connection" not in headers
    assert [e.data for e in intake.events] == [b"ab"] * count


UNKNOWN = [b"FOO", b"post", b"Post", b"PATCHES", b"GE", b"M-SEARCH2", b"x" * 3000, b"PLAY", b"DESCRIBE", b"!"]


@pytest.mark.spec("SAFE-17")
@pytest.mark.parametrize("method", UNKNOWN, ids=[m[:10].decode() for m in UNKNOWN])
@pytest.mark.parametrize("piecewise", [False, True], ids=["whole", "bytewise"])
async def test_a_method_that_nobody_knows_is_not_allowed(kit: Any, intake: Any, method: bytes, piecewise: bool) -> None:
    for target, expected in ((b"/", 405), (b"http://h/?a=b", 405), (b"/elsewhere", 404)):
        raw = b"\r\n%s %s HTTP/1.1\r\nHost: x\r\nce-id: 1\r\nContent-Length: 0\r\n\r\n" % (method, target) + SMUGGLED
        async with kit.source(intake) as source, kit.connect(source) as client:
            for part in [bytes([b]) for b in raw] if piecewise else [raw]:
                client.write(part)
                await client.writer.drain()
            status, headers, body = await client.response()
            # in pieces it may be answered before its target is there
            assert status in ((expected, 405) if piecewise else (expected,))
            assert headers["connection"] == "close"
            assert headers.get("allow") == ("POST, OPTIONS" if status == 405 else None)
            assert method not in body
            assert await client.rest() == b""
            assert intake.events == []


@pytest.mark.spec("SAFE-17")
async def test_an_unknown_method_behind_a_request_is_answered_in_its_turn(kit: Any, intake: Any) -> None:
    async with kit.source(intake) as source, kit.connect(source) as client:
        client.write(POST + EMPTY + b"FOO / HTTP/1.1\r\nHost: x\r\n\r\n" + SMUGGLED)
        assert (await client.response())[0] == 202
        assert (await client.response())[0] == 405
        assert await client.rest() == b""
        assert intake.ids() == ["1"]


@pytest.mark.slow
async def test_the_first_byte_of_a_request_starts_its_clock(kit: Any, intake: Any) -> None:
    async with kit.source(intake, limits={"header_timeout_s": 0.1}) as source, kit.connect(source) as client:
        client.write(POST + EMPTY)
        assert (await client.response())[0] == 202
        client.write(b"PO")
        assert (await client.response())[0] == 408
        assert await client.rest() == b""


@pytest.mark.spec("SAFE-18")
async def test_continue_is_said_once_where_the_protocol_was_to_be_changed(kit: Any, intake: Any) -> None:
    async with kit.source(intake) as source, kit.connect(source) as client:
        client.write(POST + UPGRADE + b"Expect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n")
        assert (await client.response())[0] == 100
        client.write(b"ab")
        assert (await client.response())[0] == 202
        assert await client.rest() == b""
    assert intake.events[0].data == b"ab"


@pytest.mark.spec("SAFE-18")
async def test_nothing_else_of_a_head_is_lost_where_the_protocol_was_to_be_changed(kit: Any, intake: Any) -> None:
    async with kit.source(intake) as source, kit.connect(source) as client:
        client.write(b"POST / HTTP/1.1\r\nHost:\r\n" + UPGRADE + b"ce-id: 1\r\nce-empty:\r\nConnection: x\r\n" + EMPTY)
        assert (await client.response())[0] == 202
    assert intake.events[0].attributes == {"id": "1", "empty": ""}


LAST = {
    "1.0 that would go on": b"POST / HTTP/1.0\r\nConnection: keep-alive\r\nce-id: 1\r\n" + EMPTY,
    "MKCOL 1.0 that would go on": b"MKCOL / HTTP/1.0\r\nConnection: keep-alive\r\n" + EMPTY,
    "upgrade and close": POST + b"Connection: upgrade, close\r\nUpgrade: x\r\n" + EMPTY,
    "MKCOL, upgrade and close": b"MKCOL / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: x\r\n" + EMPTY,
}


@pytest.mark.spec("SAFE-18")
@pytest.mark.parametrize("hold", [False, True])
@pytest.mark.parametrize("raw", LAST.values(), ids=LAST.keys())
async def test_nothing_behind_the_last_request_is_read(kit: Any, intake: Any, raw: bytes, hold: bool) -> None:
    intake.hold = hold
    async with kit.source(intake) as source, kit.connect(source) as client:
        client.write(raw + SMUGGLED + SMUGGLED + b"FOO")
        if hold and raw.startswith(b"POST"):
            await kit.until(lambda: intake.held)
            intake.held.pop()(None)
        status, headers, _ = await client.response()
        assert (status, headers["connection"]) == (202 if raw.startswith(b"POST") else 405, "close")
        assert await client.rest() == b""
        assert "smuggled" not in intake.ids()


async def test_head_gets_no_body_where_the_connection_ends(kit: Any, intake: Any) -> None:
    async with kit.source(intake) as source, kit.connect(source) as client:
        client.write(b"HEAD / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        answer = await client.rest()
        assert answer.startswith(b"HTTP/1.1 405 ")
        assert answer.endswith(b"\r\n\r\n")


# -- what may be logged ---------------------------------------------------------------------------------------------


def _reset_by_client(port: int, requests: list[bytes], rounds: int) -> None:
    for i in range(rounds):
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close() resets
            sock.sendall(requests[i % len(requests)])
            if i % 4 == 1:
                threading.Event().wait(0.0001)
            elif i % 4 == 2:
                sock.recv(1)
            elif i % 4 == 3:
                sock.shutdown(socket.SHUT_WR)


@pytest.mark.slow
@pytest.mark.spec("SAFE-19")
async def test_clients_that_leave_at_any_moment_log_nothing(
    kit: Any, intake: Any, caplog: pytest.LogCaptureFixture
) -> None:
    requests = [
        b"MKCOL / HTTP/1.1\r\nHost: x\r\n" + UPGRADE + b"Transfer-Encoding: gzip\r\n\r\n",
        b"MKCOL / HTTP/1.1\r\nHost: x\r\n" + UPGRADE + b"Connection: close\r\n" + EMPTY,
        b"MKCOL / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + EMPTY,
        (POST + EMPTY) * 5 + b"BAD\r\n\r\n",
    ]
    async with kit.source(intake) as source:
        port = urlsplit(source.address).port
        with caplog.at_level(logging.INFO):
            await anyio.to_thread.run_sync(_reset_by_client, port, requests, 1500)
        async with kit.connect(source) as client:
            client.write(POST + EMPTY)
            assert (await client.response())[0] == 202
    assert [r.getMessage() for r in caplog.records] == []


@pytest.mark.spec("SAFE-19")
async def test_an_unforeseen_error_is_counted_in_lines_that_no_stranger_writes(
    kit: Any, intake: Any, caplog: pytest.LogCaptureFixture
) -> None:
    unexpected.counts.clear()
    async with kit.source(intake) as source, kit.connect(source) as client:
        for _ in range(12):
            client.write(POST + b"ce-type: explode\r\n" + EMPTY)
            assert (await client.response())[0] == 500
    lines = [r.getMessage() for r in caplog.records if r.levelno >= logging.INFO]
    assert len(lines) == 2
    assert lines[0].startswith(
        "unexpected error while taking an event, 1 of its kind so far: ZeroDivisionError at conftest.py:"
    )
    assert " 10 of its kind" in lines[1]
    assert not any("secret" in line or "\n" in line for line in lines)
    assert all(r.exc_info is None for r in caplog.records if r.levelno >= logging.INFO)
