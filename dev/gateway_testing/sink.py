"""A sink and a feed in memory, for tests of delivery and of code that drives sinks."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from anyio.abc import TaskGroup

from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import DELIVERED, Outcome


class ScriptedSink:
    """Returns the outcomes of `script` in order, then always `default`, and records the events it got.

    With `hold`, an attempt gets its outcome only when `answer` is called.
    """

    def __init__(
        self,
        script: Iterable[Outcome] = (),
        default: Outcome = DELIVERED,
        *,
        hold: bool = False,
        address: str = "memory:",
    ) -> None:
        self.address = address
        self.sent: list[Event] = []
        self.held: list[Callable[[Outcome], None]] = []
        self.default = default
        self._script = iter(script)
        self._hold = hold

    async def start(self, tasks: TaskGroup) -> None:
        return

    async def stop(self) -> None:
        return

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        self.sent.append(event)
        if self._hold:
            self.held.append(done)
        else:
            done(next(self._script, self.default))

    def answer(self, outcome: Outcome = DELIVERED, index: int = 0) -> None:
        """Answers one held attempt (by default the oldest)."""
        self.held.pop(index)(outcome)


class MemoryFeed:
    """A feed that records acknowledgements."""

    def __init__(self) -> None:
        self.acked: list[int] = []
        self.resumed = 0

    def ack(self, position: int) -> None:
        self.acked.append(position)

    def resume(self) -> None:
        self.resumed += 1

    def lag(self) -> int:
        return 0
