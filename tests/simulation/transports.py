"""The gateway's end of the network: asyncio transports, listening sockets, and what `select` and `socket` are there."""

from __future__ import annotations

import asyncio
import errno
import select as real_select
import socket as real_socket
from asyncio.sslproto import SSLProtocol
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from .network import END, RESET, Connection, Endpoint, Item, Network

_WINDOW = 128 * 1024
"""What the kernels of both ends hold of bytes that were written and not read."""
_HIGH = 64 * 1024
_READ = 256 * 1024


class Transport(asyncio.Transport):
    """A TCP connection of the gateway, as asyncio's or uvloop's transport has it."""

    def __init__(self, machine: Machine, connection: Connection, peer: str) -> None:
        super().__init__({"peername": (peer, 40000), "sockname": ("10.0.0.1", 8080), "sslcontext": None})
        self.fd = machine.number(self)
        self._extra: dict[str, Any]
        self._extra["socket"] = SimpleNamespace(fileno=lambda: self.fd, family=real_socket.AF_INET)
        self._machine = machine
        self._connection = connection
        self._loop: Any = None
        self._protocol: Any = None
        self._inbox: deque[bytes] = deque()
        self._end = ""
        self._closing = self._paused = self._reading = self._write_paused = self._closed = False
        self._buffer = bytearray()
        self._unread = 0  # bytes that were sent and that the world has not read
        connection.attach(self)

    def opened(self, loop: Any, protocol: Any) -> Transport:
        """The process has it: its protocol gets what arrives."""
        self._loop, self._protocol = loop, protocol
        loop.call_soon(self._begin)
        return self

    def _begin(self) -> None:
        self._protocol.connection_made(self)
        self._look()

    # -- from the world ---------------------------------------------------------------------------------------------

    def arrived(self, item: Item) -> None:
        """See `network.Kernel`."""
        if self._closed:
            if isinstance(item, bytes):
                self._connection.down.reset()
            return
        if isinstance(item, bytes):
            self._inbox.append(item)
        else:
            self._end = item
        self._look()

    def consumed(self, size: int) -> None:
        """See `network.Kernel`."""
        self._unread -= size
        if self._buffer and self._loop is not None and not self._loop.dead:
            self._loop.call_soon(self._flush)

    def readable(self) -> int:
        """What `poll` would say."""
        found = real_select.POLLIN if self._inbox or self._end else 0
        if self._end:
            found |= getattr(real_select, "POLLRDHUP", 0)
        return found | real_select.POLLHUP | real_select.POLLERR if self._end == RESET else found

    def _look(self) -> None:
        waits = (self._inbox or self._end) and not self._reading and not self._paused and not self._closing
        if waits and self._protocol is not None and not self._loop.dead:
            self._reading = True
            self._loop.call_soon(self._read)

    def _read(self) -> None:
        self._reading = False
        if self._closing or self._paused:
            return
        if self._inbox:
            parts = [self._inbox.popleft()]
            size = len(parts[0])
            while self._inbox and size + len(self._inbox[0]) <= _READ:
                size += len(self._inbox[0])
                parts.append(self._inbox.popleft())
            self._connection.reads(size)
            self._deliver(b"".join(parts) if len(parts) > 1 else parts[0])
            self._look()
        elif self._end == RESET:
            self._lose(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
        elif self._end == END:
            self._paused = True  # nothing more can come, except a reset, which a write finds
            if not self._protocol.eof_received():
                self.close()

    def _deliver(self, data: bytes) -> None:
        if not isinstance(self._protocol, asyncio.BufferedProtocol):
            self._protocol.data_received(data)
            return
        left = memoryview(data)
        while left and not self._closed:  # TLS: it has a buffer of its own
            buffer = memoryview(self._protocol.get_buffer(len(left)))
            size = min(len(left), len(buffer))
            buffer[:size] = left[:size]
            left = left[size:]
            self._protocol.buffer_updated(size)

    # -- asyncio.Transport ------------------------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        if self._closing or not data or self._loop.dead:
            return
        if self._end == RESET:
            self._lose(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
            return
        self._buffer += data
        self._flush()
        if len(self._buffer) > _HIGH and not self._write_paused:
            self._write_paused = True
            self._protocol.pause_writing()

    def _flush(self) -> None:
        room = _WINDOW - self._unread
        if room > 0 and self._buffer and not self._closed:
            data = bytes(self._buffer[:room])
            del self._buffer[:room]
            self._unread += len(data)
            self._connection.down.send(data)
        if self._write_paused and len(self._buffer) <= _HIGH // 4:
            self._write_paused = False
            self._protocol.resume_writing()
        if self._closing and not self._buffer:
            self._lose(None)

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        if not self._buffer:
            self._lose(None)

    def abort(self) -> None:
        self._buffer.clear()
        self._lose(None)

    def _force_close(self, error: Exception | None) -> None:
        self._buffer.clear()
        self._lose(error)

    def _lose(self, error: Exception | None) -> None:
        self._closing = True
        if not self._closed:
            self.cut()
            self._loop.call_soon(self._protocol.connection_lost, error)

    def cut(self) -> None:
        """The socket is closed, by the process or by its end."""
        if not self._closed:
            self._closed = True
            self._machine.free(self.fd)
            if self._inbox or self._end == RESET:
                self._connection.down.reset()
            else:
                self._connection.down.send(END)

    def dark(self) -> None:
        """The machine is off."""
        self._closed = True
        self._connection.dark()

    def gone(self) -> None:
        """The machine is on again and knows nothing of it."""
        self._connection.gone()

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._look()

    def is_reading(self) -> bool:
        return not self._paused and not self._closing

    def get_write_buffer_size(self) -> int:
        return len(self._buffer)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        return

    def can_write_eof(self) -> bool:
        return False

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def get_protocol(self) -> Any:
        return self._protocol

    # -- a socket that was accepted, before it has a protocol ---------------------------------------------------------

    family = real_socket.AF_INET

    def fileno(self) -> int:
        """Its number."""
        return self.fd

    def setblocking(self, flag: bool) -> None:
        """As of a socket."""

    def setsockopt(self, *option: Any) -> None:
        """As of a socket."""

    def send(self, data: bytes) -> int:
        """As of a socket."""
        self._connection.down.send(data)
        return len(data)


async def secured(loop: Any, transport: Transport, protocol: Any, ssl: Any, **options: Any) -> Any:
    """The transport of a connection with TLS, once the handshake is done. Raises what asyncio's would."""
    waiter = loop.create_future()
    tls: Any = SSLProtocol(loop, protocol, ssl, waiter, **options)
    transport.opened(loop, tls)
    try:
        await waiter
    except BaseException:
        transport.close()
        raise
    return tls._app_transport


class Listening:
    """An address on which the machine listens: `sockets` of the process share it."""

    def __init__(self) -> None:
        self.sockets: list[ListeningSocket] = []
        self.backlog: deque[Transport] = deque()

    def add(self, transport: Transport) -> None:
        """A connection is to be accepted."""
        self.backlog.append(transport)
        for sock in self.sockets:
            sock.look()


class ListeningSocket:
    """`socket.socket`, as far as a listener uses it."""

    def __init__(self, machine: Machine) -> None:
        self.family = real_socket.AF_INET
        self._machine = machine
        self._port = 0
        self._on: Listening | None = None
        self._reader: Any = None
        self._looking = False
        self._fd = machine.number(self)

    def setsockopt(self, *option: Any) -> None:
        """As of a socket."""

    def setblocking(self, flag: bool) -> None:
        """As of a socket."""

    def bind(self, address: tuple[Any, ...]) -> None:
        """Raises `OSError` if the port is in use."""
        self._port = address[1] or self._machine.free_port()
        if self._port in self._machine.listening:
            raise OSError(errno.EADDRINUSE, "Address already in use")

    def getsockname(self) -> tuple[str, int]:
        """As of a socket."""
        return ("127.0.0.1", self._port)

    def listen(self, backlog: int = 0) -> None:
        """As of a socket."""
        self._on = self._machine.listening.setdefault(self._port, Listening())
        self._on.sockets.append(self)

    def dup(self) -> ListeningSocket:
        """Another one for the same address."""
        other = ListeningSocket(self._machine)
        other._port, other._on = self._port, self._on
        if self._on is not None:
            self._on.sockets.append(other)
        return other

    def fileno(self) -> int:
        """As of a socket."""
        return self._fd

    def accept(self) -> tuple[Transport, tuple[str, int]]:
        """Raises `BlockingIOError` if nobody waits."""
        if self._on is None or not self._on.backlog:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return self._on.backlog.popleft(), ("10.0.0.2", 40000)

    def add_reader(self, loop: Any, call: Any, args: Any) -> None:
        """See `AbstractEventLoop.add_reader`."""
        self._reader = loop, call, args
        self.look()

    def remove_reader(self) -> bool:
        """See `AbstractEventLoop.remove_reader`."""
        reader, self._reader = self._reader, None
        return reader is not None

    def look(self) -> None:
        """Tells the process if a connection waits."""
        if self._reader is not None and not self._looking and self._on is not None and self._on.backlog:
            loop = self._reader[0]
            if not loop.dead:
                self._looking = True
                loop.call_soon(self._ready)

    def _ready(self) -> None:
        self._looking = False
        if self._reader is not None:
            _, call, args = self._reader
            call(*args)
            self.look()

    def close(self) -> None:
        """As of a socket; the last one frees the address."""
        on, self._on = self._on, None
        self._reader = None
        if on is not None and self in on.sockets:
            on.sockets.remove(self)
            if not on.sockets and self._machine.listening.get(self._port) is on:
                del self._machine.listening[self._port]
                for transport in on.backlog:
                    transport.cut()
        self._machine.free(self._fd)


class Machine:
    """The network of one run of the gateway: numbers of sockets, ports, connections."""

    def __init__(self, network: Network, life: int) -> None:
        self.network = network
        self.life = life
        self.listening: dict[int, Listening] = {}
        self._numbers: dict[int, Any] = {}
        self._next = 100
        self._port = 20000
        self.short: Callable[[], bool] = lambda: False
        """Whether there is no descriptor for another connection."""
        self.socket = SimpleNamespace(
            **{**vars(real_socket), "socket": lambda *kind: ListeningSocket(self), "getaddrinfo": self._addresses}
        )
        self.select = SimpleNamespace(**{**vars(real_select), "poll": lambda: Poll(self)})

    def number(self, thing: Any) -> int:
        """A number for a socket."""
        self._next += 1
        self._numbers[self._next] = thing
        return self._next

    def free(self, number: int) -> None:
        """The number's socket is closed."""
        self._numbers.pop(number, None)

    def find(self, number: int) -> Any:
        """The socket of this number."""
        return self._numbers.get(number)

    def free_port(self) -> int:
        """A port of which nobody knows."""
        self._port += 1
        return self._port

    def _addresses(self, host: Any, port: Any, *more: Any, **options: Any) -> list[Any]:
        return [(real_socket.AF_INET, real_socket.SOCK_STREAM, 6, "", (host or "0.0.0.0", port))]

    async def connect(self, loop: Any, factory: Any, host: str, port: int, **tls: Any) -> tuple[Any, Any]:
        """See `AbstractEventLoop.create_connection`."""
        if self.short():
            raise OSError(errno.EMFILE, "Too many open files")
        future = loop.create_future()

        def opened(found: Connection | str) -> None:
            if loop.dead:
                if isinstance(found, Connection):
                    found.gone()
                return
            loop.call_soon(answer, found)

        def answer(found: Connection | str) -> None:
            if future.cancelled():
                if isinstance(found, Connection):
                    Transport(self, found, host).cut()
            elif found == "refuse":
                text = f"Connect call failed ('{host}', {port})"
                future.set_exception(ConnectionRefusedError(errno.ECONNREFUSED, text))
            elif isinstance(found, str):
                future.set_exception(real_socket.gaierror(real_socket.EAI_NONAME, "Name or service not known"))
            else:
                found.life = self.life
                future.set_result(Transport(self, found, host))

        self.network.open(host, opened)
        transport = await future
        protocol = factory()
        if tls.get("ssl") is not None:
            return await secured(loop, transport, protocol, **tls), protocol
        transport.opened(loop, protocol)
        made = loop.create_future()
        loop.call_soon(lambda: None if made.cancelled() else made.set_result(None))
        try:
            await made
        except BaseException:
            transport.close()
            raise
        return transport, protocol

    def dial(self, port: int, endpoint: Endpoint, name: str) -> None:
        """A connection from the world to the gateway: `endpoint` hears of it, or of its end."""
        latency = self.network.conditions.latency_s

        def reached() -> None:
            listening = self.listening.get(port)
            if listening is None:
                self.network.scheduler.after(latency, endpoint.ended, "refuse")
                return
            connection = self.network.connection(name, endpoint)
            listening.add(Transport(self, connection, "10.0.0.2"))
            self.network.scheduler.after(latency, endpoint.opened, connection)

        self.network.scheduler.after(latency, reached)

    def end(self, *, dark: bool = False) -> None:
        """The process is gone, and with it its sockets. If the machine is `dark`, nobody hears of it until `boot`."""
        self.listening.clear()
        for thing in list(self._numbers.values()):
            if isinstance(thing, Transport):
                thing.dark() if dark else thing.cut()

    def boot(self) -> None:
        """The machine is on again: who is still connected learns that it is not."""
        for thing in list(self._numbers.values()):
            if isinstance(thing, Transport):
                thing.gone()
        self._numbers.clear()


class Poll:
    """`select.poll`."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._asked: list[tuple[int, int]] = []

    def register(self, fd: int, mask: int) -> None:
        """As of `select.poll`."""
        self._asked.append((fd, mask))

    def poll(self, timeout: float = 0) -> list[tuple[int, int]]:
        """What is ready now."""
        found = []
        for fd, mask in self._asked:
            thing = self._machine.find(fd)
            ready = thing.readable() if isinstance(thing, Transport) else real_select.POLLHUP
            if ready & (mask | real_select.POLLHUP | real_select.POLLERR):
                found.append((fd, ready))
        return found
