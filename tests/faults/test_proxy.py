"""The proxy forwards, cuts where it is told to, stalls and slows."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.faults.proxy import Proxy


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that says back what it hears."""

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(65_536):
                    connection.sendall(data)
            except OSError:
                pass

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(60)


def read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := connection.recv(size - len(data))):
        data += more
    return data


def test_it_cuts_in_the_middle_of_a_message(echo: int) -> None:
    with Proxy(echo) as proxy, socket.create_connection(("127.0.0.1", proxy.port), 60) as connection:
        connection.sendall(b"whole")
        assert read(connection, 5) == b"whole"
        proxy.cut(after_bytes=3)
        connection.sendall(b"broken")
        with pytest.raises(ConnectionResetError):
            read(connection, 1000)
        assert proxy.cuts == 1
        proxy.heal()
        with socket.create_connection(("127.0.0.1", proxy.port), 60) as again:
            again.sendall(b"whole")
            assert read(again, 5) == b"whole"
        assert proxy.accepted == 2


def test_it_resets_what_is_open_and_takes_new_connections(echo: int) -> None:
    with Proxy(echo) as proxy, socket.create_connection(("127.0.0.1", proxy.port), 60) as connection:
        connection.sendall(b"whole")
        assert read(connection, 5) == b"whole"
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            read(connection, 1)
        assert proxy.cuts == 1
        with socket.create_connection(("127.0.0.1", proxy.port), 60) as again:
            again.sendall(b"whole")
            assert read(again, 5) == b"whole"


def test_it_stalls_and_goes_on(echo: int) -> None:
    with Proxy(echo) as proxy, socket.create_connection(("127.0.0.1", proxy.port), 60) as connection:
        proxy.stall()
        connection.sendall(b"late")
        connection.settimeout(0.1)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.settimeout(60)
        proxy.heal()
        assert read(connection, 4) == b"late"


def test_it_forgets_what_is_open_and_tells_nobody(echo: int) -> None:
    with Proxy(echo) as proxy, socket.create_connection(("127.0.0.1", proxy.port), 60) as connection:
        connection.sendall(b"whole")
        assert read(connection, 5) == b"whole"
        assert proxy.forget() == 1
        connection.sendall(b"lost")
        with socket.create_connection(("127.0.0.1", proxy.port), 60) as again:
            again.sendall(b"whole")
            assert read(again, 5) == b"whole"
            assert proxy.forget() == 1, "only the one that came later is left to be forgotten"
        proxy.heal()
        connection.settimeout(0.1)
        with pytest.raises(TimeoutError):
            connection.recv(1)


def test_it_slows(echo: int) -> None:
    with Proxy(echo) as proxy, socket.create_connection(("127.0.0.1", proxy.port), 60) as connection:
        proxy.slow(10_000)
        begun = time.monotonic()
        connection.sendall(b"x" * 2000)
        assert read(connection, 2000) == b"x" * 2000
        assert time.monotonic() - begun >= 0.2


def test_nobody_listens_behind_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    # the reset can arrive before the client has noticed that it is connected
    with (
        Proxy(port) as proxy,
        contextlib.suppress(ConnectionResetError),
        socket.create_connection(("127.0.0.1", proxy.port), 60) as connection,
    ):
        assert connection.recv(1) == b""
