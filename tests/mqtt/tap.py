"""A tap on the connections of clients to an MQTT server: it shows what they acknowledge, and in which order."""

from __future__ import annotations

import contextlib
import socket
import threading

from tests.mqtt.frames import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, Frames, Published, mid_of


class Tap:
    """Passes connections on, and notes: `sent`, the messages from the server; `acknowledged`, the packet identifiers in
    the client's PUBACK and PUBREC packets; `unsettled`, the payloads of those that were not acknowledged (of the
    connection that is open). `cut` breaks all connections."""

    def __init__(self, port: int) -> None:
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.sent: list[Published] = []
        self.acknowledged: list[int] = []
        self.settled: list[bytes] = []
        self.completed: list[int] = []
        self._open: dict[int, bytes] = {}
        self._socks: list[socket.socket] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Tap:
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    @property
    def connected(self) -> bool:
        """Whether a connection is open."""
        return bool(self._socks)

    def cut(self) -> None:
        """Breaks all connections."""
        with self._lock:
            socks, self._socks = self._socks, []
        for sock in socks:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._server), 10)
                except OSError:
                    client.close()
                    continue
                with self._lock:
                    self._socks += [client, server]
                    self._open.clear()
                threading.Thread(target=self._pass, args=(client, server, self._from_client), daemon=True).start()
                threading.Thread(target=self._pass, args=(server, client, self._from_server), daemon=True).start()

    def _pass(self, source: socket.socket, to: socket.socket, look: object) -> None:
        frames = Frames()
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                for kind, flags, body in frames.feed(data):
                    with self._lock:
                        look(kind, flags, body)  # type: ignore[operator]
                to.sendall(data)
        for sock in (source, to):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            with self._lock, contextlib.suppress(ValueError):
                self._socks.remove(sock)
        source.close()

    def _from_server(self, kind: int, flags: int, body: bytes) -> None:
        if kind == PUBLISH:
            message = Published(flags, body)
            self.sent.append(message)
            if message.qos:
                self._open[message.mid] = message.payload
        elif kind == PUBREL:
            self.completed.append(mid_of(body))

    def _from_client(self, kind: int, flags: int, body: bytes) -> None:
        if kind in (PUBACK, PUBREC):
            self.acknowledged.append(mid_of(body))
            if (payload := self._open.pop(mid_of(body), None)) is not None:
                self.settled.append(payload)
        elif kind == PUBCOMP and mid_of(body) in self.completed:
            self.completed.remove(mid_of(body))
