"""The same limits at every door: the admin API, the `fn` source, and both engines of the `http` source."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.serving.doors import Doors

pytestmark = pytest.mark.usefixtures("processes")

DOORS = ["admin", "fn", "native", "hypercorn"]
LIMITS = "limits: {header_timeout_s: 0.6, idle_timeout_s: 30, max_connections: 20}"
SMUGGLED = (
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
)


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    doors = Doors(tmp_path_factory.mktemp("doors"), LIMITS)
    with doors.subscriber, doors.gateway:
        yield doors


def read_all(sock: socket.socket) -> bytes:
    sock.settimeout(10)
    parts = []
    try:
        while part := sock.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


@pytest.mark.spec("SAFE-10")
@pytest.mark.parametrize("door", DOORS)
def test_two_lengths_are_refused_and_the_connection_closed(doors: Doors, door: str) -> None:
    with socket.create_connection(doors.address(door)) as sock:
        sock.sendall(SMUGGLED)
        answer = read_all(sock)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert len(re.findall(rb"HTTP/1\.1 \d\d\d ", answer)) == 1
    assert b"connection: close" in answer.lower()


@pytest.mark.spec("SAFE-11")
@pytest.mark.parametrize("door", ["fn", "native", "hypercorn"])
def test_half_sent_heads_are_cut_off(doors: Doors, door: str) -> None:
    with ExitStack() as stack:
        half = [stack.enter_context(socket.create_connection(doors.address(door))) for _ in range(15)]
        for sock in half:
            sock.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\n")
        began = time.monotonic()
        assert [read_all(sock)[:13] for sock in half] == [b"HTTP/1.1 408 "] * 15
        assert time.monotonic() - began < 20


@pytest.mark.spec("SAFE-11")
@pytest.mark.parametrize("door", ["fn", "native", "hypercorn"])
def test_connections_are_limited(doors: Doors, door: str) -> None:
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(socket.create_connection(doors.address(door)))
        time.sleep(0.3)  # they are accepted in order, but not at once
        with socket.create_connection(doors.address(door)) as sock:
            assert read_all(sock).startswith(b"HTTP/1.1 503 ")


@pytest.mark.spec("SAFE-11")
@pytest.mark.parametrize("door", ["native with TLS", "hypercorn with TLS"])
def test_tls_handshakes_are_counted_and_timed(doors: Doors, door: str) -> None:
    address = doors.address(door)

    def ask() -> bytes:
        with doors.trust.wrap_socket(socket.create_connection(address), server_hostname="localhost") as sock:
            sock.sendall(b"OPTIONS / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return read_all(sock)

    assert ask().startswith(b"HTTP/1.1 200 ")
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(address)) for _ in range(20)]
        silent[0].sendall(b"\x16\x03\x01")
        time.sleep(0.2)
        assert ask().startswith(b"HTTP/1.1 503 ")
        began = time.monotonic()
        for sock in silent:
            read_all(sock)
        assert time.monotonic() - began < 20
    assert ask().startswith(b"HTTP/1.1 200 ")
