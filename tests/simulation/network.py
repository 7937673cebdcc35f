"""The network: connections in memory between the gateway and the world, with latency, pieces, stalls and cuts.

The gateway's end of a connection is an asyncio transport (`transports.py`); the other end is an `Endpoint`, plain
callbacks. Each direction is a `Pipe`, which keeps the order of its bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Protocol

from .plan import Network as Conditions
from .scheduler import Scheduler

END, RESET = "end", "reset"
Item = bytes | str
"""Bytes, or how the connection ended."""


class Endpoint(Protocol):
    """The world's end of a connection."""

    def opened(self, connection: Connection) -> None:
        """It is open: bytes may be sent."""

    def received(self, data: bytes) -> None:
        """Bytes of the gateway."""

    def ended(self, how: str) -> None:
        """The gateway ended it (`END`) or it broke (`RESET`). Called once, last."""


class Pipe:
    """One direction. What is sent arrives later, in order; `take` gets it."""

    __slots__ = ("_conditions", "_last", "_queue", "_random", "_scheduler", "closed", "dark", "stalled", "take")

    def __init__(self, scheduler: Scheduler, conditions: Conditions, random: Random, take: Callable[[Item], None]):
        self._scheduler = scheduler
        self._conditions = conditions
        self._random = random
        self._queue: deque[tuple[float, Item]] = deque()
        self._last = 0.0
        self.take = take
        self.stalled = 0.0
        """Until when nothing arrives."""
        self.closed = self.dark = False
        """Whether an end was sent; whether everything gets lost without a word."""

    def send(self, item: Item) -> None:
        """Sends bytes, or an end, after which nothing is sent."""
        if self.closed or self.dark:
            return
        if isinstance(item, str):
            self.closed = True
            self._put(item)
            return
        piece = self._conditions.piece
        if not piece or len(item) <= piece:
            self._put(item)
            return
        if len(item) > 64 * piece:  # small pieces first, so that their number stays small
            item, rest = item[: 32 * piece], item[32 * piece :]
        else:
            rest = b""
        for start in range(0, len(item), piece):
            self._put(item[start : start + piece])
        if rest:
            self._put(rest)

    def reset(self) -> None:
        """What is under way is lost; the other end learns that the connection broke."""
        self._queue.clear()
        self.closed = False
        self.send(RESET)

    def _put(self, item: Item) -> None:
        conditions = self._conditions
        latency = conditions.latency_s
        if conditions.jitter_s:
            latency += conditions.jitter_s * self._random.random()
        self._last = max(self._last, self._scheduler.now + latency)
        self._queue.append((self._last, item))
        if len(self._queue) == 1:
            self._scheduler.at(max(self._last, self.stalled), self._arrive)

    def _arrive(self) -> None:
        queue = self._queue
        now = self._scheduler.now
        while queue and not self.dark:
            when = max(queue[0][0], self.stalled)
            if when > now:
                self._scheduler.at(when, self._arrive)
                return
            self.take(queue.popleft()[1])


class Kernel(Protocol):
    """The gateway's end of a connection, as its machine has it."""

    def arrived(self, item: Item) -> None:
        """Something arrived from the world."""

    def consumed(self, size: int) -> None:
        """The world has read this many bytes."""


class Connection:
    """A connection. `kernel` is the gateway's end, set once it is open there; `endpoint` the world's."""

    __slots__ = ("_arrived_early", "_over", "down", "endpoint", "heard", "kernel", "life", "marks", "name", "network",
                 "read", "sent", "up")  # fmt: skip

    def __init__(self, network: Network, name: str, endpoint: Endpoint) -> None:
        self.network = network
        self.name = name
        self.endpoint = endpoint
        self.kernel: Kernel | None = None
        self._arrived_early: list[Item] = []
        self._over = False
        self.life = 0  # the generation of the gateway that has it
        self.sent = self.read = 0  # bytes, to the gateway's process
        self.marks: deque[tuple[int, int]] = deque()
        self.heard: Callable[[int], None] = lambda number: None
        scheduler, conditions = network.scheduler, network.conditions
        random = Random(f"{network.seed}/{name}")
        self.up = Pipe(scheduler, conditions, random, self._to_gateway)
        self.down = Pipe(scheduler, conditions, random, self._to_world)

    # -- for the world ----------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Sends bytes to the gateway."""
        self.sent += len(data)
        self.up.send(data)

    def mark(self, number: int) -> None:
        """`heard(number)` follows when the gateway's process has read all that was sent so far."""
        self.marks.append((self.sent, number))

    def end(self) -> None:
        """Ends the world's side. What was sent arrives before."""
        self.up.send(END)

    def reset(self) -> None:
        """Breaks the connection at once; what is under way is lost."""
        self._over = True
        self.up.reset()

    def stall(self, until: float) -> None:
        """Nothing arrives in either direction until then."""
        for pipe in (self.up, self.down):
            pipe.stalled = max(pipe.stalled, until)

    # -- for the gateway's machine ------------------------------------------------------------------------------------

    def reads(self, size: int) -> None:
        """The process reads this many bytes."""
        self.read += size
        while self.marks and self.marks[0][0] <= self.read:
            self.heard(self.marks.popleft()[1])

    def attach(self, kernel: Kernel) -> None:
        """The gateway's end is there."""
        self.kernel = kernel
        early, self._arrived_early = self._arrived_early, []
        for item in early:
            kernel.arrived(item)

    def _to_gateway(self, item: Item) -> None:
        if self.kernel is None:
            self._arrived_early.append(item)
        else:
            self.kernel.arrived(item)

    def _to_world(self, item: Item) -> None:
        if self._over:
            return
        if isinstance(item, str):
            self._over = True
            self.endpoint.ended(item)
            return
        self.endpoint.received(item)
        if self.kernel is not None:
            self.kernel.consumed(len(item))

    def dark(self) -> None:
        """The gateway's machine has lost power: nothing comes from it, nobody gets what is sent to it."""
        self.up.dark = self.down.dark = True

    def gone(self) -> None:
        """The world learns that the connection is gone."""
        if not self._over:
            self._over = True
            self.endpoint.ended(RESET)


class Host(Protocol):
    """A server of the world."""

    def accept(self) -> Endpoint | str:
        """An end for a new connection; or "refuse", or "vanish" for no answer at all."""


class Network:
    """Names, and everything that is connected."""

    def __init__(self, scheduler: Scheduler, conditions: Conditions, seed: int) -> None:
        self.scheduler = scheduler
        self.conditions = conditions
        self.seed = seed
        self.hosts: dict[str, Host] = {}
        self._count = 0

    def open(self, host: str, opened: Callable[[Connection | str], None]) -> None:
        """Opens a connection from the gateway to a server. `opened` gets it, or why there is none ("refuse",
        "unknown"), or is never called."""
        latency = self.conditions.latency_s

        def reached() -> None:
            server = self.hosts.get(host)
            endpoint = "unknown" if server is None else server.accept()
            if endpoint == "vanish":
                return
            if isinstance(endpoint, str):
                self.scheduler.after(latency, opened, endpoint)
                return
            connection = self.connection(host, endpoint)
            endpoint.opened(connection)
            self.scheduler.after(latency, opened, connection)

        self.scheduler.after(latency, reached)

    def connection(self, name: str, endpoint: Endpoint) -> Connection:
        """A new connection."""
        self._count += 1
        return Connection(self, f"{name}/{self._count}", endpoint)
