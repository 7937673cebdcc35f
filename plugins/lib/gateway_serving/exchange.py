"""A request with its answer, and what a connection needs from the server that runs it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Protocol

from .acceptor import Accepted
from .budget import Budget, Unfinished
from .hosts import Hosts
from .limits import ListenerLimits


class ClientDisconnected(Exception):
    """The client disconnected before its request was complete, or the server answered instead of the application."""


class Exchange:
    """A request and the answer to it."""

    __slots__ = ("answered", "complete", "gone", "parts", "scope", "size", "started", "taken", "unread", "wake")

    def __init__(self, scope: dict[str, Any]) -> None:
        self.scope = scope
        self.parts: deque[bytes] = deque()
        self.size = self.unread = 0
        self.complete = False  # the whole request is there
        self.taken = False  # the application has the whole request
        self.started = False  # of the answer
        self.answered = False
        self.gone = False  # nobody waits for the answer
        self.wake = asyncio.Event()


class ServedConnection(Accepted, Unfinished, Protocol):
    """A connection, as its server sees it."""

    async def receive(self, exchange: Exchange) -> dict[str, Any]:
        """ASGI's `receive`. Raises `ClientDisconnected` if the rest of the request won't come."""

    async def send(self, exchange: Exchange, message: dict[str, Any]) -> None:
        """ASGI's `send`."""

    def ended(self, exchange: Exchange) -> None:
        """The application is done with this request."""


class ConnectionServer(Protocol):
    """A server, as its connections see it. `now` is a coarse clock."""

    limits: ListenerLimits
    hosts: Hosts | None
    budget: Budget
    stopping: bool
    encrypted: bool
    now: float

    def made(self, connection: ServedConnection) -> bool:
        """A connection is open. Returns whether there is room for it."""

    def lost(self, connection: ServedConnection) -> None:
        """A connection has ended."""

    def run(self, connection: ServedConnection, exchange: Exchange) -> None:
        """Hands a request to the application."""
