"""The deliveries of a subscription: those that wait, in their order; which one is attempted next, and when; and the
attempts under way.

Events with the same order key (a partition or a record key) are delivered one after another: the first is under way, or
waits for its retry or its dead letter, and the others queue behind it. Events without an order key don't wait. Limits,
`Retry-After`, shortages of this machine and outages of the subscriber (`Outage`) decide when the next attempt begins.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Iterator

from ..contract import backoff
from ..contract.capabilities import TimingOut
from ..contract.clock import Clock, Timer
from ..contract.component_errors import Errors
from ..contract.config_model import DeliveryConfig
from ..contract.event import PARTITION_BITS, Event, text_of
from ..contract.interfaces import Observer, Outcome, Send, Sink
from ..contract.normal_form import normal_attributes
from ..contract.outcome import raised, unwritable
from ..contract.shortage import may_pass
from ..pipeline.guards import checked

UNTIMED = -1.0
NEVER = -1
GRACE_S = 30.0
"""How many seconds beyond its time limit an attempt may take before it is ended."""
MOST_HELD = 10_000
"""How many events one subscription holds in memory at most; the channel keeps the rest."""
ALWAYS_HELD = 16
"""How many events it may hold even if the memory budget is used up."""
SHORT_S = (0.05, 1.0)
"""The first and the longest wait, in seconds, before an attempt that a shortage on this machine prevented."""
AWAY_AFTER = 5
"""How many attempts in a row without any answer make an outage."""
PATIENCE = 10
"""With `hold_while_down`: how many attempts of an event that alone gets no answer use up no retry, though they reach
the subscriber. Twice as many for each event that was given up so since the subscriber's last answer."""
MOST_WAIT_S = 5.0
"""The longest wait between attempts during an outage, in seconds."""


class Budget:
    """Bytes of events that all subscriptions of a process may hold together."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int = 256 * 1024 * 1024) -> None:
        self.limit = limit
        self.used = 0


class Delivery:
    """The attempts for one event. It is its own callback, so no attempt needs a closure."""

    __slots__ = (
        "_owner", "answers", "attempts", "awaited", "due_s", "event", "failed_s", "first_ns", "free", "order_key",
        "outcome", "over", "reached", "size", "started", "timer",
    )  # fmt: skip

    def __init__(self, owner: Attempts, event: Event) -> None:
        self._owner = owner
        self.event = event
        size = 256 + (len(event.data) if event.data else 0)
        for value in event.attributes.values():
            size += len(value) if type(value) is str else len(str(value))
        self.size = size
        self.attempts = 0
        self.free = 0  # of them, those that use up no retry
        self.answers = NEVER  # how many answers there were when an attempt got none
        self.reached = 0  # attempts that reached the subscriber and got no answer while it answered nobody
        self.awaited = False  # an attempt is under way
        self.first_ns = 0
        self.due_s = 0.0  # of the clock that never goes backwards
        self.failed_s = UNTIMED  # when the first attempt failed, by the same clock
        self.over = False  # its time is over
        self.started = UNTIMED
        self.outcome: Outcome | None = None
        self.timer: Timer | None = None
        self.order_key: Hashable = None

    @property
    def tries(self) -> int:
        """The attempts that use up retries."""
        return self.attempts - self.free

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
        return delivery.over or delivery.tries >= self.most

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


class Window:
    """Starts fully open at `most`. A retriable failure halves it, at most once a `pause_s` so that one burst of
    failures counts once; every success opens it by one. It never closes below a sixteenth: the retries of an event must
    not wait forever behind others (Knative data plane contract: brokers MUST implement congestion control)."""

    __slots__ = ("_halved", "_least", "_most", "_pause_s", "size")

    def __init__(self, most: int, pause_s: float = 0.1) -> None:
        self._most = most
        self._least = max(1, most // 16)
        self._pause_s = pause_s
        self._halved = float("-inf")
        self.size = most

    def succeeded(self) -> None:
        if self.size < self._most:
            self.size += 1

    def failed(self, now: float) -> None:
        if now - self._halved >= self._pause_s:
            self._halved = now
            self.size = max(self._least, self.size // 2)


class Rate:
    """A token bucket: `per_s` attempts a second, with a burst of at most a tenth of a second's worth (at least one)."""

    __slots__ = ("_burst", "_clock", "_filled", "_per_s", "_tokens")

    def __init__(self, per_s: float, clock: Clock) -> None:
        self._per_s = per_s
        self._burst = max(1.0, per_s / 10)
        self._tokens = self._burst
        self._clock = clock
        self._filled = clock.monotonic()

    def take(self) -> float:
        """Takes one token and returns 0, or returns the seconds until there is one."""
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._per_s)
        self._filled = now
        # the slack absorbs float rounding: without it a timer could fire slightly early, again and again
        if self._tokens >= 1.0 - 1e-9:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / self._per_s


class Outage:
    """Outages of the subscriber of one subscription. `count` is the number of attempts in a row without an answer.

    After `AWAY_AFTER` attempts in a row without any answer (refused, broken or silent connections; not 4xx or 5xx),
    the subscriber counts as down. From then on there is one attempt at a time, each with the next event in turn.
    The waits between them follow the policy, up to `MOST_WAIT_S`. Once two different events got no answer, a failed
    attempt stands for all: it counts as a failed attempt of every event that was held, with its own wait over, when
    it began. So events keep the number of tries and the waits of the policy, and events that waited together are
    given up together. Any answer, even a refusal, ends the outage; an event whose own wait is not over then keeps
    waiting.
    """

    __slots__ = (
        "_began_ns", "_clock", "_confirmed", "_draw", "_first", "_policy", "_probe", "_queue", "_rounds", "_sharing",
        "away", "count",
    )  # fmt: skip

    def __init__(self, policy: DeliveryConfig, clock: Clock, queue: DeliveryQueue, draw: Callable[[], float]) -> None:
        self._policy = policy
        self._clock = clock
        self._queue = queue
        self._draw = draw
        self.away = False
        self.count = 0
        self._rounds = 0
        self._first: Delivery | None = None
        self._confirmed = False  # by two different events
        self._probe: Delivery | None = None
        self._began_ns = 0
        self._sharing: set[Delivery] = set()

    def end(self) -> None:
        """The subscriber answered."""
        self.count = self._rounds = 0
        self.away = self._confirmed = False
        self._first = self._probe = None
        self._sharing = set()

    def alone(self, delivery: Delivery) -> bool:
        """Whether no other event was without an answer since the subscriber's last one."""
        return delivery is self._first and not self._confirmed

    def forget(self, delivery: Delivery) -> None:
        """It is given up: the next event may turn out to be alone."""
        if self.alone(delivery):
            self._first = None

    def unanswered(self, delivery: Delivery, outcome: Outcome) -> float | None:
        """An attempt got no answer. Returns how long to wait, in seconds, if the subscriber is down now."""
        self.count += 1
        if self._first is None:
            self._first = delivery
        elif delivery is not self._first:
            self._confirmed = True
        if not self.away:
            if self.count < AWAY_AFTER:
                return None
            self.away = True
        elif delivery is not self._probe:
            return None  # it began before the outage
        self._rounds += 1
        wait = backoff.wait_s(self._policy, self._rounds, self._draw())
        shared, self._sharing, self._probe = self._sharing, set(), None
        if self._confirmed and shared:
            self._share(shared, outcome)
        return min(wait, MOST_WAIT_S)

    def take(self) -> Delivery | float:
        """The event for the next attempt, or the seconds until one is due."""
        now = self._clock.monotonic()
        found = self._queue.take_due(now)
        if found is None:
            return max(0.001, self._queue.next_due_s() - now)
        self._probe = found
        self._began_ns = self._clock.now_ns()
        self._sharing = {d for d in self._queue.startable() if d.due_s <= now}
        return found

    def _share(self, shared: set[Delivery], outcome: Outcome) -> None:
        now, queue = self._clock.monotonic(), self._queue
        for delivery in self._queue.startable():
            if delivery in shared and not queue.is_spent(delivery):  # one behind another may have had all
                delivery.attempts += 1
                delivery.first_ns = delivery.first_ns or self._began_ns
                delivery.outcome = outcome
                if self._policy.hold_while_down:
                    delivery.free += 1
                    elapsed = 0.0
                else:
                    elapsed = delivery.failed(now, queue.limit_s)
                delivery.due_s = now + backoff.wait_s(self._policy, delivery.attempts, self._draw(), elapsed)
        self._queue.sort_out()


class Schedule:
    """The attempts of one subscription, whose deliveries are in `queue`. `wake()` is called when a wait is over.
    `later(delivery, wait_s)` takes a delivery that is not due after all, and brings it back."""

    __slots__ = (
        "_alone", "_clock", "_later", "_not_before", "_policy", "_queue", "_rate", "_short_s", "_timer", "_timer_at",
        "_wake", "_window", "asked_until", "outage", "short",
    )  # fmt: skip

    def __init__(
        self,
        policy: DeliveryConfig,
        clock: Clock,
        queue: DeliveryQueue,
        draw: Callable[[], float],
        wake: Callable[[], None],
        later: Callable[[Delivery, float], None],
    ) -> None:
        self._policy = policy
        self._clock = clock
        self._queue = queue
        self._wake = wake
        self._later = later
        self._window = Window(policy.max_in_flight)
        self._rate = Rate(policy.rate_per_s, clock) if policy.rate_per_s else None
        self.outage = Outage(policy, clock, queue, draw)
        self._not_before = 0.0
        self.asked_until = 0.0
        """Until when the subscriber asked for a pause (`Retry-After`), by the clock that never goes backwards."""
        self._alone = False  # one attempt at a time
        self._short_s = 0.0
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self.short = False
        """This machine is short of something that an attempt needs. One attempt at a time tests whether it still is."""

    def next(self, in_flight: int) -> Delivery | None:
        """The delivery to attempt now; None if another attempt or a wait must end first. Some must be due."""
        if in_flight >= (1 if self._alone else self._window.size):
            return None
        if self._not_before:
            wait = self._not_before - self._clock.monotonic()
            if wait > 0:
                self._wake_in(wait)
                return None
            self._not_before = 0.0
        if self._queue.due[0].due_s and not self.outage.away and not self._put_off():
            return None
        if self._rate is not None and (wait := self._rate.take()) > 0:
            self._wake_in(wait)
            return None
        if not self.outage.away:
            return self._queue.due.popleft()
        found = self.outage.take()
        if isinstance(found, float):
            self._wake_in(found)
            return None
        return found

    def _put_off(self) -> bool:
        """Puts off what has its last failed attempt from an outage and must still wait. Is anything due then?"""
        due = self._queue.due
        while due and due[0].due_s and (wait := due[0].due_s - self._clock.monotonic()) > 0:
            self._later(due.popleft(), wait)
        return bool(due)

    def _wake_in(self, wait_s: float) -> None:
        at = self._clock.monotonic() + wait_s
        if self._timer is not None:
            if at >= self._timer_at:
                return
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._clock.call_later(wait_s, self._woken)

    def _woken(self) -> None:
        self._timer = None
        self._wake()

    def stop(self) -> None:
        """Wakes no more."""
        if self._timer is not None:
            self._timer.cancel()

    def answered(self) -> None:
        """The subscriber answered, whatever the answer was."""
        if self.outage.count:
            self.outage.end()
            self._alone = self.short

    def succeeded(self) -> None:
        """An attempt succeeded."""
        if self.outage.count:
            self.answered()
        self._window.succeeded()

    def failed(self, delivery: Delivery, outcome: Outcome, answered: bool) -> float:
        """An attempt failed, though the subscriber may have answered. Returns how long it asked us to wait, up to the
        configured maximum (0 if it did not). No attempt starts before that."""
        now = self._clock.monotonic()
        if answered:
            self.answered()
        elif outcome.retry and (wait := self.outage.unanswered(delivery, outcome)) is not None:
            self._alone = True
            self._not_before = max(self._not_before, now + wait)
        if not outcome.retry:
            return 0.0
        self._window.failed(now)
        if outcome.retry_after_s is None:
            return 0.0
        asked = min(outcome.retry_after_s, self._policy.retry_after_max_s)
        self.asked_until = max(self.asked_until, now + asked)
        self._not_before = max(self._not_before, now + asked)
        return asked

    def held_up(self) -> None:
        """An attempt could not be made because this machine is short of something. The next one waits, twice as long
        each time (`SHORT_S`); concurrent attempts that meet the same shortage count once."""
        now = self._clock.monotonic()
        self.short = self._alone = True
        if now >= self._not_before:
            first, most = SHORT_S
            self._short_s = min(most, self._short_s * 2 or first)
            self._not_before = now + self._short_s

    def plenty(self) -> None:
        """An attempt was made: the shortage is over."""
        self.short = False
        self._short_s = 0.0
        self._alone = self.outage.away


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
