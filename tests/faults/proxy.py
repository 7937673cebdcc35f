"""A TCP proxy on 127.0.0.1 that cuts connections in the middle of a message, stalls them, slows them down, and forgets
them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Self

from tests.loop_thread import run_to_the_end

_CHUNK = 65_536


class Proxy:
    """Forwards connections to a port of 127.0.0.1. Its own port stays the same, whatever happens to connections. All
    methods may be called from any thread; a fault concerns the connections that are open and those that come."""

    def __init__(self, target_port: int, port: int = 0) -> None:
        self.port = port
        self.accepted = 0
        """How many connections were accepted."""
        self.cuts = 0
        """How many connections were cut."""
        self.forgotten = 0
        """How many connections were forgotten."""
        self._target = target_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._listens = threading.Event()
        self._flows = asyncio.Event()
        self._connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._rate: float | None = None
        self._cut_after: int | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listens.wait(60), "the proxy did not start"
        return self

    def __exit__(self, *exception: object) -> None:
        if self._thread.ident is None:  # it never started
            self._loop.close()
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)

    def cut(self, after_bytes: int = 0) -> None:
        """Resets every connection once so many more bytes have passed it, in both directions together; the next byte is
        not forwarded."""
        self._call(lambda: self._set_cut(after_bytes))

    def reset(self) -> None:
        """Resets every open connection at once."""

        def reset() -> None:
            for connection in self._connections:
                connection.cut = True
                self.cuts += 1
                for end in connection.ends:
                    _reset(end)

        self._call(reset)

    def stall(self) -> None:
        """Forwards nothing; connections stay open, and new ones are accepted."""
        self._call(self._flows.clear)

    def forget(self) -> int:
        """Forwards nothing on what is open, for ever, and tells neither end, also not that the other has closed: as a
        firewall does that has forgotten a connection. Connections that come later are forwarded. Returns how many were
        forgotten."""
        before = self.forgotten

        def forget() -> None:
            for connection in self._connections:
                self.forgotten += not connection.forgotten
                connection.forgotten = True

        self._call(forget)
        return self.forgotten - before

    def slow(self, bytes_per_s: float) -> None:
        """Forwards at most so many bytes per second on each connection and in each direction."""
        self._call(lambda: setattr(self, "_rate", bytes_per_s))

    def heal(self) -> None:
        """Forwards everything at once again, also what was held up."""

        def heal() -> None:
            self._rate = self._cut_after = None
            for connection in self._connections:
                connection.left = None
            self._flows.set()

        self._call(heal)

    @property
    def open(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    def _call(self, function: Callable[[], object]) -> None:
        done = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (function(), done.set()))
        assert done.wait(60), "the proxy hangs"

    def _set_cut(self, after_bytes: int) -> None:
        self._cut_after = after_bytes
        for connection in list(self._connections):
            connection.left = after_bytes

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._flows.set()
        server = self._loop.run_until_complete(asyncio.start_server(self._accepted, "127.0.0.1", self.port))
        self.port = server.sockets[0].getsockname()[1]
        self._listens.set()
        run_to_the_end(self._loop, server)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # a task of our own: asyncio logs one of its own that is cancelled at the end
        self._tasks.add(task := self._loop.create_task(self._accept(reader, writer)))
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            _reset(writer)
            return
        connection = _Connection(self._cut_after, (writer, far_writer))
        self._connections.add(connection)
        pumps = [
            asyncio.ensure_future(self._pump(reader, far_writer, connection)),
            asyncio.ensure_future(self._pump(far_reader, writer, connection)),
        ]
        try:
            # one direction that ends ends both: no client here half-closes
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._connections.discard(connection)
            for pump in pumps:
                pump.cancel()
            for end in connection.ends:
                _reset(end) if connection.cut else end.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: _Connection) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK if self._rate is None else max(1, int(self._rate / 20))):
                await self._flows.wait()
                if connection.forgotten:
                    break
                if self._rate is not None:
                    await asyncio.sleep(len(data) / self._rate)
                if connection.left is not None:
                    data, over = data[: connection.left], len(data) > connection.left
                    connection.left -= len(data)
                    if over:
                        writer.write(data)
                        await writer.drain()
                        connection.cut = True
                        self.cuts += 1
                        return
                writer.write(data)
                await writer.drain()
        if connection.forgotten:
            await asyncio.Event().wait()


class _Connection:
    """The two ends of a connection, and how many bytes may still pass."""

    def __init__(self, left: int | None, ends: tuple[asyncio.StreamWriter, asyncio.StreamWriter]) -> None:
        self.left = left
        self.ends = ends
        self.cut = False
        self.forgotten = False


def _reset(writer: asyncio.StreamWriter) -> None:
    """Closes the connection with RST, as a machine does that has lost it."""
    if (end := writer.get_extra_info("socket")) is not None and end.fileno() >= 0:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
