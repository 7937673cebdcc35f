"""HTTP/2 clients that give up requests, or have many, with raw frames."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import anyio
import h2.config
import h2.connection
import h2.errors
import h2.events
import pytest

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("real_time")]


@pytest.fixture
def anyio_backend() -> Any:
    return "asyncio", {"use_uvloop": True}


class Client:
    """One connection."""

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        self._stream = stream
        self._http = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None))
        self._http.initiate_connection()
        self._writing = anyio.Lock()
        self.ended_with: Any = None

    def post(self, id: str) -> int:
        """Writes a request; returns the number of its stream."""
        number = self._http.get_next_available_stream_id()
        fields = {":method": "POST", ":path": "/", ":scheme": "http", ":authority": "x", "ce-id": id, "ce-type": "t"}
        self._http.send_headers(number, list(fields.items()), end_stream=True)
        return number

    def give_up(self, number: int) -> None:
        self._http.reset_stream(number, h2.errors.ErrorCodes.CANCEL)

    def ping(self) -> None:
        self._http.ping(bytes(8))

    async def flush(self) -> None:
        async with self._writing:  # the task that reads writes, too
            await self._stream.send(self._http.data_to_send())

    async def events(self) -> AsyncIterator[Any]:
        """What the server sends, until it closes the connection."""
        while True:
            try:
                await self.flush()
                data = await self._stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                return
            events = self._http.receive_data(data)
            for event in events:
                if isinstance(event, h2.events.ConnectionTerminated):
                    self.ended_with = event.error_code
            for event in events:
                yield event


@asynccontextmanager
async def connected(source: Any) -> AsyncIterator[Client]:
    parts = urlsplit(source.address)
    async with await anyio.connect_tcp(parts.hostname or "", parts.port or 0) as stream:
        with anyio.fail_after(60):
            yield Client(stream)


def _statuses(event: Any) -> Iterator[str]:
    if isinstance(event, h2.events.ResponseReceived):
        yield dict(event.headers or [])[b":status"].decode()


@pytest.mark.spec("SAFE-18")
async def test_a_connection_answers_any_number_of_requests(kit: Any, intake: Any) -> None:
    async with kit.source(intake, server="hypercorn") as source, connected(source) as client:
        for round in range(23):
            numbers = {client.post(f"{round}-{i}") for i in range(50)}
            async for event in client.events():
                for status in _statuses(event):
                    assert status == "202"
                    numbers.discard(event.stream_id)
                if not numbers:
                    break
            assert not numbers
    assert len(intake.ids()) == 23 * 50


@pytest.mark.spec("SAFE-11")
async def test_who_keeps_giving_up_requests_is_cut_off(kit: Any, intake: Any) -> None:
    intake.hold = True
    async with kit.source(intake, server="hypercorn") as source:
        async with connected(source) as client:
            for round in range(20):
                for i in range(50):
                    client.give_up(client.post(f"{round}-{i}"))
                client.ping()
                async for event in client.events():
                    if isinstance(event, h2.events.PingAckReceived):
                        break
                if client.ended_with is not None:
                    break
            assert client.ended_with == h2.errors.ErrorCodes.ENHANCE_YOUR_CALM
        assert len(intake.held) <= 300
        for done in intake.held:
            done(None)
        intake.hold = False
        async with connected(source) as client:
            client.post("after")
            async for event in client.events():
                if list(_statuses(event)) == ["202"]:
                    break


@pytest.mark.spec("SAFE-18")
@pytest.mark.parametrize("busy", [False, True])
async def test_a_stop_says_which_requests_were_not_read(kit: Any, intake: Any, busy: bool) -> None:
    answered = list[str]()
    async with anyio.create_task_group() as tasks:
        async with AsyncExitStack() as stack:
            source = await stack.enter_async_context(kit.source(intake, server="hypercorn"))
            client = await stack.enter_async_context(connected(source))

            async def read() -> None:
                async for event in client.events():
                    answered.extend(_statuses(event))

            client.post("first")
            tasks.start_soon(read)
            while answered != ["202"]:  # noqa: ASYNC110
                await anyio.sleep(0.01)
            intake.hold = busy
            if busy:
                client.post("second")
                await client.flush()
                while not intake.held:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
            tasks.start_soon(source.stop)
            while busy and answered == ["202"]:
                await anyio.sleep(0.01)
                if intake.held:
                    intake.held.pop()(None)
            while client.ended_with is None:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert client.ended_with == h2.errors.ErrorCodes.NO_ERROR
    assert answered == ["202"] * (1 + busy)
