"""Raw bytes at the native server: what is refused, and that nothing after it is interpreted."""

from __future__ import annotations

from typing import Any

import pytest

from gateway_core.contract.departure import left_of

pytestmark = pytest.mark.anyio

HOST = b"POST / HTTP/1.1\r\nHost: x\r\nce-id: 1\r\n"
SMUGGLED = b"POST / HTTP/1.1\r\nHost: x\r\nce-id: smuggled\r\nContent-Length: 0\r\n\r\n"
CHUNKED = HOST + b"Transfer-Encoding: chunked\r\n\r\n"

# name -> bytes that are answered with 400 and the end of the connection
REFUSED = {
    "length and chunked": HOST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked and length": HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    "two equal lengths": HOST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "two lengths": HOST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
    "list of lengths": HOST + b"Content-Length: 3, 3\r\n\r\nabc",
    "signed length": HOST + b"Content-Length: +3\r\n\r\nabc",
    "negative length": HOST + b"Content-Length: -3\r\n\r\nabc",
    "hexadecimal length": HOST + b"Content-Length: 0x3\r\n\r\nabc",
    "underscored length": HOST + b"Content-Length: 1_0\r\n\r\n0123456789",
    "empty length": HOST + b"Content-Length: \r\n\r\n",
    "length beyond 64 bits": HOST + b"Content-Length: 99999999999999999999999\r\n\r\n",
    "coding before chunked": HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked not last": HOST + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "identity": HOST + b"Transfer-Encoding: identity\r\n\r\n",
    "nearly chunked": HOST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked twice": HOST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked in two headers": HOST + b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked with vertical tab": HOST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "chunked in HTTP/1.0": b"POST / HTTP/1.0\r\nce-id: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bare LF as line end": b"POST / HTTP/1.1\nHost: x\nce-id: 1\n\n",
    "bare LF after a value": HOST + b"a: b\nc: d\r\n\r\n",
    "LF as the end of the head": HOST + b"a: b\r\n\n",
    "bare CR in a value": HOST + b"a: b\rc: d\r\n\r\n",
    "folded header": HOST + b"a: b\r\n c\r\n\r\n",
    "folded with tab": HOST + b"a: b\r\n\tc\r\n\r\n",
    "blank before colon": HOST + b"Content-Length : 0\r\n\r\n",
    "blank before name": b"POST / HTTP/1.1\r\n Host: x\r\n\r\n",
    "NUL in a name": HOST + b"a\x00: b\r\n\r\n",
    "NUL in a value": HOST + b"a: b\x00c\r\n\r\n",
    "control character in a value": HOST + b"a: b\x01\r\n\r\n",
    "empty name": HOST + b": b\r\n\r\n",
    "blank in a name": HOST + b"a b: c\r\n\r\n",
    "header without colon": HOST + b"abc\r\n\r\n",
    "name beyond ASCII": HOST + b"\xc3\xa9: b\r\n\r\n",
    "no Host": b"POST / HTTP/1.1\r\nce-id: 1\r\nContent-Length: 0\r\n\r\n",
    "Host with a blank": b"POST / HTTP/1.1\r\nHost: a b\r\nce-id: 1\r\n\r\n",
    "Host with a path": b"POST / HTTP/1.1\r\nHost: a/b\r\nce-id: 1\r\n\r\n",
    "Host with a user": b"POST / HTTP/1.1\r\nHost: u@a\r\nce-id: 1\r\n\r\n",
    "Host with two ports": b"POST / HTTP/1.1\r\nHost: a:1:2\r\nce-id: 1\r\n\r\n",
    "Hosts in a list": b"POST / HTTP/1.1\r\nHost: [::1], a\r\nce-id: 1\r\n\r\n",
    "Host beyond ASCII": b"POST / HTTP/1.1\r\nHost: \xc3\xa9\r\nce-id: 1\r\n\r\n",
    "two Hosts": HOST + b"Host: y\r\nContent-Length: 0\r\n\r\n",
    "NUL in the target": b"POST /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    "target beyond ASCII": b"POST /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    "no target": b"POST HTTP/1.1\r\nHost: x\r\n\r\n",
    "HTTP/1.2": b"POST / HTTP/1.2\r\nHost: x\r\n\r\n",
    "HTTP/2.0": b"POST / HTTP/2.0\r\nHost: x\r\nce-id: 1\r\nContent-Length: 0\r\n\r\n",
    "HTTP/0.9": b"POST / HTTP/0.9\r\nHost: x\r\nce-id: 1\r\n\r\n",
    "RTSP/1.0": b"POST / RTSP/1.0\r\nHost: x\r\nce-id: 1\r\nContent-Length: 0\r\n\r\n",
    "RTSP/1.1": b"POST / RTSP/1.1\r\nHost: x\r\nce-id: 1\r\nContent-Length: 0\r\n\r\n",
    "RTSP with an upgrade": b"POST / RTSP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: a\r\nce-id: 1\r\n\r\n",
    "no version": b"POST /\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "method without a target": b"BREW\r\nHost: x\r\n\r\n",
    "unknown method in another version": b"BREW / HTTP/2.0\r\nHost: x\r\n\r\n",
    "unknown method beyond ASCII": b"BR\xc3\x8bW / HTTP/1.1\r\nHost: x\r\n\r\n",
    "unknown method and a blank": b"BREW  / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS at a plain port": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "chunk size with 0x": CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n",
    "chunk size with blank": CHUNKED + b"3 \r\nabc\r\n0\r\n\r\n",
    "chunk size with sign": CHUNKED + b"+3\r\nabc\r\n0\r\n\r\n",
    "chunk size with LF": CHUNKED + b"3\nabc\r\n0\r\n\r\n",
    "chunk size beyond 64 bits": CHUNKED + b"ffffffffffffffff1\r\nabc\r\n",
    "chunk longer than its size": CHUNKED + b"3\r\nabcX\r\n0\r\n\r\n",
    "LF in a chunk extension": CHUNKED + b'3;a="\nb"\r\nabc\r\n0\r\n\r\n',
    "bare LF after a chunk": CHUNKED + b"3\r\nabc\n0\r\n\r\n",
}


@pytest.mark.spec("DP-27", "BR-15")
@pytest.mark.parametrize("raw", REFUSED.values(), ids=REFUSED.keys())
async def test_malformed_requests_end_the_connection_and_what_follows(kit: Any, intake: Any, raw: bytes) -> None:
    async with kit.source(intake) as source, kit.connect(source) as client:
        client.write(raw + SMUGGLED)
        status, headers, body = await client.response()
        assert status == 400
        assert headers["connection"] == "close"
        assert headers["content-type"] == "application/problem+json"
        assert body
        client.write(SMUGGLED)
        assert await client.rest() == b""
        assert intake.events == []


SPLIT = (
    "length and chunked",
    "bare LF after a value",
    "folded header",
    "chunk longer than its size",
    "two Hosts",
    "RTSP/1.0",
)


@pytest.mark.parametrize("name", SPLIT)
async def test_malformed_requests_byte_by_byte(kit: Any, intake: Any, name: str) -> None:
    async with kit.source(intake) as source, kit.connect(source) as client:
        for byte in REFUSED[name] + SMUGGLED:
            client.write(bytes([byte]))
            await client.writer.drain()
        assert (await client.response())[0] == 400
        assert await client.rest() == b""
        assert intake.events == []


# name -> (bytes, id, data) that are taken
TAKEN = {
    "empty lines before": (b"\r\n\r\n" + HOST + b"Content-Length: 2\r\n\r\nab", b"ab"),
    "no body": (HOST + b"\r\n", b""),
    "empty body": (HOST + b"Content-Length: 0\r\n\r\n", b""),
    "leading zero": (HOST + b"Content-Length: 02\r\n\r\nab", b"ab"),
    "chunked": (CHUNKED + b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", b"abc"),
    "chunked, any case": (HOST + b"TRANSFER-ENCODING: Chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", b"ab"),
    "chunk extension": (CHUNKED + b"2;a=b\r\nab\r\n0\r\n\r\n", b"ab"),
    "trailers": (CHUNKED + b"2\r\nab\r\n0\r\nce-id: trailer\r\nce-evil: 1\r\n\r\n", b"ab"),
    "Host with a port": (b"POST / HTTP/1.1\r\nHost: a-b.c_d:80\r\nce-id: 1\r\nContent-Length: 2\r\n\r\nab", b"ab"),
    "Host that is an address": (b"POST / HTTP/1.1\r\nHost: [::1]:80\r\nce-id: 1\r\nContent-Length: 2\r\n\r\nab", b"ab"),
    "empty Host": (b"POST / HTTP/1.1\r\nHost:\r\nce-id: 1\r\nContent-Length: 2\r\n\r\nab", b"ab"),
    "query": (b"POST /?a=b HTTP/1.1\r\nHost: x\r\nce-id: 1\r\nContent-Length: 2\r\n\r\nab", b"ab"),
    "absolute target": (b"POST http://h/ HTTP/1.1\r\nHost: x\r\nce-id: 1\r\nContent-Length: 2\r\n\r\nab", b"ab"),
    "absolute target without path": (
        b"POST http://h:1 HTTP/1.1\r\nHost: x\r\nce-id: 1\r\nContent-Length: 2\r\n\r\nab",
        b"ab",
    ),
    "white space around values": (
        b"POST / HTTP/1.1\r\nHost: x\r\nce-id:  1 \t\r\nContent-Length: 2 \r\n\r\nab",
        b"ab",
    ),
    "UTF-8 in a value": (HOST + "ce-subject: é\r\nContent-Length: 2\r\n\r\nab".encode(), b"ab"),
    "upgrade": (HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\nab", b"ab"),
    "upgrade to h2c": (
        HOST
        + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\nContent-Length: 2\r\n\r\nab",
        b"ab",
    ),
    "RTSP in a header and in the body": (
        HOST + b"x: POST / RTSP/\r\nContent-Length: 19\r\n\r\n\r\nPOST / RTSP/1.0\r\n",
        b"\r\nPOST / RTSP/1.0\r\n",
    ),
    "upgrade after RTSP in a header": (
        b"POST / HTTP/1.1\r\nx: a RTSP/\r\nHost: x\r\nce-id: 1\r\nConnection: Upgrade\r\nUpgrade: RTSP/1.0\r\n"
        b"Content-Length: 9\r\n\r\na RTSP/1.",
        b"a RTSP/1.",
    ),
    "upgrade, chunked": (
        HOST + b"Connection: Upgrade\r\nUpgrade: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        b"ab",
    ),
}


@pytest.mark.spec("DP-26", "BR-14")
@pytest.mark.parametrize(("raw", "data"), TAKEN.values(), ids=TAKEN.keys())
@pytest.mark.parametrize("piecewise", [False, True], ids=["whole", "bytewise"])
async def test_unusual_but_valid_requests(kit: Any, intake: Any, raw: bytes, data: bytes, piecewise: bool) -> None:
    async with kit.source(intake) as source, kit.connect(source) as client:
        for part in [bytes([b]) for b in raw] if piecewise else [raw]:
            client.write(part)
            await client.writer.drain()
        status, headers, body = await client.response()
        assert (status, body) == (202, b"")
        assert "connection" not in headers
        client.write(HOST + b"Content-Length: 0\r\n\r\n")  # the connection is at a message's border
        assert (await client.response())[0] == 202
        assert intake.ids() == ["1", "1"]
        assert intake.events[0].data == data
        assert "evil" not in intake.events[0].attributes | intake.events[1].attributes


@pytest.mark.parametrize("line", [b"POST / HTTP/1.0", b"POST / HTTP/1.1\r\nConnection: close"])
async def test_close_is_honoured_and_nothing_after_it_is_interpreted(
    kit: Any, intake: Any, request_bytes: Any, line: bytes
) -> None:
    async with kit.source(intake) as source, kit.connect(source) as client:
        client.write(request_bytes("last", line=line) + SMUGGLED)
        status, headers, _ = await client.response()
        assert (status, headers["connection"]) == (202, "close")
        assert await client.rest() == b""
        assert intake.ids() == ["last"]


async def test_connect_is_refused(kit: Any, intake: Any) -> None:
    async with kit.source(intake) as source, kit.connect(source) as client:
        client.write(b"CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n" + SMUGGLED)
        assert (await client.response())[0] == 405
        assert await client.rest() == b""
        assert intake.events == []


async def test_upgrade_with_close_ends_the_connection(kit: Any, intake: Any) -> None:
    async with kit.source(intake) as source, kit.connect(source) as client:
        client.write(HOST + b"Connection: upgrade, close\r\nUpgrade: x\r\nContent-Length: 0\r\n\r\n" + SMUGGLED)
        status, headers, _ = await client.response()
        assert (status, headers["connection"]) == (202, "close")
        assert await client.rest() == b""
        assert intake.ids() == ["1"]


async def test_a_long_body_that_comes_in_many_reads_is_taken(kit: Any, intake: Any, request_bytes: Any) -> None:
    body = b"0123456789" * 100_000
    async with kit.source(intake) as source, kit.connect(source) as client:
        client.write(request_bytes(body=body))
        status, _, _ = await client.response()
        assert status == 202
        chunked = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:300_000], body[300_000:]))
        client.write(HOST + b"Transfer-Encoding: chunked\r\n\r\n" + chunked + b"0\r\n\r\n")
        status, _, _ = await client.response()
        assert status == 202
    assert [e.data for e in intake.events] == [body, body]


@pytest.mark.spec("SAFE-81")
async def test_who_waits_for_an_answer_knows_that_its_client_has_left(
    kit: Any, intake: Any, request_bytes: Any
) -> None:
    intake.hold = True
    async with kit.source(intake) as source:
        async with kit.connect(source) as client:
            client.write(request_bytes("1") + request_bytes("2"))
            await kit.until(lambda: len(intake.held) == 2)
            left = [left_of(done) for done in intake.held]
            assert [asks() for asks in left] == [False, False]
        await kit.until(lambda: all(asks() for asks in left))
        for done in intake.held:
            done(None)
