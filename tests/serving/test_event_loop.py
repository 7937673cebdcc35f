"""The event loop of a gateway: host names are looked up in threads of their own; connections are made as by asyncio."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Coroutine
from typing import Any

import anyio
import pytest
import trustme
from gateway_workers.event_loop import MOST, EventLoop

from gateway_core.contract.shortage import is_shortage

UNUSED_V6 = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 0, 0, 0))
HERE = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))


def run(main: Coroutine[Any, Any, None]) -> None:
    async def waited() -> None:
        await main

    anyio.run(waited, backend_options={"loop_factory": EventLoop})


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.readline())
    await writer.drain()
    writer.close()


async def echo(host: str, port: int, **options: Any) -> bytes:
    reader, writer = await asyncio.open_connection(host, port, **options)
    writer.write(b"hello\n")
    try:
        return await reader.readline()
    finally:
        writer.close()


def unknown(host: str, *more: object) -> list[Any]:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """Name -> what a lookup finds; a name that is missing here is unknown."""
    known: dict[str, list[Any]] = {}

    def look_up(host: str, *more: object) -> list[Any]:
        return known[host] if host in known else unknown(host)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return known


def test_the_next_address_is_tried_when_one_refuses(names: dict[str, list[Any]]) -> None:
    names["two.example"] = [UNUSED_V6, HERE]

    async def go() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            assert await echo("two.example", port) == b"hello\n"
            assert await echo("127.0.0.1", port) == b"hello\n"

    run(go())


def test_where_all_addresses_refuse_it_says_so(names: dict[str, list[Any]]) -> None:
    names["two.example"] = [HERE, HERE]

    async def go() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # and does not listen
            with pytest.raises(ConnectionRefusedError):
                await echo("two.example", taken.getsockname()[1])

    run(go())


def test_an_unknown_name_is_told(names: dict[str, list[Any]]) -> None:
    async def go() -> None:
        for _ in range(2):
            with pytest.raises(socket.gaierror, match="not known"):
                await echo("absent.example", 1)
        with pytest.raises(socket.gaierror, match="not known"):
            await asyncio.get_running_loop().getaddrinfo("absent.example", 1)

    run(go())


def test_a_certificate_is_compared_with_the_name(names: dict[str, list[Any]]) -> None:
    names["good.example"] = names["other.example"] = [HERE, HERE]
    authority = trustme.CA()
    ours, theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("good.example").configure_cert(ours)
    authority.configure_trust(theirs)

    async def go() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=ours) as server:
            port = server.sockets[0].getsockname()[1]
            assert await echo("good.example", port, ssl=theirs) == b"hello\n"
            assert await echo("other.example", port, ssl=theirs, server_hostname="good.example") == b"hello\n"
            with pytest.raises(ssl.SSLCertVerificationError, match=r"other\.example"):
                await echo("other.example", port, ssl=theirs)

    run(go())


def test_those_who_ask_for_one_name_share_a_lookup_and_may_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    answer = threading.Event()

    def look_up(host: str, *more: object) -> list[Any]:
        asked.append(host)
        if host == "slow.example":
            assert answer.wait(60)
        return [HERE]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)

    async def go() -> None:
        loop = asyncio.get_running_loop()
        with anyio.move_on_after(0.05) as left:
            await loop.getaddrinfo("slow.example", 80)
        assert left.cancelled_caught
        waiting = [asyncio.create_task(loop.getaddrinfo("slow.example", port)) for port in range(50)]
        assert (await loop.getaddrinfo("quick.example", 443))[0][4] == ("127.0.0.1", 443)
        assert not any(task.done() for task in waiting)
        answer.set()
        assert [found[0][4] for found in await asyncio.gather(*waiting)] == [("127.0.0.1", port) for port in range(50)]
        assert asked == ["slow.example", "quick.example"]
        await loop.getaddrinfo("slow.example", 80)
        assert len(asked) == 3

    run(go())


def test_many_lookups_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = threading.Event()

    def look_up(host: str, *more: object) -> list[Any]:
        assert answer.wait(60)
        return [HERE]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)

    async def go() -> None:
        loop = asyncio.get_running_loop()
        waiting = [asyncio.create_task(loop.getaddrinfo(f"{i}.example", i)) for i in range(MOST + 50)]
        await asyncio.sleep(0.1)  # all have asked
        assert sum("lookup of" in thread.name for thread in threading.enumerate()) == MOST
        answer.set()
        assert [found[0][4][1] for found in await asyncio.gather(*waiting)] == list(range(MOST + 50))

    run(go())


def test_without_a_thread_for_a_lookup_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def go() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", none)
            with pytest.raises(RuntimeError) as raised:
                await echo("some.example", 1)
        assert is_shortage(raised.value)
        with pytest.raises(socket.gaierror):
            await echo("absent.example", 1)

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    run(go())


def test_a_lookup_that_never_ends_holds_up_no_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, ended = threading.Event(), threading.Event()

    def look_up(host: str, *more: object) -> list[Any]:
        assert answer.wait(60)
        ended.set()
        return [HERE]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)

    async def go() -> None:
        with anyio.move_on_after(0.05):
            await asyncio.get_running_loop().getaddrinfo("slow.example", 80)

    run(go())
    assert not ended.is_set()
    answer.set()  # what it finds now comes to a closed loop
    assert ended.wait(60)
