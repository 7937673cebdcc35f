"""Every listener draws on its budget for what has not come in completely: whatever a stranger sends, however slowly,
the memory of the process stays below a ceiling."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
import pytest
from gateway_testing import GatewayProcess, Subscriber

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.spec("SAFE-12", "SAFE-101")]

MIB = 1024 * 1024
OFFERED = 150 * MIB
"""What each attack tries to send."""
CEILING = 70 * MIB
LONGEST_S = 4.0
LIMITS = f"limits: {{max_unfinished_bytes: {8 * MIB}, body_timeout_s: 60}}"

Address = tuple[str, int]
Attack = Callable[[Address, str], None]


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def growth(pid: int, attack: Callable[[], None]) -> int:
    """By how many bytes the process has grown at most while this runs."""
    before = most = resident(pid)
    ended = threading.Event()

    def run() -> None:
        try:
            attack()
        finally:
            ended.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    until = time.monotonic() + 4 * LONGEST_S
    while not ended.wait(0.02) and time.monotonic() < until:
        most = max(most, resident(pid))
    return max(most, resident(pid)) - before


def pour(socks: list[socket.socket], part: bytes, each: int) -> None:
    """Writes up to so many bytes to each, as long as anybody takes them."""
    left = dict.fromkeys(socks, each)
    for sock in socks:
        sock.setblocking(False)
    until = time.monotonic() + LONGEST_S
    sent_at = time.monotonic()
    while left and time.monotonic() < until and time.monotonic() - sent_at < 2:
        for sock in list(left):
            try:
                sent = sock.send(part[: left[sock]])
            except BlockingIOError:
                continue
            except OSError:
                del left[sock]
                continue
            sent_at = time.monotonic()
            left[sock] -= sent
            if left[sock] <= 0:
                del left[sock]
        time.sleep(0.001)


@contextmanager
def connected(address: Address, count: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(address, 10)) for _ in range(count)]


def head(path: str, length: str) -> bytes:
    fields = "ce-specversion: 1.0\r\nce-type: t\r\nce-source: /s\r\nce-id: 1\r\n"
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{fields}{length}\r\n\r\n".encode()


# -- HTTP/1.1 ----------------------------------------------------------------------------------------------


def slow(address: Address, path: str) -> None:
    """Many bodies, each of which lacks its last byte."""
    with connected(address, OFFERED // MIB) as socks:
        for sock in socks:
            sock.sendall(head(path, f"Content-Length: {MIB}"))
        pour(socks, bytes(65536), MIB - 1)


def endless(address: Address, path: str) -> None:
    with connected(address, 4) as socks:
        for sock in socks:
            sock.sendall(head(path, "Transfer-Encoding: chunked"))
        pour(socks, b"10000\r\n" + bytes(65536) + b"\r\n", OFFERED // 4)


def answered_early(address: Address, path: str) -> None:
    """Bodies for what is not there, by a client that reads no answer."""
    with connected(address, 20) as socks:
        for sock in socks:
            sock.sendall(head("/nothing-here", f"Content-Length: {OFFERED}"))
        pour(socks, bytes(65536), OFFERED // 20)


# -- HTTP/2 ----------------------------------------------------------------------------------------------


class Http2:
    """A client that opens streams and never reads an answer: its windows are closed."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._http = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None))
        closed = {h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0}
        self._http.local_settings = h2.settings.Settings(client=True, initial_values=closed)
        self._http.initiate_connection()
        self._flush()

    def _flush(self) -> None:
        self._sock.sendall(self._http.data_to_send())

    def open(self, path: str) -> int:
        number = self._http.get_next_available_stream_id()
        fields = {":method": "POST", ":path": path, ":scheme": "http", ":authority": "localhost"}
        fields |= {"ce-id": "1", "ce-type": "t", "ce-source": "/s", "ce-specversion": "1.0"}
        self._http.send_headers(number, list(fields.items()))
        return number

    def pour(self, left: dict[int, int]) -> None:
        self._sock.settimeout(0.5)
        until = time.monotonic() + LONGEST_S
        while left and time.monotonic() < until:
            went = 0
            for number in list(left):
                try:
                    size = min(left[number], self._http.local_flow_control_window(number), 16384)
                    if size > 0:
                        self._http.send_data(number, bytes(size))
                except h2.exceptions.ProtocolError:
                    del left[number]
                    continue
                left[number] -= max(size, 0)
                went += max(size, 0)
                if not left[number]:
                    del left[number]
            self._flush()
            with suppress(TimeoutError):
                if not went or self._waits():
                    data = self._sock.recv(65536)
                    if not data:
                        return
                    self._http.receive_data(data)

    def _waits(self) -> bool:
        self._sock.setblocking(False)
        try:
            return bool(self._sock.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return False
        finally:
            self._sock.settimeout(0.5)


def http2(address: Address, path: str, streams: int, each: int) -> None:
    with connected(address, 2) as socks:

        def run(sock: socket.socket) -> None:
            with suppress(OSError, h2.exceptions.ProtocolError):
                client = Http2(sock)
                client.pour({client.open(path): each for _ in range(streams)})

        threads = [threading.Thread(target=run, args=(sock,), daemon=True) for sock in socks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * LONGEST_S)


def http2_slow(address: Address, path: str) -> None:
    http2(address, path, OFFERED // MIB // 2, MIB - 1)


def http2_endless(address: Address, path: str) -> None:
    http2(address, path, 1, OFFERED // 2)


def http2_answered_early(address: Address, path: str) -> None:
    http2(address, "/nothing-here", 4, OFFERED // 8)


# -- WebSocket ----------------------------------------------------------------------------------------------

UPGRADE = (
    "GET %s HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: cloudevents.json\r\n\r\n"
)


@contextmanager
def upgraded(address: Address, path: str, count: int) -> Iterator[list[socket.socket]]:
    with connected(address, count) as socks:
        for sock in socks:
            sock.sendall((UPGRADE % path).encode())
        for sock in socks:
            assert sock.recv(4096).startswith(b"HTTP/1.1 101 ")
        yield socks


def websocket_slow(address: Address, path: str) -> None:
    """Messages that lack their last byte."""
    with upgraded(address, path, OFFERED // MIB) as socks:
        for sock in socks:
            sock.sendall(b"\x81\xff" + MIB.to_bytes(8, "big") + bytes(4))
        pour(socks, bytes(65536), MIB - 1)


def websocket_endless(address: Address, path: str) -> None:
    """Fragments of messages that have no end."""
    fragment = b"\x00\xfe" + (1000).to_bytes(2, "big") + bytes(4) + bytes(1000)
    with upgraded(address, path, OFFERED // MIB) as socks:
        for sock in socks:
            sock.sendall(b"\x01\x80" + bytes(4))
        pour(socks, fragment * 64, MIB - 2000)


def websocket_answered_early(address: Address, path: str) -> None:
    """Data behind a handshake that is refused."""
    with connected(address, 20) as socks:
        for sock in socks:
            sock.sendall((UPGRADE % "/nothing-here").encode())
        pour(socks, bytes(65536), OFFERED // 20)


H1: dict[str, Attack] = {"slow": slow, "endless": endless, "answered early": answered_early}
H2: dict[str, Attack] = {"slow": http2_slow, "endless": http2_endless, "answered early": http2_answered_early}
WS: dict[str, Attack] = {
    "slow": websocket_slow,
    "endless": websocket_endless,
    "answered early": websocket_answered_early,
}
DOORS = {"native": H1, "hypercorn": H1, "hypercorn h2": H2, "fn": H1, "websocket": WS, "pull": H1, "admin": H1}
SHORT = {("hypercorn h2", "answered early"), ("websocket", "slow"), ("websocket", "endless")}
MATRIX = [
    pytest.param(door, name, marks=[] if (door, name) in SHORT else [pytest.mark.full], id=f"{door}-{name}")
    for door, attacks in DOORS.items()
    for name in attacks
]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with Subscriber() as subscriber:
        config = f"""
brokers:
  default:
    ingress:
      - http: {{listen: "127.0.0.1:0", {LIMITS}}}
      - http: {{listen: "127.0.0.1:0", server: hypercorn, {LIMITS}}}
      - fn: {{listen: "127.0.0.1:0", function: "{subscriber.url}", max_body_bytes: {MIB}, {LIMITS}}}
      - websocket: {{listen: "127.0.0.1:0", {LIMITS}}}
triggers:
  all: {{subscriber: {{pull: {{listen: "127.0.0.1:0", path: /sub, {LIMITS}}}}}}}
"""
        with GatewayProcess(config, tmp_path_factory.mktemp("gateway")) as running:
            yield running


def door_of(gateway: GatewayProcess, door: str) -> tuple[Address, str]:
    status = gateway.status()
    urls = dict(zip(["native", "hypercorn", "fn", "websocket"], status["brokers"][0]["ingress"], strict=True))
    urls["hypercorn h2"] = urls["hypercorn"]
    urls["pull"] = status["triggers"][0]["subscriber"]
    urls["admin"] = gateway.admin_url
    parts = urlsplit(urls[door])
    return (str(parts.hostname), int(parts.port or 0)), parts.path or "/"


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("door", "attack"), MATRIX)
def test_what_strangers_send_takes_bounded_memory(gateway: GatewayProcess, door: str, attack: str) -> None:
    address, path = door_of(gateway, door)
    grown = growth(gateway.pid, lambda: DOORS[door][attack](address, path))
    assert grown < CEILING, f"{grown // MIB} MiB"
    gateway.wait_until(lambda: gateway.status()["processes"][0]["unfinished_bytes"] == 0, 30, "the budget is free")


KEEPS_ALL = """
import socket, threading
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
kept = []
def keep(sock):
    while data := sock.recv(65536):
        kept.append(data)
while True:
    threading.Thread(target=keep, args=(server.accept()[0],), daemon=True).start()
"""


def test_the_ceiling_sees_a_listener_that_keeps_everything() -> None:
    with subprocess.Popen([sys.executable, "-c", KEEPS_ALL], stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            assert growth(server.pid, lambda: answered_early(("127.0.0.1", port), "/")) > CEILING
        finally:
            server.kill()
