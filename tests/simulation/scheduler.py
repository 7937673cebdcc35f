"""Simulated time: what happens when, in the world and in the gateway."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Protocol

Call = Callable[..., Any]


class Process(Protocol):
    """Something with steps of its own, which take no time but happen at times: the gateway's event loop."""

    def next_at(self) -> float:
        """When its next step is due; infinity if nothing is."""

    def step(self) -> None:
        """Does one step."""


class Later:
    """A call that is to come."""

    __slots__ = ("args", "call")

    def __init__(self, call: Call, args: tuple[Any, ...]) -> None:
        self.call: Call | None = call
        self.args = args

    def cancel(self) -> None:
        """Prevents it."""
        self.call = None


class Scheduler:
    """The world's clock and its calls in order of time; calls of one time in the order in which they were asked for."""

    def __init__(self) -> None:
        self.now = 0.0
        self.process: Process | None = None
        """What runs beside the world's calls, if anything does."""
        self.steps = 0
        self._heap: list[tuple[float, int, Later]] = []
        self._count = 0

    def at(self, when: float, call: Call, *args: Any) -> Later:
        """Calls `call(*args)` at this time, or as soon as possible if it is past."""
        later = Later(call, args)
        self._count += 1
        heapq.heappush(self._heap, (max(when, self.now), self._count, later))
        return later

    def after(self, delay_s: float, call: Call, *args: Any) -> Later:
        """Calls `call(*args)` after a while."""
        return self.at(self.now + delay_s, call, *args)

    def run(self, until: float, done: Callable[[], bool] = lambda: False, check_s: float = 1.0) -> None:
        """Lets time pass until then, or until `done`, which is asked every `check_s` seconds."""
        check = self.now
        while True:
            if self.now >= check:
                if done():
                    return
                check = self.now + check_s
            process = self.process
            own = process.next_at() if process is not None else float("inf")
            heap = self._heap
            while heap and heap[0][2].call is None:
                heapq.heappop(heap)
            when = heap[0][0] if heap else float("inf")
            if min(own, when) > until:
                self.now = until
                return
            self.steps += 1
            if process is not None and own <= when:
                self.now = max(self.now, own)
                process.step()
            else:
                _, _, later = heapq.heappop(heap)
                self.now = max(self.now, when)
                call, later.call = later.call, None
                if call is not None:
                    call(*later.args)
