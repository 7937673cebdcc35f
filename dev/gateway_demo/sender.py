"""Sends the flights over a few keep-alive connections, each with one request in flight, and records every response."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from .flights import DIVERTED, FlightEvent
from .wire import Request, requests

CONNECTIONS = 16
TRIES = 50


@dataclass
class Ledger:
    """The gateway's response for each event."""

    accepted: dict[str, FlightEvent] = field(default_factory=dict)
    refused: dict[str, FlightEvent] = field(default_factory=dict)
    refusal: str = ""  # the body of the first refusal
    sent: int = 0
    resent: set[str] = field(default_factory=set)  # the response was lost: these may be in the gateway twice
    surprises: list[str] = field(default_factory=list)
    begun: dict[str, float] = field(default_factory=dict)
    """When the sending of each diverted flight began, in Unix seconds: the gateway delays these."""

    def note(self, request: Request, status: int, body: bytes) -> None:
        self.sent += len(request.events)
        if 200 <= status < 300:
            self.accepted.update((e.id, e) for e in request.events)
        elif status == 400:
            self.refused.update((e.id, e) for e in request.events)
            self.refusal = self.refusal or body.decode("utf-8", "replace")
        else:
            self.surprises.append(f"{status} for {request.events[0].id}: {body[:200]!r}")

    def of_type(self, *types: str) -> set[str]:
        """Ids of accepted events of these types."""
        return {id for id, e in self.accepted.items() if e.type in types}


class Sender:
    """Sends all events to a URL. Retries if the gateway is overloaded (429, 503) or a connection is lost."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        self._path = parts.path or "/"
        self.ledger = Ledger()

    async def send(self, events: Iterator[FlightEvent]) -> Ledger:
        jobs = requests(events, f"{self._host}:{self._port}", self._path)
        async with asyncio.TaskGroup() as group:
            for _ in range(CONNECTIONS):
                group.create_task(self._connection(jobs))
        return self.ledger

    async def _connection(self, jobs: Iterator[Request]) -> None:
        line = _Line(self._host, self._port)
        try:
            for request in jobs:  # shared: each request goes to the first free connection
                now = time.time()
                self.ledger.begun.update((e.id, now) for e in request.events if e.type == DIVERTED)
                status, body = await self._until_answered(line, request)
                self.ledger.note(request, status, body)
        finally:
            line.close()

    async def _until_answered(self, line: _Line, request: Request) -> tuple[int, bytes]:
        for _ in range(TRIES):
            try:
                status, body = await line.exchange(request.raw)
            except (OSError, asyncio.IncompleteReadError):
                line.close()
                self.ledger.resent.update(e.id for e in request.events)
            else:
                if status not in (429, 503):
                    return status, body
            await asyncio.sleep(0.2)
        raise ConnectionError(f"no response from {self._host}:{self._port} after {TRIES} tries")


class _Line:
    """One keep-alive connection."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._writer: asyncio.StreamWriter | None = None

    async def exchange(self, request: bytes) -> tuple[int, bytes]:
        """Sends a request and reads its response: status and body."""
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        self._writer.write(request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = head.partition(b"content-length:")[2].partition(b"\r\n")[0].strip()
        body = await self._reader.readexactly(int(length)) if length else b""
        if b"connection: close" in head:
            self.close()
        return int(head[9:12]), body

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
