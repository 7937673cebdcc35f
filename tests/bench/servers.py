"""The HTTP/1 servers of the gateway side by side: CPU of a request, and memory of idle connections.

    python tests/bench/servers.py [--rounds 5] [--requests 4000]

Each case runs in a process of its own, cases are interleaved in rounds, and medians are shown. The client is a thread
of that process; its CPU is measured (`thread_time`) and subtracted. "native" is the server of the `http` source with
the codec, which answers a POST with 202 and a GET with 405; "h11" is the server of the admin API and of functions, with
an application that answers with some bytes of JSON.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from gateway_serving.asgi import AsgiServer, Receive, Scope, Send, listening, read_body, respond
from gateway_testing.suites import Kit, MemoryIntake

POST = (
    b"POST / HTTP/1.1\r\nHost: localhost\r\nce-specversion: 1.0\r\nce-id: 1\r\nce-source: /bench\r\nce-type: t\r\n"
    b"Content-Type: application/json\r\nContent-Length: 256\r\n\r\n" + b"1" * 256
)
GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n"
CASES = {
    "native, POST": ("native", POST, 0),
    "h11, POST": ("h11", POST, 0),
    "native, GET (refused)": ("native", GET, 0),
    "h11, GET /healthz": ("h11", GET, 2),
    "h11, GET 4 KB of JSON": ("h11", GET, 4096),
}
IDLE = 500
"""Connections that wait, each after one request."""


async def answered(size: int, scope: Scope, receive: Receive, send: Send) -> None:
    await read_body(receive, 1 << 20)
    await respond(send, 200, [(b"content-type", b"application/json")], b"x" * size, head=False)


def ask(sock: socket.socket, request: bytes) -> None:
    sock.sendall(request)
    got = b""
    while b"\r\n\r\n" not in got:
        got += sock.recv(65536)
    head, _, body = got.partition(b"\r\n\r\n")
    found = re.search(rb"content-length: (\d+)", head.lower())
    missing = int(found[1]) - len(body) if found else 0
    while missing > 0:
        missing -= len(sock.recv(65536))


def client(port: int, request: bytes, count: int) -> dict[str, float]:
    """Plays all requests on one connection, then opens the idle ones."""
    with socket.create_connection(("127.0.0.1", port)) as sock:
        for _ in range(300):
            ask(sock, request)
        cpu, own = time.process_time(), time.thread_time()
        for _ in range(count):
            ask(sock, request)
        spent = time.process_time() - cpu - (time.thread_time() - own)
    before = resident()
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(IDLE)]
    for sock in idle:
        ask(sock, request)
    held = resident() - before
    for sock in idle:
        sock.close()
    return {"cpu_us": spent * 1e6 / count, "kb_idle": held / IDLE / 1024}


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def side(case: str, count: int) -> None:
    kind, request, size = CASES[case]
    async with anyio.create_task_group() as tasks:
        with tempfile.TemporaryDirectory() as folder:
            if kind == "h11":
                sock = listening("127.0.0.1:0")
                port = sock.getsockname()[1]
                AsgiServer(partial(answered, size)).start([sock], tasks, graceful_s=1)
            else:
                source: Any = Kit(Path(folder)).source("http", {"listen": "127.0.0.1:0", "codec": "cloudevents"})
                await source.start(MemoryIntake(), tasks)
                port = int(source.address.rstrip("/").rpartition(":")[2])
            print(json.dumps(await anyio.to_thread.run_sync(client, port, request, count)), flush=True)
        tasks.cancel_scope.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        anyio.run(side, given.side, given.requests, backend_options={"use_uvloop": True})
        return
    runs: dict[str, list[dict[str, float]]] = {case: [] for case in CASES}
    for _ in range(given.rounds):
        for case, found in runs.items():
            command = [sys.executable, __file__, "--side", case, "--requests", str(given.requests)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120, check=True)
            found.append(json.loads(done.stdout.splitlines()[-1]))
    for case, found in runs.items():
        cpu, kb = (statistics.median(run[what] for run in found) for what in ("cpu_us", "kb_idle"))
        print(f"{case:26} {cpu:7.1f} us/request {kb:7.1f} KB per idle connection (both ends)")


if __name__ == "__main__":
    main()
