"""A tap on the connections of clients to an MQTT server: it shows what they acknowledge, and in which order."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

from tests.mqtt.frames import CONNECT, PUBACK, PUBLISH, PUBREC, Frames, Published, mid_of


class _Connection:
    """One connection: its version of MQTT, and the messages without acknowledgement."""

    def __init__(self) -> None:
        self.version = 5
        self.payloads: dict[int, bytes] = {}


class Tap:
    """Passes connections on, and notes: `sent`, the messages from the server; `acknowledged`, the packet identifiers in
    the clients' PUBACK and PUBREC packets; `settled`, the payloads of the messages that they acknowledge. `cut` breaks
    all connections, `leave` refuses new ones, too, until `take`."""

    def __init__(self, port: int) -> None:
        self._server = port
        self._listener: socket.socket | None = None
        self._lock = threading.Lock()
        self._half_open: dict[socket.socket, int] = {}
        self.port = 0
        self.sent: list[Published] = []
        self.acknowledged: list[int] = []
        self.settled: list[bytes] = []
        self.take()

    def __enter__(self) -> Tap:
        return self

    def __exit__(self, *error: object) -> None:
        self.leave()

    @property
    def connected(self) -> bool:
        """Whether a connection is connection."""
        return bool(self._half_open)

    def take(self) -> None:
        """Takes connections."""
        self._listener = listener = socket.create_server(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def leave(self) -> None:
        """Breaks all connections, and takes none."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self.cut()

    def cut(self) -> None:
        """Breaks all connections."""
        with self._lock:
            for sock in self._half_open:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._server), 10)
                except OSError:
                    client.close()
                    continue
                server.settimeout(None)
                with self._lock:
                    self._half_open[client] = self._half_open[server] = 2
                connection = _Connection()
                for ends in ((client, server, self._from_client), (server, client, self._from_server)):
                    threading.Thread(target=self._pass, args=(*ends, connection), daemon=True).start()

    def _pass(
        self,
        source: socket.socket,
        to: socket.socket,
        look: Callable[[_Connection, int, int, bytes], None],
        connection: _Connection,
    ) -> None:
        frames = Frames()
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                for kind, flags, body in frames.feed(data):
                    with self._lock:
                        look(connection, kind, flags, body)
                to.sendall(data)
        with contextlib.suppress(OSError):
            to.shutdown(socket.SHUT_WR)
        with self._lock:
            self._half_open[source] = self._half_open[to] = self._half_open[source] - 1
            if self._half_open[source]:
                return
            del self._half_open[source], self._half_open[to]
        source.close()
        to.close()

    def _from_server(self, connection: _Connection, kind: int, flags: int, body: bytes) -> None:
        if kind == PUBLISH:
            message = Published(flags, body, connection.version)
            self.sent.append(message)
            if message.qos:
                connection.payloads[message.mid] = message.payload

    def _from_client(self, connection: _Connection, kind: int, flags: int, body: bytes) -> None:
        if kind == CONNECT:
            connection.version = body[6]
        elif kind in (PUBACK, PUBREC):
            self.acknowledged.append(mid_of(body))
            if (payload := connection.payloads.pop(mid_of(body), None)) is not None:
                self.settled.append(payload)
