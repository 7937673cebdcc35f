"""A stop waits for answers, and for no client that keeps its connection half open; hostile HTTP/2 ends itself only."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import h2.connection
import pytest

from tests import web
from tests.serving.doors import Doors

pytestmark = pytest.mark.usefixtures("processes")


HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\n"
BODY = HEAD + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\nabc"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

STOP_S = 200  # a busy machine needs a minute and more; a gateway that waits for connections needs ten times as long


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[Doors]:
    doors = Doors(tmp_path, limits="limits: {}", env={"TIDEGATE_DRAIN_TIMEOUT_S": str(10 * STOP_S)})
    with doors.subscriber, doors.gateway:
        yield doors


def faults(doors: Doors) -> list[str]:
    """Errors in the log. That a broker takes nothing while it stops is none."""
    lines = doors.gateway.stderr.read_text().splitlines()
    return [
        line for line in lines if "Traceback" in line or ('"level":"error"' in line and "IngressClosed" not in line)
    ]


@pytest.mark.spec("SAFE-15")
def test_half_open_connections_do_not_hold_up_a_stop(doors: Doors) -> None:
    secure = ("native with TLS", "hypercorn with TLS")
    addresses = {door: doors.address(door) for door in ("admin", "fn", "native", "hypercorn", *secure)}
    with ExitStack() as stack:

        def opened(door: str, data: bytes, secured: bool = False) -> socket.socket:
            sock = stack.enter_context(socket.create_connection(addresses[door]))
            if secured:
                sock = stack.enter_context(doors.trust.wrap_socket(sock, server_hostname="localhost"))
            sock.sendall(data)
            return sock

        for door in ("admin", "fn", "native", "hypercorn"):
            for data in (b"", HEAD, BODY, PREFACE, b"PRI"):
                opened(door, data)
        for door in secure:
            opened(door, b"")
            opened(door, b"\x16\x03\x01")
            for data in (b"", HEAD, BODY):
                opened(door, data, secured=True)
        token = f"Authorization: {doors.gateway.admin_headers['authorization']}\r\n\r\n".encode()
        tap = opened("admin", b"GET /api/v1/tap HTTP/1.1\r\nHost: localhost\r\n" + token)
        assert tap.recv(100).startswith(b"HTTP/1.1 200 ")
        unread = opened("admin", (b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n" + token) * 100)
        time.sleep(0.5)
        assert doors.gateway.stop(STOP_S) == 0
        assert unread.fileno() >= 0
    assert faults(doors) == []


@pytest.mark.spec("SAFE-15")
def test_frames_at_random_end_their_connection_and_log_nothing(doors: Doors) -> None:
    client = h2.connection.H2Connection()
    client.initiate_connection()
    fields = [(":method", "POST"), (":path", "/"), (":scheme", "http"), (":authority", "localhost")]
    client.send_headers(1, [*fields, ("content-length", "3")])
    client.send_data(1, b"abc", end_stream=True)
    client.send_headers(3, [(":method", "CONNECT"), (":authority", "localhost")])
    client.send_headers(5, [(":method", "post"), *fields[1:]])
    client.send_data(5, b"x" * 1000)
    client.ping(b"12345678")
    client.reset_stream(5)
    seed = client.data_to_send()
    dice = random.Random(11)
    address = doors.address("hypercorn")
    began = time.monotonic()
    for _ in range(200):
        raw = bytearray(seed)
        for _ in range(dice.randrange(0, 8)):
            raw[dice.randrange(len(PREFACE), len(raw))] = dice.randrange(256)
        with socket.create_connection(address) as sock:
            sock.sendall(raw[: dice.randrange(10, len(raw) + 1)])
            sock.settimeout(0.02)
            try:
                sock.recv(65536)
            except OSError:
                continue
    assert time.monotonic() - began < 60
    with web.client(http1=False, http2=True, verify=False) as http:
        url = "http://{}:{}/".format(*address)
        headers = {"ce-specversion": "1.0", "ce-type": "t", "ce-source": "/s", "ce-id": "1"}
        assert http.post(url, headers=headers).status_code == 202
        assert http.post(url, headers=headers, content=b"x" * 3_000_000).status_code == 413
        assert http.request("FOO", url).status_code == 405
    assert faults(doors) == []


@pytest.mark.spec("SAFE-15")
def test_an_answer_that_no_window_is_opened_for_holds_up_nothing(doors: Doors) -> None:
    """A client of HTTP/2 that grants no room for answers is still within the limits, and a stop does not wait."""
    with ExitStack() as stack:
        address = doors.address("hypercorn")
        for _ in range(20):
            client = h2.connection.H2Connection()
            client.local_settings.initial_window_size = 0
            client.initiate_connection()
            client.send_headers(1, [(":method", "GET"), (":path", "/"), (":scheme", "http"), (":authority", "x")], True)
            sock = stack.enter_context(socket.create_connection(address))
            sock.sendall(client.data_to_send())
        time.sleep(0.5)
        assert doors.gateway.stop(STOP_S) == 0
