"""A subscriber that fails some of the time, in its own process: `python -m gateway_demo.subscriber LEDGER`.

It prints its URL, runs until its standard input ends, and then writes what it received to the file LEDGER: JSON,
"rows", event id -> [attempts, accepted, SHA-256 of the body], and "later", event id -> the Unix times at which it came
to the path /later, which never fails. A line on standard input fixes it: it writes the file at once,
prints a line, and accepts everything from then on.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import time
import zlib
from pathlib import Path
from typing import cast

import httptools

_PHRASES = {202: b"Accepted", 422: b"Unprocessable Content", 503: b"Service Unavailable"}


def verdict(id: str, attempt: int) -> int:
    """The status for an attempt (from 1): always the same for the same event, so that a run can be checked. One event
    in 200 is always rejected (422), one in 200 always fails (503), and of the others one in 20 fails at first.
    """
    lot = zlib.crc32(id.encode()) % 200
    if lot == 0:
        return 422
    if lot == 1 or (lot < 12 and attempt == 1):
        return 503
    return 202


def undeliverable(id: str) -> bool:
    """Whether every attempt will fail."""
    return verdict(id, 1_000) != 202


class Book:
    def __init__(self) -> None:
        self.rows: dict[str, tuple[int, int, str]] = {}
        self.later: dict[str, list[float]] = {}
        self.fixed = False

    def write(self, file: Path) -> None:
        file.write_text(json.dumps({"rows": self.rows, "later": self.later}))

    def take_later(self, id: str) -> int:
        self.later.setdefault(id, []).append(time.time())
        return 202

    def take(self, id: str, body: bytes) -> int:
        if self.fixed:
            return 202
        attempts, accepted, digest = self.rows.get(id, (0, 0, ""))
        status = verdict(id, attempts + 1)
        if status == 202:
            accepted, digest = accepted + 1, hashlib.sha256(body).hexdigest()
        self.rows[id] = (attempts + 1, accepted, digest)
        return status


class _Connection(asyncio.Protocol):
    def __init__(self, book: Book) -> None:
        self._book = book
        self._parser = httptools.HttpRequestParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.close()

    def on_message_begin(self) -> None:
        self._id = ""
        self._body = self._path = b""

    def on_url(self, path: bytes) -> None:
        self._path += path

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"ce-id":
            self._id = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        later = self._path.startswith(b"/later")
        status = self._book.take_later(self._id) if later else self._book.take(self._id, self._body)
        self._transport.write(b"HTTP/1.1 %d %s\r\ncontent-length: 0\r\n\r\n" % (status, _PHRASES[status]))


async def serve(ledger: Path) -> None:
    book = Book()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(book), "127.0.0.1", 0, backlog=512)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", flush=True)
    while await loop.run_in_executor(None, sys.stdin.readline):
        book.fixed = True
        book.write(ledger)
        print("fixed", flush=True)
    server.close()
    if not book.fixed:
        book.write(ledger)


if __name__ == "__main__":
    import uvloop

    uvloop.run(serve(Path(sys.argv[1])))
