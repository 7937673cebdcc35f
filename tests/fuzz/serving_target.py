"""The server of functions and of the admin API, given any bytes in any pieces. Inputs are those of the HTTP target."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from gateway_serving import unexpected
from gateway_serving.asgi import Receive, Scope, Send, read_body, respond
from gateway_serving.exchange import Exchange
from gateway_serving.http1 import Http1Connection
from gateway_serving.limits import ListenerLimits
from gateway_serving.server import AsgiServer

from tests.fuzz.http_target import BROKEN, HALF_CLOSED, HELD, LEFT, LIMITS, SEEDS, WORDS, Transport, answers, cut, kind

__all__ = ["SEEDS", "WORDS", "check"]

_LONGEST = LIMITS["max_body_bytes"]
_LIMITS = {name: value for name, value in LIMITS.items() if name != "max_body_bytes"}
_TURNS = 8  # of the loop, until what a read began is done


class Server(AsgiServer):
    """One that need not listen. It keeps the requests that its application gets."""

    def __init__(self, flags: int) -> None:
        super().__init__(self._app_itself, ListenerLimits.model_validate(_LIMITS), _LONGEST)
        self.taken: list[tuple[Any, ...]] = []
        self.running: set[asyncio.Task[None]] = set()
        self.open = asyncio.Event()
        if not flags & HELD:
            self.open.set()

    async def _app_itself(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive, _LONGEST)
        if body is not None:
            self.taken.append((scope["method"], scope["raw_path"], scope["headers"], body))
        await self.open.wait()
        await respond(send, 413 if body is None else 202, [], b"", head=scope["method"] == "HEAD")

    def made(self, connection: Http1Connection) -> bool:
        return True

    def run(self, connection: Http1Connection, exchange: Exchange) -> None:
        self._under_way += 1
        task = _LOOP.create_task(self._answer(connection, exchange))
        self.running.add(task)
        task.add_done_callback(self.running.discard)


class Named(Transport):
    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1)


async def _run(parts: Sequence[bytes], flags: int) -> tuple[list[tuple[Any, ...]], list[tuple[int, bool]]]:
    server, transport = Server(flags), Named(flags)
    connection = Http1Connection(server)
    made: Any = transport
    connection.connection_made(made)
    for part in parts:
        if transport.closing:
            break
        connection.data_received(part)
        await _turn()
    if flags & LEFT:
        connection.connection_lost(None)
    elif flags & HALF_CLOSED and not transport.closing and not connection.eof_received():
        transport.close()
    server.open.set()
    await _turn()
    for _ in range(2):  # no connection outlives its time limits
        if not transport.closing:
            server.now += 1000
            connection.check(server.now)
            await _turn()
    assert transport.closing or flags & LEFT, "it stays open for ever"
    connection.connection_lost(None)
    await _turn()
    assert not server.running, "the application waits for ever"
    assert server.budget.held == 0, "what is gone still counts"
    return server.taken, answers(bytes(transport.written))


async def _turn() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)


_LOOP = asyncio.new_event_loop()


def check(data: bytes) -> None:
    """Raises where something does not hold."""
    flags, seed, sent = (data[0], data[1], data[2:]) if len(data) > 1 else (0, 0, data)
    before = sum(unexpected.counts.values())
    whole, whole_answers = _LOOP.run_until_complete(_run([sent] if sent else [], flags))
    pieces, piece_answers = _LOOP.run_until_complete(_run(cut(sent, seed), flags))
    assert sum(unexpected.counts.values()) == before, "an error was logged"
    if any(status == 431 for status, _ in whole_answers + piece_answers) or flags & (LEFT | BROKEN | HALF_CLOSED):
        return
    assert whole == pieces, "how the bytes are cut matters"
    assert list(map(kind, whole_answers)) == list(map(kind, piece_answers)), "how the bytes are cut matters"
