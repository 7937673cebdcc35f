"""A TCP connection that a test can cut: between a component and a server that keeps running."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

_ABORT = struct.pack("ii", 1, 0)


class Link:
    """Forwards connections from `127.0.0.1:port` to a server. `cut` ends all of them and refuses new ones until
    `restore`; the port stays the same. A context manager:

    with Link("127.0.0.1", 5672) as link:
        url = f"amqp://127.0.0.1:{link.port}"
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self.port = 0

    def __enter__(self) -> Link:
        self.restore()
        return self

    def __exit__(self, *error: object) -> None:
        self.cut()
        for thread in self._threads:
            thread.join(10)

    def restore(self) -> None:
        """Takes connections. Returns at once if it does already."""
        with self._lock:
            if self._listener is not None:
                return
            self._listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
            self.port = self._listener.getsockname()[1]
            self._start(self._accept, self._listener)

    def cut(self) -> None:
        """Ends all connections, without the usual exchange of farewells, and refuses new ones."""
        with self._lock:
            listener, self._listener = self._listener, None
            ended, self._sockets = self._sockets, set()
        for end in [*([listener] if listener else []), *ended]:
            _end(end)

    def _start(self, run: object, *args: object) -> None:
        thread = threading.Thread(target=run, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self._target, 10)
            except OSError:
                _end(near)
                continue
            far.settimeout(None)
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                if self._listener is not listener:
                    _end(near)
                    _end(far)
                    return
                self._sockets |= {near, far}
                self._start(self._pump, near, far)
                self._start(self._pump, far, near)

    def _pump(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
        with self._lock:
            mine = one in self._sockets
            self._sockets -= {one, other}
        if mine:
            for end in (one, other):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()


def _end(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads
    end.close()
