"""Ends that don't read, or that leave while they are not read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from gateway_testing.suites import Kit
from gateway_testing.suites.kit import until
from gateway_testing.suites.sink import Attempts, numbered
from gateway_websocket.listener import ServerSocket
from websockets.frames import Frame, Opcode

from tests.websocket.far import ACK, PLAIN
from tests.websocket.rig import EVENT, KEY, UPGRADE, client, ids, sink, source, speaks

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("real_time")]

FLOOD = 24 * 1024 * 1024
CHUNK = 256 * 1024


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path)


def frame(kind: Opcode, data: bytes) -> bytes:
    return Frame(kind, data).serialize(mask=True)


async def deaf(url: str) -> Any:
    """An open connection of an end that reads nothing after the handshake."""
    parts = urlsplit(url)
    stream = await anyio.connect_tcp(parts.hostname or "", parts.port or 0)
    lines = [f"GET {parts.path} HTTP/1.1", "Host: localhost", *UPGRADE, KEY, speaks(ACK), "", ""]
    await stream.send("\r\n".join(lines).encode())
    assert b" 101 " in await stream.receive()
    return stream


async def flood(stream: Any, part: bytes) -> None:
    """Sends until the other end takes no more, or has closed the connection."""
    chunk = part * (CHUNK // len(part))
    with anyio.move_on_after(30):
        try:
            for _ in range(FLOOD // len(chunk)):
                with anyio.fail_after(2):
                    await stream.send(chunk)
        except (TimeoutError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass


def waiting(sockets: list[ServerSocket]) -> Callable[[], int]:
    """The bytes that wait for ends which don't read."""
    return lambda: max((s._transport.get_write_buffer_size() for s in sockets if s._transport is not None), default=0)


@pytest.fixture
def sockets(monkeypatch: pytest.MonkeyPatch) -> list[ServerSocket]:
    """All connections that are accepted."""
    found: list[ServerSocket] = []
    made = ServerSocket.connection_made

    def connection_made(self: ServerSocket, transport: Any) -> None:
        found.append(self)
        made(self, transport)

    monkeypatch.setattr(ServerSocket, "connection_made", connection_made)
    return found


@pytest.mark.spec("WS-08", "WS-09")
@pytest.mark.parametrize(
    "part", [frame(Opcode.PING, b"p" * 125), frame(Opcode.TEXT, b"{}" + b" " * 120)], ids=["pings", "refused"]
)
async def test_answers_to_an_end_that_reads_none_stay_bounded(
    kit: Kit, sockets: list[ServerSocket], part: bytes
) -> None:
    async with source(kit) as (made, _):
        size = waiting(sockets)
        most = 0

        async def look() -> None:
            nonlocal most
            while True:
                most = max(most, size())
                await anyio.sleep(0.005)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(look)
            async with await deaf(made.address) as stream:
                await flood(stream, part)
            tasks.cancel_scope.cancel()
        assert most < FLOOD // 3
        async with client(made.address) as other:
            await other.send(EVENT % 1)
            await other.recv()


@pytest.mark.spec("WS-08")
async def test_what_an_end_sent_is_dropped_when_it_leaves_while_it_is_not_read(kit: Kit) -> None:
    """It sends all that again with its next connection: else each one would add to what is held."""
    quick = {"ping_interval_s": 0.1, "ping_timeout_s": 0.1, "max_unacknowledged": 3}
    async with source(kit, **quick) as (made, intake):
        intake.hold = True
        for _ in range(3):
            async with await deaf(made.address) as stream:
                await stream.send(b"".join(frame(Opcode.TEXT, (EVENT % n).encode()) for n in range(10)))
                await until(lambda: made.info()["unacknowledged"] >= 3, "its events to be held")
            await until(lambda: made.info()["unacknowledged"] == 0, "its events to be dropped")
        assert made.info()["connections"] == 0


@pytest.mark.spec("WS-06")
async def test_what_is_not_written_because_the_connection_breaks_is_not_delivered(
    kit: Kit, sockets: list[ServerSocket]
) -> None:
    async with sink(kit) as made, client(made.address, PLAIN):
        await until(lambda: bool(made._senders), "the subscriber")
        attempts = Attempts()
        attempts.send(made, numbered(1)[0])
        sockets[0].abort()
        (outcome,) = await attempts.ended()
        assert (outcome.delivered, outcome.retry) == (False, True)


@pytest.mark.spec("WS-06")
async def test_without_acknowledgements_what_an_end_sent_before_it_left_is_read(kit: Kit) -> None:
    quick = {"ping_interval_s": 0.1, "ping_timeout_s": 0.1, "max_unacknowledged": 3}
    async with source(kit, **quick) as (made, intake):
        intake.hold = True
        async with client(made.address, PLAIN) as sender:
            for n in range(10):
                await sender.send(EVENT % n)
            await until(lambda: made.info()["unacknowledged"] >= 3, "its events to be held")
        await anyio.sleep(0.5)
        assert made.info()["connections"] == 1
        intake.hold = False
        intake.release()
        await until(lambda: len(intake.safe) == 10, "the others")
        assert ids(intake.events) == [str(n) for n in range(10)]
