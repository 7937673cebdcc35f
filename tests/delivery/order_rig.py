"""A subscription with its surroundings in memory, for tests of order: each attempt is answered by the test."""

from __future__ import annotations

from collections.abc import Callable

from anyio.abc import TaskGroup
from gateway_testing import FakeClock, MemoryFeed

from gateway_core.contract.config_model import DeliveryConfig
from gateway_core.contract.event import PARTITION_BITS, Event
from gateway_core.contract.interfaces import DELIVERED, Accepted, Outcome, Sink
from gateway_core.delivery import Budget, Subscription
from gateway_core.delivery.deliveries import OrderKeyOf

BUSY = Outcome(False, retry=True, code=503, reason="503 Service Unavailable")
BAD = Outcome(False, code=400, reason="400 Bad Request")


def event(n: int, partition: int = 0, key: str | None = None, **attributes: str) -> Event:
    base = {"specversion": "1.0", "id": str(n), "source": "/t", "type": "t"}
    position = partition << PARTITION_BITS | n
    return Event({**base, **attributes}, b"", key=key.encode() if key else None, position=position)


class Far:
    """A sink that answers when it is told to, by the event's number."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.sent: list[int] = []
        self.events: list[Event] = []
        self.under_way: dict[int, Callable[[Outcome], None]] = {}
        self.check: Callable[[int], object] = bool  # called with each event's number before it is taken

    async def start(self, tasks: TaskGroup) -> None:
        return

    async def stop(self) -> None:
        return

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        n = int(str(event.attributes["id"]))
        self.check(n)
        self.sent.append(n)
        self.events.append(event)
        self.under_way[n] = done

    def answer(self, n: int, outcome: Outcome = DELIVERED) -> None:
        self.under_way.pop(n)(outcome)


class Rig:
    """A subscription with its surroundings in memory; waits take their full ceiling."""

    def __init__(
        self, order_key_of: OrderKeyOf | None, *, endless: bool = False, sink: Sink | None = None, **policy: object
    ) -> None:
        self.clock = FakeClock()
        self.sink = Far("sink:")
        self.letters = Far("letters:")
        self.feed = MemoryFeed()
        self.budget = Budget()
        self.published: list[Accepted] = []
        self.subscription = Subscription(
            *("t", sink or self.sink, DeliveryConfig.model_validate(policy), self.clock),
            dead_letter=None if endless else self.letters,
            publish=lambda events, done: self.published.append(done),
            budget=self.budget,
            draw=lambda: 1.0,
            order_key_of=order_key_of,
        )
        self.subscription.feed = self.feed

    def offer(self, *events: Event) -> None:
        for e in events:
            assert self.subscription.offer(e)

    @property
    def under_way(self) -> list[int]:
        return sorted(self.sink.under_way)

    @property
    def acked(self) -> list[int]:
        return [number(p) for p in self.feed.acked]

    def withdraw(self, partition: int) -> list[int]:
        return sorted(number(p) for p in self.subscription.withdraw(partition))

    def nothing_left(self) -> bool:
        s = self.subscription
        return (s.held, s.in_flight, self.budget.used, s.blocked, s.busy) == (0, 0, 0, False, False)


def number(position: int) -> int:
    return position & ((1 << PARTITION_BITS) - 1)
