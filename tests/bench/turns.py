"""`tidegate` in a process that can measure how long its event loop is held: a line "begin" on standard input keeps the
loop turning, "end" prints the longest turn since, in CPU milliseconds of the loop's thread. Each prints a line. It
imports nothing that a gateway would not, so that its start and its memory are those of a gateway.

    python tests/bench/turns.py run gateway.yaml
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from typing import Any


class Turns:
    """Keeps the loop turning, and notes the longest turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._on = False
        self._last = self.longest = 0.0

    def begin(self) -> None:
        self._on, self.longest, self._last = True, 0.0, time.thread_time()
        self._loop.call_soon(self._turn)
        print("turn 0", flush=True)

    def end(self) -> None:
        self._on = False
        print(f"turn {self.longest * 1e3}", flush=True)

    def _turn(self) -> None:
        now = time.thread_time()
        self.longest = max(self.longest, now - self._last)
        self._last = now
        if self._on:
            self._loop.call_soon(self._turn)


def listen(loop: asyncio.AbstractEventLoop) -> None:
    turns = Turns(loop)
    for line in sys.stdin:
        loop.call_soon_threadsafe({"begin": turns.begin, "end": turns.end}[line.strip()])


def main() -> None:
    from gateway_core.cli import main
    from gateway_core.runtime.gateway import Gateway

    original = Gateway._start

    async def start(self: Gateway, tasks: Any) -> None:
        await original(self, tasks)
        threading.Thread(target=listen, args=[asyncio.get_running_loop()], daemon=True).start()

    Gateway._start = start  # type: ignore[method-assign]
    main()


if __name__ == "__main__":
    main()
