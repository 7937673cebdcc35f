"""The server of the admin API and of functions, by raw bytes: what it refuses, and how long it waits."""

from __future__ import annotations

import asyncio
import logging
import random
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_serving.asgi import App, AsgiServer, Receive, Scope, Send, listening, read_body, respond
from gateway_serving.limits import ListenerLimits
from gateway_testing.suites import Kit, MemoryIntake

from tests.twins import twins

pytestmark = pytest.mark.anyio
Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(params=twins("uvloop", "asyncio"))
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


class Echo:
    """Answers with the method, the target and the body. `wait` holds its answers back."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.wait: anyio.Event | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive, 100_000)
        if body is None:
            await respond(send, 413, [], b"too long", head=False)
            return
        self.asked.append(f"{scope['method']} {scope['raw_path'].decode()}")
        if self.wait is not None:
            await self.wait.wait()
        answer = f"{scope['method']} {scope['raw_path'].decode()} ".encode() + body
        await respond(send, 200, [(b"content-type", b"text/plain")], answer, head=scope["method"] == "HEAD")


@asynccontextmanager
async def serving(app: App, graceful_s: float = 5.0, **limits: Any) -> AsyncIterator[tuple[AsgiServer, int]]:
    sock = listening("127.0.0.1:0")
    port = sock.getsockname()[1]
    server = AsgiServer(app, ListenerLimits(**limits), 100_000)
    async with anyio.create_task_group() as tasks:
        server.start([sock], tasks, graceful_s=graceful_s)
        try:
            yield server, port
        finally:
            with anyio.CancelScope(shield=True):
                await server.stop()


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def rest(client: Client, within_s: float = 60.0) -> bytes:
    """All that comes until the server closes."""
    with anyio.fail_after(within_s):
        try:
            return await client[0].read()
        except ConnectionResetError:
            return b""


async def answer(client: Client) -> bytes:
    """The next answer, which has a Content-Length."""
    with anyio.fail_after(60):
        head = await client[0].readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        return head + await client[0].readexactly(length)


async def until(true: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not true():  # noqa: ASYNC110
            await anyio.sleep(0.01)


SMUGGLED = b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
REFUSED = {
    "CL and TE": (
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + SMUGGLED,
        400,
    ),
    "TE and CL": (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n" + SMUGGLED,
        400,
    ),
    "TE in 1.0": (b"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + SMUGGLED, 400),
    "two lengths": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n" + SMUGGLED, 400),
    "other coding": (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n" + SMUGGLED, 501),
    "HTTP/1.7": (b"GET / HTTP/1.7\r\nHost: x\r\n\r\n" + SMUGGLED[5:], 400),
    "HTTP/2.0": (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n" + SMUGGLED[5:], 400),
    "HTTP/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "no Host": (b"GET / HTTP/1.1\r\n\r\n" + SMUGGLED[5:], 400),
    "two Hosts": (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n" + SMUGGLED[5:], 400),
    "blank before colon": (b"GET / HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n" + SMUGGLED[5:], 400),
    "CONNECT": (b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n" + SMUGGLED[5:], 405),
    "many headers": (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 300 + b"\r\n" + SMUGGLED[5:], 431),
    "long head": (b"GET / HTTP/1.1\r\nHost: x\r\na: " + b"b" * 70_000 + b"\r\n\r\n" + SMUGGLED[5:], 431),
    "expectation": (b"GET / HTTP/1.1\r\nHost: x\r\nExpect: more\r\n\r\n" + SMUGGLED[5:], 417),
    "long method": (b"G" * 70_000 + b" / HTTP/1.1\r\nHost: x\r\n\r\n" + SMUGGLED[5:], 431),
    "LF after the first line": (b"GET / HTTP/1.1\nHost: x\r\n\r\n" + SMUGGLED[5:], 400),
    "LF after a header": (b"GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n" + SMUGGLED[5:], 400),
    "LF after the head": (b"GET / HTTP/1.1\r\nHost: x\r\n\n" + SMUGGLED[5:], 400),
    "LF everywhere": (b"GET / HTTP/1.1\nHost: x\n\n" + SMUGGLED[5:].replace(b"\r", b""), 400),
    "CR in a header": (b"GET / HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n" + SMUGGLED[5:], 400),
    "control character": (b"GET / HTTP/1.1\r\nHost: x\r\nA: b\x01c\r\n\r\n" + SMUGGLED[5:], 400),
    "folded header": (b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n" + SMUGGLED[5:], 400),
    "folded coding": (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n chunked\r\n\r\n" + SMUGGLED, 400),
}
CHUNKS = {
    "blank behind the size": b"2 \r\nhi\r\n" + SMUGGLED,
    "CR in an extension": b"2;x\r0\r\nhi\r\n" + SMUGGLED,
    "LF after an extension": b"2;x\nhi\r\n" + SMUGGLED,
    "NUL in an extension": b"2;x=\x00\r\nhi\r\n" + SMUGGLED,
    "open quotes": b'2;x="\r\nhi\r\n' + SMUGGLED,
    "LF after a size": b"2\nhi\r\n" + SMUGGLED,
    "LF after the last size": b"0\n\r\n" + SMUGGLED[5:],
    "LF after the last chunk": b"0\r\n\n" + SMUGGLED[5:],
    "LF after a trailer": b"0\r\nA: b\n\r\n" + SMUGGLED[5:],
    "folded trailer": b"0\r\nA: b\r\n c\r\n\r\n" + SMUGGLED[5:],
}
REFUSED |= {
    name: (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + body, 400)
    for name, body in CHUNKS.items()
}


@pytest.mark.spec("SAFE-10")
@pytest.mark.parametrize(("raw", "status"), REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.parametrize("piecewise", [False, True], ids=["whole", "bytewise"])
async def test_what_can_be_read_in_two_ways_ends_the_connection(raw: bytes, status: int, piecewise: bool) -> None:
    app = Echo()
    async with serving(app) as (_, port), connected(port) as client:
        for part in [raw[i : i + 1] for i in range(len(raw))] if piecewise and len(raw) < 1000 else [raw]:
            client[1].write(part)
            await anyio.lowlevel.checkpoint()  # no drain: the server may have closed the connection
        got = await rest(client)
    assert got.startswith(b"HTTP/1.1 %d " % status)
    assert len(re.findall(rb"HTTP/1\.1 \d\d\d ", got)) == 1
    assert app.asked == []


TAKEN = {
    "lower-case method": (b"post / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", b"post / "),
    "unknown method": (b"FOO /a?b HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi", b"FOO /a hi"),
    "h2c": (
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        b"HTTP2-Settings: AA\r\n\r\n",
        b"GET / ",
    ),
    "websocket": (
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        b"GET / ",
    ),
    "chunked": (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nTrailer: x\r\n\r\n",
        b"POST / abc",
    ),
    "chunks with all that they may have": (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        b'004;x = "a\\"; b"; y=\xe4\r\n\n\r\n \r\n000\r\nA: b\t\xe4\r\nC:\r\n\r\n',
        b"POST / \n\r\n ",
    ),
}


@pytest.mark.spec("SAFE-10")
@pytest.mark.parametrize(("raw", "body"), TAKEN.values(), ids=TAKEN.keys())
@pytest.mark.parametrize("piecewise", [False, True], ids=["whole", "bytewise"])
async def test_no_protocol_is_changed_and_methods_stay_as_they_are(raw: bytes, body: bytes, piecewise: bool) -> None:
    async with serving(Echo()) as (_, port), connected(port) as client:
        for part in [raw[i : i + 1] for i in range(len(raw))] if piecewise else [raw]:
            client[1].write(part)
            await client[1].drain()
        assert (await answer(client)).endswith(b"\r\n\r\n" + body)
        client[1].write(b"GET /again HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await rest(client)).endswith(b"\r\n\r\nGET /again ")


@pytest.mark.slow
async def test_a_head_that_begins_behind_a_request_has_its_time_limit() -> None:
    async with serving(Echo(), header_timeout_s=0.2) as (_, port), connected(port) as client:
        client[1].write(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HT")
        assert (await answer(client)).startswith(b"HTTP/1.1 200 ")
        assert (await answer(client)).startswith(b"HTTP/1.1 408 ")


@pytest.mark.spec("SAFE-10")
@pytest.mark.parametrize("raw", [raw for raw, _ in REFUSED.values()], ids=REFUSED.keys())
async def test_the_native_server_refuses_the_same(raw: bytes, tmp_path: Path) -> None:
    source: Any = Kit(tmp_path).source("http", {"listen": "127.0.0.1:0", "codec": "cloudevents", "hosts": ["*"]})
    intake = MemoryIntake()
    async with anyio.create_task_group() as tasks:
        await source.start(intake, tasks)
        async with connected(int(source.address.rstrip("/").rpartition(":")[2])) as client:
            client[1].write(raw)
            got = await rest(client)
        await source.stop()
        tasks.cancel_scope.cancel()
    assert len(re.findall(rb"HTTP/1\.1 4\d\d ", got)) == len(re.findall(rb"HTTP/1\.1 \d\d\d ", got)) == 1
    assert intake.events == []


@pytest.mark.spec("SAFE-10")
async def test_a_request_behind_another_is_read_as_strictly_and_answered_in_its_turn() -> None:
    app = Echo()
    app.wait = anyio.Event()
    one = b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
    async with serving(app) as (_, port), connected(port) as client:
        client[1].write(one + one + b"GET /b HTTP/1.1\r\nHost: x\nA: b\r\n\r\n" + SMUGGLED[5:])
        await until(lambda: app.asked == ["POST /a"])
        app.wait.set()
        got = await rest(client)
    assert re.findall(rb"HTTP/1\.1 (\d\d\d) ", got) == [b"200", b"200", b"400"]
    assert app.asked == ["POST /a", "POST /a"]


BEHIND = {
    "after the last": (b"POST /a HTTP/1.0\r\nContent-Length: 1\r\n\r\nxyz", 1),
    "after close": (b"POST /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx\r\n", 1),
    "empty lines": (b"\r\n\r\n" + 2 * b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx\r\n", 2),
}


@pytest.mark.spec("SAFE-19")
@pytest.mark.parametrize(("raw", "count"), BEHIND.values(), ids=BEHIND.keys())
@pytest.mark.parametrize("piecewise", [False, True], ids=["whole", "bytewise"])
async def test_what_stands_around_requests_is_ignored_and_logs_nothing(
    raw: bytes, count: int, piecewise: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(Echo()) as (_, port), connected(port) as client:
        for part in [bytes([b]) for b in raw] if piecewise else [raw]:
            client[1].write(part)
            await client[1].drain()
        for _ in range(count):
            assert (await answer(client)).startswith(b"HTTP/1.1 200 ")
    assert [r.getMessage() for r in caplog.records if r.levelno > logging.INFO] == []


@pytest.mark.slow
async def test_pipelined_requests_are_answered_in_order_and_not_gathered() -> None:
    app = Echo()
    app.wait = anyio.Event()
    async with serving(app) as (server, port), connected(port) as client:
        one = b"GET /%05d HTTP/1.1\r\nHost: x\r\n\r\n"
        sent = 0
        with anyio.move_on_after(1):  # until the system's buffers are full, or a lot was taken
            while sent < 500_000:
                client[1].write(b"".join(one % (sent + i) for i in range(1000)))
                sent += 1000
                await client[1].drain()
        assert app.asked == ["GET /00000"]
        assert server.budget.held < 1_000_000
        app.wait.set()
        for number in range(100):
            assert (await answer(client)).endswith(b"GET /%05d " % number)


async def test_a_body_that_is_not_read_is_not_taken_in() -> None:
    async with serving(Echo()) as (_, port), connected(port) as client:
        client[1].write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 90000000\r\n\r\n" + b"x" * 1_000_000)
        got = await rest(client)
        assert got.startswith(b"HTTP/1.1 413 ")


async def test_expect_is_answered_when_the_body_is_wanted() -> None:
    async with serving(Echo()) as (_, port), connected(port) as client:
        client[1].write(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        with anyio.fail_after(60):
            assert (await client[0].readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        client[1].write(b"hi")
        assert (await answer(client)).endswith(b"POST / hi")


async def test_a_client_that_closed_its_side_gets_its_answer() -> None:
    async with serving(Echo()) as (_, port), connected(port) as client:
        client[1].write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi")
        client[1].write_eof()
        assert (await rest(client)).endswith(b"POST / hi")


LATE = {
    "silence": (b"", None),
    "head": (b"GET / HTTP/1.1\r\nHost: x\r\n", 408),
    "body": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabc", 408),
}


@pytest.mark.spec("SAFE-11")
@pytest.mark.parametrize(("raw", "status"), LATE.values(), ids=LATE.keys())
@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
@pytest.mark.usefixtures("real_time")
async def test_time_limits(raw: bytes, status: int | None, first: bool) -> None:
    limits = {"header_timeout_s": 0.2, "body_timeout_s": 0.2, "idle_timeout_s": 0.2 if status is None else 60}
    async with serving(Echo(), **limits) as (_, port), connected(port) as client:
        if not first:
            client[1].write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await answer(client)
        client[1].write(raw)
        got = await rest(client)
    assert got.startswith(b"" if status is None else b"HTTP/1.1 %d " % status)
    assert bool(got) is (status is not None)


@pytest.mark.usefixtures("real_time")
async def test_a_slow_application_is_no_timeout() -> None:
    app = Echo()
    app.wait = anyio.Event()
    async with (
        serving(app, header_timeout_s=0.05, body_timeout_s=0.05, idle_timeout_s=0.05) as (_, port),
        connected(port) as client,
    ):
        client[1].write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await anyio.sleep(1.2)  # two sweeps have gone by
        app.wait.set()
        assert (await answer(client)).startswith(b"HTTP/1.1 200 ")


@pytest.mark.usefixtures("real_time")
async def test_a_client_that_reads_no_answers_is_cut_off() -> None:
    async def much(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, 200, [], b"x" * 50_000_000, head=False)

    async with serving(much, idle_timeout_s=0.3) as (server, port):
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await until(lambda: bool(server.connections))
            await until(lambda: not server.connections)


@pytest.mark.spec("SAFE-11")
async def test_connections_are_limited() -> None:
    async with serving(Echo(), max_connections=2) as (server, port):
        async with connected(port) as one, connected(port):
            await until(lambda: len(server.connections) == 2)
            async with connected(port) as third:
                assert (await rest(third)).startswith(b"HTTP/1.1 503 ")
            one[1].write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await answer(one)).startswith(b"HTTP/1.1 200 ")
        await until(lambda: not server.connections)
        async with connected(port) as again:
            again[1].write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await answer(again)).startswith(b"HTTP/1.1 200 ")


async def test_a_stop_answers_what_is_asked_and_waits_for_nobody_else() -> None:
    app = Echo()
    app.wait = anyio.Event()
    async with (
        serving(app, graceful_s=60) as (server, port),
        connected(port) as asked,
        connected(port) as silent,
        connected(port) as half,
        connected(port) as slow,
    ):
        asked[1].write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        half[1].write(b"GET / HTTP/1.1\r\n")
        slow[1].write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc")
        await until(lambda: bool(app.asked) and len(server.connections) == 4)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.stop)
            for client in (silent, half, slow):
                assert await rest(client) == b""
            app.wait.set()
            assert b"connection: close" in await answer(asked)


async def test_a_stop_is_bounded() -> None:
    app = Echo()
    app.wait = anyio.Event()
    async with serving(app, graceful_s=0.1) as (server, port):
        async with connected(port) as client:
            client[1].write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await until(lambda: bool(app.asked))
            with anyio.fail_after(60):
                await server.stop()
            assert await rest(client) == b""
        app.wait.set()


async def _cancelled(*_: Any) -> None:
    raise asyncio.CancelledError


async def _silent(*_: Any) -> None:
    pass


@pytest.mark.parametrize("app", [_silent, _cancelled])
async def test_a_request_that_gets_no_answer_is_logged(app: App, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(app) as (_, port), connected(port) as client:
        client[1].write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert await rest(client) == b""
    assert [r.getMessage() for r in caplog.records if r.levelno > logging.INFO] == [
        "the application left a request without an answer: its connection is closed"
    ]


@pytest.mark.slow
async def test_random_bytes_end_a_connection_and_log_nothing(caplog: pytest.LogCaptureFixture) -> None:
    seeds = [raw for raw, _ in REFUSED.values()] + [raw for raw, _ in TAKEN.values()]
    dice = random.Random(7)
    app = Echo()
    async with serving(app) as (server, port):
        for _ in range(300):
            raw = bytearray(dice.choice(seeds)[:2000])
            for _ in range(dice.randrange(1, 6)):
                raw[dice.randrange(len(raw))] = dice.choice(b"\r\n \t:;,0123456789abzPG/\x00\xff")
            async with connected(port) as client:
                client[1].write(bytes(raw))
                client[1].write_eof()
                await rest(client)
        await until(lambda: not server.connections)
        assert server.budget.held == 0
    assert not [r for r in caplog.records if r.levelno >= logging.ERROR]
