"""What a storm of faults is counted by: senders that insist on a 2xx, and a ledger of what was accepted, delivered."""

from __future__ import annotations

import base64
import fcntl
import http.client
import json
import os
import random
import socket
import tempfile
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from gateway_testing import Received

NEVER = 97
"""Every event whose number is a multiple of this is never taken by the subscriber."""


def body_of(number: int) -> bytes:
    """A body of its own for each event: raw bytes, of many sizes."""
    return random.Random(number).randbytes(number % 700) + b"%d" % number


def key_of(number: int) -> str:
    """One of some hundred keys."""
    return f"key-{number % 211}"


_RANGES = 8
_given: set[int] = set()


class Ledger:
    """What was sent, what got a 2xx, and what arrived where."""

    def __init__(self, refusing: float = 0.1, never: int = NEVER) -> None:
        self.refusing = refusing
        self.never = never
        self._lock = threading.Lock()
        self.closed_doors = 0  # connections that nobody listened to
        self.accepted: set[int] = set()
        self.delivered: dict[int, int] = {}
        self.wrong: list[str] = []
        self._random = random.Random(4)

    def answer(self, received: Received) -> int:
        """The subscriber: some are refused for now, every `never`th for ever; bytes are compared."""
        number = int(received.headers["ce-id"])
        with self._lock:
            if number % self.never == 0 or self._random.random() < self.refusing:
                return 503
            if received.body != body_of(number):
                self.wrong.append(received.headers["ce-id"])
            self.delivered[number] = self.delivered.get(number, 0) + 1
        return 202

    def send(self, url: str, numbers: range, finished: threading.Event) -> None:
        """Sends each event until it gets a 2xx; a connection that breaks is opened again."""
        parts = urlsplit(url)
        connection: http.client.HTTPConnection | None = None
        for number in numbers:
            while not finished.is_set():
                try:
                    if connection is None:
                        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
                    connection.request("POST", parts.path, body_of(number), headers(number))
                    answer = connection.getresponse()
                    answer.read()
                except (OSError, http.client.HTTPException) as e:
                    self.closed_doors += isinstance(e, ConnectionRefusedError)
                    if connection is not None:
                        connection.close()
                    connection = None
                    time.sleep(0.02)
                    continue
                if 200 <= answer.status < 300:
                    with self._lock:
                        self.accepted.add(number)
                    break
        if connection is not None:
            connection.close()


def headers(number: int) -> dict[str, str]:
    return {
        "ce-specversion": "1.0",
        "ce-id": str(number),
        "ce-source": "/crash",
        "ce-type": "crash.test",
        "ce-partitionkey": key_of(number),
        "content-type": "application/octet-stream",
    }


def start_senders(ledger: Ledger, url: str, count: int, finished: threading.Event) -> list[threading.Thread]:
    """Eight senders share the events."""
    share = -(-count // 8)
    threads = [
        threading.Thread(
            target=ledger.send, args=(url, range(1 + i * share, min(count, (i + 1) * share) + 1), finished)
        )
        for i in range(8)
    ]
    for thread in threads:
        thread.start()
    return threads


@cache
def _range() -> int:
    """This process's share of the ports, up to its end: several workers, runs and soaks may be under way. Where too
    many are, some have the same."""
    for number in range(_RANGES):
        lock = os.open(f"{tempfile.gettempdir()}/tidegate-ports-{os.getuid()}-{number}", os.O_RDWR | os.O_CREAT, 0o600)
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return number  # and keeps the lock
        os.close(lock)
    return os.getpid() % _RANGES


def free_port() -> int:
    """A port that nobody listens on, and that no outgoing connection gets by chance: a gateway that is killed has to
    get it again. No other process that asks gets it, and no later call: whoever asked may not listen yet."""
    number = _range()
    while True:
        port = random.SystemRandom().randrange(12_000 + number, 20_000, _RANGES)  # above are those of `gateway_java`
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            if port not in _given:
                _given.add(port)
                return port


def dead_letters(folder: Path) -> dict[int, bytes]:
    """Number and bytes of every event in the dead letter."""
    found = {}
    for file in folder.glob("*.jsonl"):
        for line in file.read_bytes().splitlines():
            event = json.loads(line)["event"]
            found[int(event["id"])] = base64.b64decode(event["data_base64"]) if "data_base64" in event else b""
    return found
