"""Connections of the native server: order, limits, time, clients that leave."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from gateway_core.contract.errors import Overloaded

pytestmark = pytest.mark.anyio


async def test_pipelined_requests_are_answered_in_order(kit: Any, intake: Any, request_bytes: Any) -> None:
    intake.hold = True
    async with kit.source(intake) as source, kit.connect(source) as client:
        client.write(
            request_bytes("0") + request_bytes("1") + b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + request_bytes("2")
        )
        await kit.until(lambda: len(intake.held) == 3)
        intake.held[2](None)
        intake.held[1](Overloaded("full"))
        intake.held[0](None)
        assert [(await client.response())[0] for _ in range(4)] == [202, 503, 405, 202]
        intake.hold = False
        client.write(request_bytes("3"))
        assert (await client.response())[0] == 202


async def test_a_malformed_request_waits_for_those_before_it(kit: Any, intake: Any, request_bytes: Any) -> None:
    intake.hold = True
    async with kit.source(intake) as source, kit.connect(source) as client:
        client.write(request_bytes("0") + request_bytes("1") + b"nonsense\r\n\r\n" + request_bytes("2"))
        await kit.until(lambda: len(intake.held) == 2)
        intake.held[0](None)
        intake.held[1](None)
        assert [(await client.response())[0] for _ in range(3)] == [202, 202, 400]
        assert await client.rest() == b""
        assert intake.ids() == ["0", "1"]


async def test_reading_pauses_while_many_requests_are_unanswered(kit: Any, intake: Any, request_bytes: Any) -> None:
    intake.hold = True
    async with kit.source(intake) as source, kit.connect(source) as client:
        for n in range(40):
            client.write(request_bytes(str(n)))
            if n < 17:
                await kit.until(lambda n=n: len(intake.held) == n + 1)  # type: ignore[misc]
        await anyio.sleep(0.05)
        assert len(intake.held) == 17  # one being answered and 16 behind it
        for n in range(40):
            await kit.until(lambda n=n: len(intake.held) > n)  # type: ignore[misc]
            intake.held[n](None)
            assert (await client.response())[0] == 202
        assert intake.ids() == [str(n) for n in range(40)]


async def test_clients_that_leave_do_not_disturb_others(kit: Any, intake: Any, request_bytes: Any) -> None:
    intake.hold = True
    async with kit.source(intake) as source, kit.connect(source) as stays:
        async with kit.connect(source) as leaves:
            leaves.write(request_bytes("a") + request_bytes("b") + request_bytes("c")[:-1])
            await kit.until(lambda: len(intake.held) == 2)
            stays.write(request_bytes("d"))
            await kit.until(lambda: len(intake.held) == 3)
        await anyio.sleep(0.02)
        for done in intake.held:
            done(None)
        assert (await stays.response())[0] == 202
        stays.write(request_bytes("e"))
        await kit.until(lambda: len(intake.held) == 4)
        intake.held[3](None)
        assert (await stays.response())[0] == 202


async def test_a_client_that_half_closes_gets_its_answer(kit: Any, intake: Any, request_bytes: Any) -> None:
    intake.hold = True
    async with kit.source(intake) as source, kit.connect(source) as client:
        client.write(request_bytes("a") + request_bytes("b"))
        client.writer.write_eof()
        await kit.until(lambda: len(intake.held) == 2)
        for done in intake.held:
            done(None)
        assert [(await client.response())[0] for _ in range(2)] == [202, 202]
        assert await client.rest() == b""


@pytest.mark.spec("DP-27")
async def test_expect_continue(kit: Any, intake: Any, request_bytes: Any) -> None:
    expect = b"Expect: 100-continue\r\n"
    async with kit.source(intake, limits={"max_body_bytes": 1024}) as source:
        async with kit.connect(source) as client:
            raw = request_bytes("a", body=b"data", extra=expect)
            client.write(raw[:-4])
            assert (await client.response())[0] == 100
            client.write(raw[-4:])
            assert (await client.response())[0] == 202
            assert intake.events[0].data == b"data"
        refused = {
            413: request_bytes("b", body=b"x" * 2000, extra=expect)[:-2000],
            404: request_bytes("b", line=b"POST /other HTTP/1.1", extra=expect)[:-2],
            405: request_bytes("b", line=b"PUT / HTTP/1.1", extra=expect)[:-2],
            417: request_bytes("b", extra=b"Expect: miracles\r\n")[:-2],
        }
        for status, raw in refused.items():
            async with kit.connect(source) as client:
                client.write(raw)
                got, headers, _ = await client.response()
                assert (got, headers["connection"]) == (status, "close")
        assert len(intake.events) == 1


async def test_continue_comes_in_its_turn(kit: Any, intake: Any, request_bytes: Any) -> None:
    intake.hold = True
    async with kit.source(intake) as source, kit.connect(source) as client:
        raw = request_bytes("b", body=b"data", extra=b"Expect: 100-continue\r\n")
        client.write(request_bytes("a") + raw[:-4])
        await kit.until(lambda: len(intake.held) == 1)
        intake.held[0](None)
        assert [(await client.response())[0] for _ in range(2)] == [202, 100]
        client.write(raw[-4:])
        await kit.until(lambda: len(intake.held) == 2)
        intake.held[1](None)
        assert (await client.response())[0] == 202


HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nce-id: 1\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
BEYOND = {
    "one long value": (HEAD + b"a: " + b"b" * 3000, 431),
    "one long value that ends": (HEAD + b"a: " + b"b" * 3000 + b"\r\n\r\n", 431),
    "many headers": (HEAD + b"a: b\r\n" * 20 + b"\r\n", 431),
    "long target": (b"POST /" + b"a" * 3000, 431),
    "long target that ends": (b"POST /" + b"a" * 3000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
    "long body": (HEAD + b"Content-Length: 5000\r\n\r\n" + b"x" * 5000, 413),
    "long body announced": (HEAD + b"Content-Length: 5000\r\n\r\n", 413),
    "long chunk": (CHUNKED + b"1388\r\n" + b"x" * 5000, 413),
    "many chunks": (CHUNKED + b"3e8\r\n" + (b"x" * 1000 + b"\r\n3e8\r\n") * 5, 413),
    "long trailers": (CHUNKED + b"1\r\nx\r\n0\r\na: " + b"b" * 3000, 431),
    "long chunk extension": (CHUNKED + b"1;a=" + b"b" * 3000, 431),
}


@pytest.mark.spec("DP-27")
@pytest.mark.parametrize(("raw", "status"), BEYOND.values(), ids=BEYOND.keys())
async def test_limits(kit: Any, intake: Any, raw: bytes, status: int) -> None:
    limits = {"max_header_bytes": 1024, "max_headers": 16, "max_body_bytes": 4096}
    async with kit.source(intake, limits=limits) as source, kit.connect(source) as client:
        for start in range(0, len(raw), 500):  # in pieces, each of which the server sees
            client.write(raw[start : start + 500])
            await client.writer.drain()
            await anyio.sleep(0.002)
        got, headers, body = await client.response()
        assert (got, headers["connection"]) == (status, "close")
        assert body
        client.close()
        assert intake.events == []


async def test_too_many_connections(kit: Any, intake: Any, request_bytes: Any) -> None:
    async with kit.source(intake, limits={"max_connections": 1}) as source, kit.connect(source) as first:
        first.write(request_bytes("0"))
        assert (await first.response())[0] == 202
        async with kit.connect(source) as second:
            status, headers, _ = await second.response()
            assert (status, headers["retry-after"], headers["connection"]) == (503, "1", "close")
        first.write(request_bytes("1"))
        assert (await first.response())[0] == 202


async def test_stop_closes_idle_connections_and_ends_busy_ones(kit: Any, intake: Any, request_bytes: Any) -> None:
    intake.hold = True
    source = kit.build("source", {"listen": "127.0.0.1:0", "hosts": ["*"]})
    async with anyio.create_task_group() as tasks:
        await source.start(intake, tasks)
        async with kit.connect(source) as idle, kit.connect(source) as busy, kit.connect(source) as half:
            half.write(request_bytes("h")[:-1])
            busy.write(request_bytes("b"))
            await kit.until(lambda: len(intake.held) == 1)
            tasks.start_soon(source.stop)
            assert await idle.rest() == b""
            assert await half.rest() == b""
            intake.held[0](None)
            status, headers, _ = await busy.response()
            assert (status, headers["connection"]) == (202, "close")
            assert await busy.rest() == b""
        tasks.cancel_scope.cancel()


async def test_ipv6(kit: Any, intake: Any, request_bytes: Any) -> None:
    async with kit.source(intake, listen="[::1]:0") as source:
        assert source.address.startswith("http://[::1]:")
        async with kit.connect(source) as client:
            client.write(request_bytes("0"))
            assert (await client.response())[0] == 202


async def test_the_address_for_all_takes_both_kinds_of_addresses(kit: Any, intake: Any, request_bytes: Any) -> None:
    async with kit.source(intake, listen="[::]:0", anonymous=True) as source:
        port = int(source.address.rpartition(":")[2].partition("/")[0])
        for host in ("127.0.0.1", "::1"):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(request_bytes(host))
            assert b" 202 " in await reader.readline()
            writer.close()


async def test_done_called_twice_answers_once(kit: Any, intake: Any, request_bytes: Any) -> None:
    intake.hold = True
    async with kit.source(intake) as source, kit.connect(source) as client:
        client.write(request_bytes("0"))
        await kit.until(lambda: len(intake.held) == 1)
        intake.held[0](None)
        intake.held[0](None)
        assert (await client.response())[0] == 202
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.reader.read(1), 0.05)
