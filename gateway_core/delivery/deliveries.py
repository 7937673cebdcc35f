"""The deliveries of a subscription: those that wait, in their order, and the attempts under way.

Events with the same order key (a partition or a record key) are delivered one after another: the first is under way, or
waits for its retry or its dead letter, and the others queue behind it. Events without an order key don't wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Iterator

from ..contract.capabilities import TimingOut
from ..contract.clock import Clock, Timer
from ..contract.component_errors import Errors
from ..contract.event import PARTITION_BITS, Event, text_of
from ..contract.interfaces import Observer, Outcome, Send, Sink
from ..contract.normal_form import normal_attributes
from ..contract.outcome import raised, unwritable
from ..contract.shortage import may_pass
from ..pipeline.guards import checked

UNTIMED = -1.0
GRACE_S = 30.0
"""How many seconds beyond its time limit an attempt may take before it is ended."""
MOST_HELD = 10_000
"""How many events one subscription holds in memory at most; the channel keeps the rest."""
ALWAYS_HELD = 16
"""How many events it may hold even if the memory budget is used up."""


class Budget:
    """Bytes of events that all subscriptions of a process may hold together."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int = 256 * 1024 * 1024) -> None:
        self.limit = limit
        self.used = 0


class Delivery:
    """The attempts for one event. It is its own callback, so no attempt needs a closure."""

    __slots__ = (
        "_owner", "attempts", "awaited", "due_s", "event", "failed_s", "first_ns", "order_key", "outcome", "over",
        "size", "started", "timer",
    )  # fmt: skip

    def __init__(self, owner: Attempts, event: Event) -> None:
        self._owner = owner
        self.event = event
        size = 256 + (len(event.data) if event.data else 0)
        for value in event.attributes.values():
            size += len(value) if type(value) is str else len(str(value))
        self.size = size
        self.attempts = 0
        self.awaited = False  # an attempt is under way
        self.first_ns = 0
        self.due_s = 0.0  # of the clock that never goes backwards
        self.failed_s = UNTIMED  # when the first attempt failed, by the same clock
        self.over = False  # its time is over
        self.started = UNTIMED
        self.outcome: Outcome | None = None
        self.timer: Timer | None = None
        self.order_key: Hashable = None

    def failed(self, now: float, limit_s: float) -> float:
        """An attempt failed. Returns the seconds since the first failure; from `limit_s` on, it was the last."""
        if self.failed_s == UNTIMED:
            self.failed_s = now
        elapsed = now - self.failed_s
        self.over = elapsed >= limit_s
        return elapsed

    def __call__(self, outcome: Outcome) -> None:
        if self.awaited:
            self.awaited = False
            self._owner.attempted(self, outcome)
        else:
            self._owner.unasked(outcome)


OrderKeyOf = Callable[[Event], Hashable]
"""The order key of an event, None if it has none. A key mapper is one."""


def of_partition(event: Event) -> Hashable:
    """Keeps the order of each partition of the channel or source."""
    return event.position >> PARTITION_BITS


def of_key(event: Event) -> Hashable:
    """Keeps the order of each record key; `partitionkey` stands in if the event has no record key."""
    if event.key is not None:
        return event.key
    value = normal_attributes(event.attributes).get("partitionkey")
    return None if value is None else text_of(value).encode()


class DeliveryQueue:
    """Deliveries between attempts. `due` may start now; `waiting` wait for their retry (the owner moves them back to
    `due`); `spent` have had `most` attempts, or all their time (`limit_s` since their first failure), or can't have any
    attempt, and can only be given up. The others wait behind one with their order key."""

    __slots__ = ("_behind", "_order_key_of", "due", "limit_s", "most", "spent", "waiting")

    def __init__(self, order_key_of: OrderKeyOf | None, most: float, limit_s: float = float("inf")) -> None:
        self.due: deque[Delivery] = deque()
        self.spent: list[Delivery] = []  # few, and a deque takes ten times the memory
        self.waiting: set[Delivery] = set()
        self.most = most
        self.limit_s = limit_s
        self._order_key_of = order_key_of
        self._behind: dict[Hashable, deque[Delivery] | None] = {}  # None: nothing waits behind the first

    def enter(self, delivery: Delivery) -> None:
        """A new delivery: due, or behind another."""
        if self._order_key_of is None:
            self.due.append(delivery)
            return
        order_key = self._order_key_of(delivery.event)
        if order_key is None:
            self.due.append(delivery)
        elif order_key not in self._behind:
            self._behind[order_key] = None
            self.due.append(delivery)
        else:
            behind = self._behind[order_key]
            if behind is None:
                behind = self._behind[order_key] = deque()
            behind.append(delivery)
        delivery.order_key = order_key

    def leave(self, delivery: Delivery) -> None:
        """The delivery is settled: the next one with its order key is due."""
        order_key = delivery.order_key
        if order_key is None:
            return
        behind = self._behind[order_key]
        if behind:
            following = behind.popleft()
            (self.spent if self.is_spent(following) else self.due).append(following)
        else:
            del self._behind[order_key]

    def is_spent(self, delivery: Delivery) -> bool:
        """Whether it gets no more attempts."""
        return delivery.over or delivery.attempts >= self.most

    def startable(self) -> Iterator[Delivery]:
        """Deliveries that wait for nothing but an attempt, or for one ahead of them with the same order key."""
        yield from self.due
        for behind in self._behind.values():
            yield from behind or ()

    def take_due(self, now: float) -> Delivery | None:
        """Removes and returns the first due delivery whose own wait is over, None if there is none."""
        for index, delivery in enumerate(self.due):
            if delivery.due_s <= now:
                del self.due[index]
                return delivery
        return None

    def next_due_s(self) -> float:
        """When the first wait of `due` ends; `due` must not be empty."""
        return min(delivery.due_s for delivery in self.due)

    def sort_out(self) -> None:
        """Moves deliveries from `due` to `spent` if they have had all their attempts."""
        left = [d for d in self.due if not self.is_spent(d)]
        self.spent.extend(d for d in self.due if self.is_spent(d))
        self.due.clear()
        self.due.extend(left)

    def under_way(self) -> Iterator[tuple[str, Delivery]]:
        """All queued deliveries, each with its state: `due`, `waiting` or `behind`."""
        yield from (("due", d) for d in (*self.due, *self.spent))
        yield from (("waiting", d) for d in self.waiting)
        yield from (("behind", d) for behind in self._behind.values() for d in behind or ())

    def withdraw(self, partition: int | None) -> list[Delivery]:
        """Removes and returns the deliveries of a partition (or of all) that have no attempt under way."""
        return self.take_out(lambda d: partition is None or of_partition(d.event) == partition)

    def take_out(self, wanted: Callable[[Delivery], bool]) -> list[Delivery]:
        """Removes and returns those that are wanted, of the deliveries that have no attempt under way."""
        found = [(state, d) for state, d in self.under_way() if wanted(d)]
        gone = {delivery for _, delivery in found}
        for queue in (self.due, self.spent, *filter(None, self._behind.values())):
            left = [d for d in queue if d not in gone]
            queue.clear()
            queue.extend(left)
        self.waiting -= gone
        for state, delivery in found:
            if delivery.timer is not None:
                delivery.timer.cancel()
            if state != "behind":
                self.leave(delivery)
        return [delivery for _, delivery in found]


def longest_s(sink: Sink, timeout_s: float) -> float:
    """How long an attempt may take, in seconds. A sink whose client has its own time limit is `TimingOut`."""
    return max(timeout_s, sink.longest_s if isinstance(sink, TimingOut) else 0.0) + GRACE_S


class Attempts:
    """The attempts of one subscription. `ended(delivery, outcome)` is called at the end of each.

    Attempts whose sink never reports an outcome are ended here: a check every `longest_s` seconds ends those that were
    under way at the previous check, so none lasts longer than twice that. There is no timer per event.
    """

    def __init__(
        self,
        name: str,
        sink: Sink,
        send: Send,
        timeout_s: float,
        clock: Clock,
        observers: tuple[Observer, ...],
        ended: Callable[[Delivery, Outcome], None],
    ) -> None:
        self.count = 0
        self.under_way: set[Delivery] = set()
        self._name = name
        self._send = send
        self._timeout_s = timeout_s
        self._clock = clock
        self._observers = observers
        self._ended = ended
        self._longest_s = longest_s(sink, timeout_s)
        self._stray = Errors(f"the sink of {name}")
        self._seen: dict[Delivery, int] = {}  # the attempts under way at the previous check
        self._timer: Timer | None = None
        self._stopped = False

    def observe(self, observers: tuple[Observer, ...]) -> None:
        """Replaces the observers."""
        self._observers = observers

    def begin(self, delivery: Delivery) -> None:
        """Makes an attempt."""
        self.count += 1
        self.under_way.add(delivery)
        delivery.awaited = True
        delivery.attempts += 1
        if delivery.attempts == 1:
            delivery.first_ns = self._clock.now_ns()
        if self._observers:
            delivery.started = self._clock.monotonic()
        try:
            self._send(delivery.event, self._timeout_s, delivery)
        except (Exception, asyncio.CancelledError, SystemExit) as e:  # nothing cancels a callback: the sink raised it
            passing = may_pass(e) or not isinstance(e, Exception)
            delivery(raised(e) if passing else unwritable(e))  # what its codec refuses now, it refuses again
        if delivery.awaited and self._timer is None and not self._stopped:
            self._timer = self._clock.call_later(self._longest_s, self._look)

    def attempted(self, delivery: Delivery, outcome: Outcome) -> None:
        """Takes the outcome of an attempt (called by the delivery)."""
        self.under_way.discard(delivery)
        if outcome.__class__ is not Outcome or not outcome.delivered:
            outcome = checked(outcome)
        if outcome.local:  # nothing was sent: it does not count
            self.count -= 1
            delivery.attempts -= 1
            delivery.started = UNTIMED
        elif self._observers:
            # an attempt that began before the observers were set has no start time
            seconds = self._clock.monotonic() - delivery.started if delivery.started >= 0 else 0.0
            delivery.started = UNTIMED
            for observer in self._observers:
                observer.attempted(self._name, delivery.event, outcome, seconds)
        self._ended(delivery, outcome)

    def unasked(self, outcome: Outcome) -> None:
        """Takes an outcome when no attempt is under way: the sink called `done` twice. The first call counts."""
        self._stray.warn(f"reported a second outcome for one attempt; ignored: {outcome!r}")

    def _look(self) -> None:
        self._timer = None
        overdue = [d for d in self.under_way if self._seen.get(d) == d.attempts]
        self._seen = {d: d.attempts for d in self.under_way}
        if self.under_way:
            self._timer = self._clock.call_later(self._longest_s, self._look)
        for delivery in overdue:
            if delivery.awaited:
                reason = f"the sink reported no outcome within {self._longest_s:g} s"
                delivery(Outcome(False, retry=True, reason=reason))

    def stop(self) -> None:
        """Stops checking."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
