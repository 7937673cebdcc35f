"""The events of one sink: those that are ready, and those that a subscriber has, with their leases.

An attempt of the delivery engine is open from `offer` until its event is settled. So an event that nobody fetches costs
no attempt; one whose lease ends does.
"""

from __future__ import annotations

import heapq
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from itertools import count

from gateway_core.contract.clock import Clock, Timer
from gateway_core.contract.interfaces import DELIVERED, Outcome

MOST_COUNTED = 20_000
"""How many events have their deliveries counted."""
MOST_BYTES = 4 * 1024 * 1024
"""The most bytes of events that one call takes, but at least one event."""

_SLACK = 1000


class Item:
    """One event: its text, its position in the channel, and the attempt's end. While it is leased: its lease, which is
    the `number`-th of its `holder`, and when the lease ends."""

    __slots__ = ("delivery", "done", "holder", "number", "position", "text", "token", "until")

    def __init__(self, text: bytes, position: int, done: Callable[[Outcome], None]) -> None:
        self.text = text
        self.position = position
        self.done = done
        self.holder: Holder | None = None
        self.token = ""
        self.number = 0
        self.until = 0.0
        self.delivery = 0


class Holder:
    """Who gets leases: one stream, or one call. `held` are its items, by number."""

    def __init__(self) -> None:
        self.name = secrets.token_urlsafe(9)
        self.numbers = count(1)
        self.held: dict[int, Item] = {}


class Leases:
    """`lease_s` is the length of a lease, `ready` is called when an event is there to be fetched."""

    def __init__(self, clock: Clock, lease_s: float, ready: Callable[[], None]) -> None:
        self._clock = clock
        self._lease_s = lease_s
        self._ready = ready
        self._waiting: deque[Item] = deque()
        self._holders: dict[str, Holder] = {}
        self._ends: list[tuple[float, int, Item]] = []
        self._tie = count()
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._counts: OrderedDict[int, int] = OrderedDict()  # deliveries of events that came back, by position
        self.leased = 0
        self.closed = False

    @property
    def available(self) -> int:
        """Events that are ready."""
        return len(self._waiting)

    def offer(self, item: Item) -> None:
        """An event is ready."""
        self._waiting.append(item)
        self._ready()

    def take(self, most: int, holder: Holder) -> list[Item]:
        """Leases up to this many events, and at least one if any is ready."""
        found: list[Item] = []
        size, until = 0, self._clock.monotonic() + self._lease_s
        while self._waiting and len(found) < most and (not found or size + len(self._waiting[0].text) <= MOST_BYTES):
            item = self._waiting.popleft()
            size += len(item.text)
            item.number = next(holder.numbers)
            item.token = f"{holder.name}.{item.number}"
            item.holder = holder
            item.delivery = self._counts.pop(item.position, 0) + 1
            holder.held[item.number] = item
            self._end_at(item, until)
            found.append(item)
        if found:
            self._holders[holder.name] = holder
            self.leased += len(found)
        return found

    def find(self, token: str) -> Item | None:
        """The event with this lease; None if it has ended."""
        name, _, number = token.rpartition(".")
        holder = self._holders.get(name)
        if holder is None or not number.isascii() or not number.isdecimal() or len(number) > 18:
            return None
        return holder.held.get(int(number))

    def up_to(self, token: str) -> list[Item]:
        """The event with this lease, and those that its holder got before."""
        name, _, number = token.rpartition(".")
        holder = self._holders.get(name)
        if holder is None or not number.isascii() or not number.isdecimal() or len(number) > 18:
            return []
        return [item for held, item in holder.held.items() if held <= int(number)]

    def settle(self, items: Iterable[Item], outcome: Outcome = DELIVERED) -> None:
        """Ends these leases, and their attempts with this outcome."""
        for item in list(items):
            if self._forget(item):
                if not outcome.delivered:
                    self._remember(item)
                item.done(outcome)

    def extend(self, item: Item, seconds: float) -> None:
        """The lease ends so many seconds from now."""
        self._end_at(item, self._clock.monotonic() + seconds)

    def release(self) -> None:
        """Ends the attempts of events that nobody has fetched."""
        waiting, self._waiting = self._waiting, deque()
        for item in waiting:
            item.done(Outcome(False, retry=True, local=True, reason="the gateway stopped before anybody fetched it"))

    def close(self) -> None:
        """Ends all attempts."""
        self.closed = True
        self.release()
        stopped = Outcome(False, retry=True, code=503, reason="the gateway stopped before the event was acknowledged")
        for holder in list(self._holders.values()):
            self.settle(holder.held.values(), stopped)
        if self._timer is not None:
            self._timer.cancel()

    # -- the ends of leases -------------------------------------------------------------------------------------------

    def _forget(self, item: Item) -> bool:
        holder, item.holder = item.holder, None
        if holder is None:
            return False
        del holder.held[item.number]
        if not holder.held:
            self._holders.pop(holder.name, None)
        self.leased -= 1
        return True

    def _remember(self, item: Item) -> None:
        self._counts[item.position] = item.delivery
        if len(self._counts) > MOST_COUNTED:
            self._counts.popitem(last=False)

    def _end_at(self, item: Item, until: float) -> None:
        item.until = until
        if len(self._ends) > 2 * self.leased + _SLACK:  # most are settled long before their time
            self._ends = [end for end in self._ends if end[2].holder is not None and end[2].until == end[0]]
            heapq.heapify(self._ends)
        heapq.heappush(self._ends, (until, next(self._tie), item))
        if self._timer is None or until < self._timer_at:
            self._arm(until)

    def _arm(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._clock.call_later(max(0.0, at - self._clock.monotonic()), self._look)

    def _look(self) -> None:
        """Ends the leases whose time is over. What was settled or extended stays in the heap until its time."""
        self._timer = None
        now = self._clock.monotonic()
        over = Outcome(False, retry=True, code=408, reason=f"not acknowledged within its lease of {self._lease_s:g} s")
        while self._ends and self._ends[0][0] <= now:
            until, _, item = heapq.heappop(self._ends)
            if item.holder is not None and item.until == until:
                self.settle([item], over)
        if self._ends and self._timer is None:
            self._arm(self._ends[0][0])
