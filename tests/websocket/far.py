"""The other ends of the tests: servers and clients of the library websockets, in threads of their own."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

from gateway_cloudevents.event_json import load
from websockets.asyncio.client import connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from gateway_core.contract.event import Event
from tests.ledger import free_port

PLAIN = "cloudevents.json"
ACK = "cloudevents.json+ack.tidegate.dev"
T = TypeVar("T")


class Far:
    """A WebSocket server that receives events, `ControllableRemote` of the suites. `subprotocols` are what it offers.
    It is written from docs/howto/websocket.md, on the library's own server."""

    def __init__(self, *subprotocols: str) -> None:
        self.subprotocols = subprotocols or (ACK, PLAIN)
        self.port = 0
        self.behaviour = "take"
        self.connections = 0
        self._found: list[Event] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._server: Server | None = None

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/events"

    def __enter__(self) -> Far:
        self._thread.start()
        self.take()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self.behaviour = "take"
        self.leave()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    def events(self) -> list[Event]:
        return list(self._found)

    def take(self) -> None:
        self.behaviour = "take"
        if self._server is None:
            self.run(self._start())

    def refuse(self) -> None:
        self.behaviour = "refuse"

    def fail(self) -> None:
        self.behaviour = "fail"

    def hang(self) -> None:
        self.behaviour = "hang"

    def leave(self) -> None:
        if self._server is not None:
            self.run(self._close())
            self._server = None

    async def _start(self) -> None:
        offered: Any = list(self.subprotocols)
        self._server = await serve(self._serve, "127.0.0.1", self.port, subprotocols=offered, close_timeout=0.2)
        self.port = self._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, connection: Any) -> None:
        self.connections += 1
        number = 0
        try:
            async for message in connection:
                number += 1
                assert isinstance(message, str), "the JSON format is text"
                if self.behaviour == "take":
                    self._found.append(load(message.encode()))
                if connection.subprotocol == ACK and (answer := self._answer(number)) is not None:
                    await connection.send(json.dumps(answer))
        except ConnectionClosed:
            pass

    def _answer(self, number: int) -> dict[str, Any] | None:
        if self.behaviour == "take":
            return {"ack": number}
        if self.behaviour == "refuse":
            return {"nack": number, "retry": False, "problem": {"status": 422, "title": "Unprocessable Content"}}
        if self.behaviour == "fail":
            return {"nack": number, "retry": True, "problem": {"status": 503}}
        return None


class FarClient(Far):
    """A subscriber that connects to a listening sink, again and again while it is there."""

    def __init__(self, *subprotocols: str) -> None:
        super().__init__(*subprotocols)
        self.port = free_port()
        self._task: asyncio.Task[None] | None = None

    async def _start(self) -> None:
        self._server = True  # type: ignore[assignment]
        self._task = asyncio.create_task(self._keep())

    async def _close(self) -> None:
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _keep(self) -> None:
        offered: Any = list(self.subprotocols)
        while True:
            with suppress(OSError, InvalidHandshake):
                async with connect(self.url, subprotocols=offered, proxy=None, close_timeout=0.2) as connection:
                    await self._serve(connection)
            await asyncio.sleep(0.01)


class Feed(Far):
    """A server that sends events to the sources that connect to it."""

    def __init__(self, *subprotocols: str) -> None:
        super().__init__(*subprotocols)
        self._connection: ServerConnection | None = None
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._numbers = itertools.count(1)

    async def _serve(self, connection: Any) -> None:
        self.connections += 1
        self._connection, self._numbers = connection, itertools.count(1)
        with suppress(ConnectionClosed):
            async for message in connection:
                answer = json.loads(message)
                numbers = answer.get("ack", answer.get("nack"))
                for number in range(numbers[0], numbers[1] + 1) if isinstance(numbers, list) else [numbers]:
                    self._answers.pop(number).set_result(answer)
        self._connection = None

    async def send(self, text: str, limit_s: float) -> bool:
        """Sends a message; returns whether it was acknowledged. Raises `OSError` if no source is connected."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._send(text, limit_s), self._loop))

    async def _send(self, text: str, limit_s: float) -> bool:
        if self._connection is None:
            raise OSError("nobody is connected")
        connection, answer = self._connection, asyncio.get_running_loop().create_future()
        self._answers[next(self._numbers)] = answer
        await connection.send(text)
        try:
            async with asyncio.timeout(limit_s):
                return "ack" in await answer
        except TimeoutError:
            await connection.close()
            return False
