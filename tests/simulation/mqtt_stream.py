"""What the MQTT plugin gets in place of a socket: a stream of the simulated network."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from gateway_mqtt import client
from paho.mqtt import client as paho

if TYPE_CHECKING:
    from .world import World


class _Descriptor(int):
    """The number of a stream, with which the event loop finds it (`loop.Loop.add_reader`)."""

    stream: SimulatedStream

    def add_reader(self, loop: Any, call: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """See `AbstractEventLoop.add_reader`."""
        self.stream.reader = lambda: call(*args)
        if self.stream.pending:
            loop.call_soon(self.stream.look)

    def remove_reader(self) -> bool:
        """See `AbstractEventLoop.remove_reader`."""
        reader, self.stream.reader = self.stream.reader, None
        return reader is not None


class SimulatedStream(asyncio.Protocol):
    """`gateway_mqtt.stream.Stream` over a transport of the simulated machine."""

    def __init__(self) -> None:
        self.reader: Callable[[], Any] | None = None
        self._in = bytearray()
        self._out = bytearray()
        self._end: Exception | str | None = ""
        self._gone: asyncio.Event = asyncio.Event()
        self._transport: Any = None
        self._number = _Descriptor(0)

    # -- asyncio.Protocol -------------------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._number = _Descriptor(transport.fd)
        self._number.stream = self

    def data_received(self, data: bytes) -> None:
        self._in += data
        self.look()

    def eof_received(self) -> bool:
        self._ended(None)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended(exc)

    def _ended(self, exc: Exception | None) -> None:
        if self._end == "":
            self._end = exc
        self._gone.set()
        self.look()

    def look(self) -> None:
        """Tells the reader that something can be read."""
        if self.reader is not None and (self._in or self._end != ""):
            self.reader()

    # -- gateway_mqtt.stream.Stream ---------------------------------------------------------------------------------

    @property
    def pending(self) -> bool:
        return bool(self._in) or self._end != ""

    def recv(self, most: int) -> bytes:
        if not self._in:
            if self._end == "":
                raise BlockingIOError
            if isinstance(self._end, Exception):
                raise self._end
            return b""
        data = bytes(self._in[:most])
        del self._in[:most]
        return data

    def send(self, data: bytes | bytearray) -> int:
        self._out += data
        return len(data)

    @property
    def backlog(self) -> int:
        return len(self._out)

    def flush(self) -> bool:
        if self._transport.is_closing():
            raise ConnectionResetError
        self._transport.write(bytes(self._out))
        self._out.clear()
        return True

    def fileno(self) -> int:
        return self._number

    def setblocking(self, flag: bool) -> None:
        """As of a socket."""

    def close(self) -> None:
        if not self._transport.is_closing():
            self.flush()

    async def ended(self) -> None:
        await self._gone.wait()

    def abort(self) -> None:
        self._transport.close()


async def _connect(host: str, port: int, tls: ssl.SSLContext | None) -> SimulatedStream:
    _, stream = await asyncio.get_running_loop().create_connection(SimulatedStream, host, port)
    return stream


@contextmanager
def streaming(world: World) -> Iterator[None]:
    """Inside, the plugin's streams are those of this world, and paho's time is its time."""
    with patch.object(client, "connect", _connect), patch.object(paho, "time_func", world.monotonic):
        yield
