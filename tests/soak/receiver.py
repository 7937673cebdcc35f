"""The subscriber and the dead letter of a soak: a process that compares every byte and writes down every arrival.

Arguments: folder of the ledger, capacity, port, its number in `Control`, `time.monotonic()` at the begin of the run.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from pathlib import Path
from urllib.parse import unquote

import httptools
import uvloop

from tests.soak.ledger import PLACES, Account, Control
from tests.soak.traffic import NEVER, ROUTES, attributes_of, body_of, read_source

_ANSWERS = {code: f"HTTP/1.1 {code} x\r\ncontent-length: 0\r\n\r\n".encode() for code in (202, 400, 503)}
_BUSY = 0.01
"""So many events get a 503 before they are taken."""


class Books:
    """All that this process writes, and what every connection needs."""

    def __init__(self, folder: Path, capacity: int, index: int, began: float) -> None:
        self.accounts = {route.name: Account(folder, route.name, capacity) for route in ROUTES}
        self.control = Control(folder)
        self.index = index
        self.began = began
        self.chance = random.Random(index)
        self._wrong = folder / "wrong.jsonl"

    def wrong(self, what: str, path: str, attributes: dict[str, str], body: bytes) -> None:
        """Writes down an arrival that is not as it was sent."""
        row = {"what": what, "path": path, "attributes": attributes, "body": body[:200].hex()}
        with self._wrong.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def take(self, path: str, attributes: dict[str, str], body: bytes) -> int:
        """Writes an arrival down; returns the answer's status."""
        place = path.strip("/")
        try:
            route = read_source(attributes["source"])
            number = int(attributes["id"])
            account = self.accounts[route]
        except (KeyError, ValueError):
            self.wrong("stranger", path, attributes, body)
            return 202
        if place == "dead" and attributes.get("tidegatetrigger") == "proxied":
            place = "dead-proxied"
        if place not in PLACES:
            self.wrong("place", path, attributes, body)
            return 202
        if not place.startswith("dead"):
            if number % NEVER == 0:
                return 400
            if self.chance.random() < _BUSY:
                return 503
        expected = attributes_of(route, number)
        known = attributes if len(attributes) == len(expected) else {n: attributes.get(n, "") for n in expected}
        if known != expected or (known is not attributes and not place.startswith("dead")):
            self.wrong("attributes", path, attributes, body)
        if body != body_of(number):
            self.wrong("body", path, attributes, body)
        second = int(time.monotonic() - self.began)
        account.at[place].arrived(number, account.attempts.get(number) > 1, second)
        return 202


class Connection(asyncio.Protocol):
    """One connection of the gateway."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._parser = httptools.HttpRequestParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._url = b""
        self._attributes: dict[str, str] = {}
        self._body = b""

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name.startswith(b"ce-"):
            text = value.decode("latin-1")
            self._attributes[name[3:].decode()] = unquote(text) if "%" in text else text
        elif name == b"content-type":
            self._attributes["datacontenttype"] = value.decode()

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        books = self._books
        mood = books.control.mood(books.index)
        if mood == Control.SILENT:
            return
        if mood == Control.REFUSE:
            self._transport.write(_ANSWERS[503])
            return
        status = books.take(self._url.decode(), self._attributes, self._body)
        if mood == Control.DROP:
            self._transport.abort()
            return
        self._transport.write(_ANSWERS[status])


async def main() -> None:
    folder, capacity, port, index, began = sys.argv[1:]
    books = Books(Path(folder), int(capacity), int(index), float(began))
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(books), "127.0.0.1", int(port), backlog=1024
    )
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
