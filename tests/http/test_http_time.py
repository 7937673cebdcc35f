"""Time limits and slow ends; on one event loop only, because they take their time."""

from __future__ import annotations

import socket
from typing import Any

import anyio
import pytest

from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome

pytestmark = [pytest.mark.usefixtures("real_time"), pytest.mark.anyio]

HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nce-id: 1\r\n"
EVENT = Event({"id": "1"}, b"{}")


@pytest.fixture
def anyio_backend() -> Any:
    return "asyncio", {"use_uvloop": True}


LATE = {"head": (HEAD, 408), "body": (HEAD + b"Content-Length: 5\r\n\r\nabc", 408), "nothing": (b"", None)}


@pytest.mark.spec("DP-27")
@pytest.mark.parametrize(("raw", "status"), LATE.values(), ids=LATE.keys())
async def test_time_limits(kit: Any, intake: Any, request_bytes: Any, raw: bytes, status: int | None) -> None:
    limits = {"header_timeout_s": 0.2, "body_timeout_s": 0.2, "idle_timeout_s": 0.2 if status is None else 60}
    async with kit.source(intake, limits=limits) as source, kit.connect(source) as client:
        client.write(request_bytes("0"))
        assert (await client.response())[0] == 202
        client.write(raw)
        if status is not None:
            assert (await client.response())[0] == status
        assert await client.rest() == b""
        assert intake.ids() == ["0"]


async def test_a_slow_commit_is_no_timeout(kit: Any, intake: Any, request_bytes: Any) -> None:
    intake.hold = True
    limits = {"header_timeout_s": 0.05, "body_timeout_s": 0.05, "idle_timeout_s": 0.05}
    async with kit.source(intake, limits=limits) as source, kit.connect(source) as client:
        client.write(request_bytes("0"))
        await kit.until(lambda: bool(intake.held))
        await anyio.sleep(0.7)  # a sweep has gone by
        intake.held[0](None)
        assert (await client.response())[0] == 202


async def test_a_client_that_does_not_read_is_not_read(kit: Any, intake: Any, request_bytes: Any) -> None:
    many = 60 * request_bytes("1", body=b"x" * 1000, extra=b"ce-type: long\r\n")  # the answers are as long
    async with kit.source(intake) as source, kit.connect(source) as client:
        client.writer.transport.pause_reading()
        for _ in range(1000):
            client.write(many)
            try:
                with anyio.fail_after(0.5):
                    await client.writer.drain()
            except TimeoutError:
                break
        else:
            pytest.fail("60 MB of answers were taken in for a client that reads none")
        async with kit.connect(source) as other:
            other.write(request_bytes("other"))
            assert (await other.response())[0] == 202
        client.writer.transport.resume_reading()
        assert (await client.response())[0] == 400


@pytest.mark.spec("DP-14")
@pytest.mark.parametrize("limit", [0.1, 2.05], ids=["timer", "sweep"])
async def test_time_limits_of_those_who_wait(kit: Any, limit: float) -> None:
    outcomes: list[Outcome] = []
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        async with kit.sink(url, max_connections=2) as sink:
            began = anyio.current_time()
            for _ in range(5):
                sink.send(EVENT, limit, outcomes.append)
            await kit.until(lambda: len(outcomes) == 5)
            assert anyio.current_time() - began >= limit - 0.2
    assert {(o.retry, o.reason) for o in outcomes} == {(True, f"no response within {limit:g} s")}
