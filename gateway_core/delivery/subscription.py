"""One trigger's deliveries: from the channel's offer to the acknowledgement.

The path of an event: `offer` queues a `Delivery`; `_pump` starts attempts while limits allow; the sink calls the
delivery with the outcome; then it is acknowledged, or waits for its retry, or goes to the dead letter. It is
acknowledged to the channel only once the subscriber or the dead letter has it. Everything runs on the event loop in
callbacks: there is no task per event.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping

from ..config.model import DeliveryConfig
from ..contract.clock import Clock, Timer
from ..contract.errors import Refused
from ..contract.event import Event
from ..contract.interfaces import Accepted, Feed, Observer, Outcome, Send, Sink
from ..contract.one_line import one_line
from ..contract.outcome import short
from ..contract.shortage import is_shortage
from ..pipeline.guards import Errors, FilterGuard, checked, text_of_error
from . import backoff
from .attempt import NO_FEED, UNTIMED, Delivery
from .dead_letter_writer import SubscriptionDeadLetterWriter
from .history import Memory
from .limits import Budget, Limits
from .ordering import DeliveryQueue, OrderKeyOf
from .outage import Outage
from .reply import TTL, as_published
from .report import Report
from .state import MOST_HELD, State
from .watch import Watch, longest_s

log = logging.getLogger("tidegate.delivery")


class Subscription(State):
    """Delivers to one sink by one policy. `feed` is set once the channel knows the subscription.

    Without a `dead_letter`, failures go to `give_back(position, outcome)` instead (bridges); without both, an event is
    tried until it is delivered. `order_key_of` says which events must wait for each other, None if none must.
    `publish` takes a reply event to the broker's channel; None if replies aren't wanted. `draw` returns the random
    numbers in [0, 1) for waits; it may be set at any time. `send` replaces that of the sink. `filter` is the guard of
    the filter, which knows the events on which the filter raised. `what` is the kind of owner, for the log.
    """

    def __init__(
        self,
        name: str,
        sink: Sink,
        policy: DeliveryConfig,
        clock: Clock,
        *,
        dead_letter: Sink | None,
        give_back: Callable[[int, Outcome], None] | None = None,
        publish: Callable[[list[Event], Accepted], None] | None = None,
        budget: Budget | None = None,
        observers: tuple[Observer, ...] = (),
        draw: Callable[[], float] = random.random,
        order_key_of: OrderKeyOf | None = None,
        send: Send | None = None,
        filter: FilterGuard | None = None,
        what: str = "trigger",
    ) -> None:
        self.name = name
        self.sink = sink
        self.policy = policy
        self.feed: Feed = NO_FEED
        self._send = send or sink.send
        self._filter = filter
        self._undecided = filter.undecided if filter is not None else {}
        self._stray = Errors(f"the sink of {name}")
        self._timeout_s = policy.timeout_s
        self._clock = clock
        self._give_back = give_back
        self._endless = dead_letter is None and give_back is None
        self.draw = draw
        self._dead_letters: SubscriptionDeadLetterWriter | None = None
        if dead_letter is not None:
            self._dead_letters = SubscriptionDeadLetterWriter(
                name,
                dead_letter,
                clock,
                lambda: self.draw(),
                observers,
                on_failure=self._dead_letter_failed,
                on_written=self._dead_letter_written,
            )
        self.dead_lettered_by_stage: Mapping[str, int] = self._dead_letters.stages if self._dead_letters else {}
        self._publish = publish
        self._budget = budget or Budget()
        self._observers = observers
        self.order_key_of = order_key_of
        self._limits = Limits(policy, clock)

        self._queue = DeliveryQueue(order_key_of, float("inf") if self._endless else policy.retry + 1)
        self._outage = Outage(policy, clock, self._limits, self._queue, lambda: self.draw())
        self._report = Report(what, name, sink, clock)
        self._watch = Watch(clock, longest_s(sink, policy.timeout_s))
        self._held = 0
        self._full = False
        self._pumping = False
        self._stopping = False
        self.paused = False
        self._wake: Timer | None = None
        self._wake_at = 0.0

        self.in_flight = 0
        self.attempts = self.delivered = self.retried = self.dead_lettered = 0
        self.failures_in_a_row = 0
        self.last_error: str | None = None
        self.memory = Memory()

    def observe(self, observers: tuple[Observer, ...]) -> None:
        """Replaces the observers."""
        self._observers = observers
        if self._dead_letters is not None:
            self._dead_letters.observe(observers)

    # -- from the channel -------------------------------------------------------------------------------------------

    def offer(self, event: Event) -> bool:
        """Accepts an event, or returns False if there is no room: the channel keeps it until `feed.resume()`."""
        if self.paused or not self.room():
            self._full = True
            return False
        if self._undecided and (found := self._undecided.pop(id(event), None)) is not None:
            self._put_away(event, Outcome(False, reason=f"filter: {found[1]}"), "filter")
            return True
        delivery = Delivery(self, event)
        self._held += 1
        self._budget.used += delivery.size
        try:
            self._queue.enter(delivery)
        except Exception as e:
            self._without_order_key(delivery, e)
            return True
        self._pump()
        return True

    def reject(self, event: Event, outcome: Outcome) -> None:
        """Accepts the event that a channel made of a record that is not one, and writes it to the dead letter."""
        if not self._stopping:  # else the channel keeps it
            self._put_away(event, outcome, "decode")

    def _put_away(self, event: Event, outcome: Outcome, stage: str) -> None:
        """Accepts an event for which no attempt can be made."""
        delivery = Delivery(self, event)
        self._held += 1
        self._budget.used += delivery.size
        self._without_attempt(delivery, outcome, stage)

    def _without_order_key(self, delivery: Delivery, error: Exception) -> None:
        """The key mapper raised: the order of the event is unknown."""
        delivery.order_key = None
        detail = error.detail if isinstance(error, Refused) else text_of_error(error)
        self._without_attempt(delivery, Outcome(False, reason=f"order: {detail}"), "order")

    def _without_attempt(self, delivery: Delivery, outcome: Outcome, stage: str) -> None:
        delivery.outcome = outcome
        delivery.first_ns = delivery.first_ns or self._clock.now_ns()
        self.last_error = one_line(outcome.reason)
        if not self._endless:
            self._give_up(delivery, stage)
            return
        # no dead letter, and a source that can wait: try the filter and the key mapper again later
        self.failures_in_a_row += 1
        wait = backoff.wait_s(self.policy, self.failures_in_a_row, self.draw())
        self._later(delivery, self._clock.now_ns(), wait, self._decide)

    def _decide(self, delivery: Delivery) -> None:
        """Runs the filter and the key mapper again."""
        self._queue.waiting.discard(delivery)
        event = delivery.event
        if self._filter is not None:
            wanted = self._filter.filter.matches(event)
            if (found := self._undecided.pop(id(event), None)) is not None:
                self._without_attempt(delivery, Outcome(False, reason=f"filter: {found[1]}"), "filter")
                return
            if not wanted:
                self.failures_in_a_row = 0
                self._settle(delivery)
                return
        try:
            self._queue.enter(delivery)
        except Exception as e:
            self._without_order_key(delivery, e)
            return
        self.failures_in_a_row = 0
        self._pump()

    def withdraw(self, partition: int) -> list[int]:
        """Drops the events of a partition without an attempt or a dead letter under way: another gateway delivers them
        now. Returns their positions."""
        dropped = self._queue.withdraw(partition)
        if self._dead_letters is not None:
            letters = self._dead_letters.withdraw(partition)
            for delivery in letters:
                self._queue.leave(delivery)
            dropped += letters
        for delivery in dropped:
            self._held -= 1
            self._budget.used -= delivery.size
        self._pump()
        self._resume_feed()
        return [delivery.event.position for delivery in dropped]

    # -- attempts ---------------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        if self._pumping:  # a sink may answer inside `send`; the loop below continues
            return
        self._pumping = True
        try:
            queue = self._queue
            due = queue.due
            while (due or queue.spent) and not self.paused and not self.blocked and not self._stopping:
                if queue.spent and self._may_give_up():
                    self._give_up(queue.spent.popleft(), "delivery")
                    continue
                if not due:
                    break
                wait = self._limits.wait_s(self.in_flight)
                if wait != 0:
                    if wait is not None:
                        self._wake_in(wait)
                    break
                if not self._outage.away:
                    self._attempt(due.popleft())
                    continue
                found = self._outage.take()
                if isinstance(found, float):
                    self._wake_in(found)
                    break
                self._attempt(found)
        finally:
            self._pumping = False

    def _wake_in(self, wait: float) -> None:
        at = self._clock.monotonic() + wait
        if self._wake is not None:
            if at >= self._wake_at:
                return
            self._wake.cancel()
        self._wake_at = at
        self._wake = self._clock.call_later(wait, self._woken)

    def _woken(self) -> None:
        self._wake = None
        self._pump()

    def _attempt(self, delivery: Delivery) -> None:
        self.in_flight += 1
        self.attempts += 1
        delivery.awaited = True
        delivery.attempts += 1
        if delivery.attempts == 1:
            delivery.first_ns = self._clock.now_ns()
        if self._observers:
            delivery.started = self._clock.monotonic()
        try:
            self._send(delivery.event, self._timeout_s, delivery)
        except Exception as e:
            if is_shortage(e):
                delivery(short(e))
            else:  # the event can't be written for this sink (its codec refuses it); no later attempt can help
                delivery(Outcome(False, reason=f"encode: {e}"))
        except (asyncio.CancelledError, SystemExit) as e:  # nothing cancels a callback: the sink itself raised it
            delivery(Outcome(False, retry=True, reason=f"the sink raised {type(e).__name__}"))
        if delivery.awaited:
            self._watch.begin(delivery)

    def unasked(self, delivery: Delivery, outcome: Outcome) -> None:
        """Takes an outcome when no attempt is under way: the sink called `done` twice. The first call counts."""
        self._stray.warn(f"reported a second outcome for one attempt; ignored: {outcome!r}")

    def attempted(self, delivery: Delivery, outcome: Outcome) -> None:
        """Takes the outcome of an attempt (called by the delivery)."""
        self.in_flight -= 1
        self._watch.under_way.discard(delivery)
        if outcome.__class__ is not Outcome or not outcome.delivered:
            outcome = checked(outcome)
        if outcome.local:
            self._held_up(delivery, outcome)
            return
        if self._limits.short:
            self._limits.plenty()
            self._report.plenty()
        if self._observers:
            # an attempt that began before the observers were set has no start time
            seconds = self._clock.monotonic() - delivery.started if delivery.started >= 0 else 0.0
            delivery.started = UNTIMED
            for observer in self._observers:
                observer.attempted(self.name, delivery.event, outcome, seconds)
        if outcome.delivered:
            self._succeeded(delivery, outcome)
        else:
            self._failed(delivery, outcome)
        self._pump()

    def _held_up(self, delivery: Delivery, outcome: Outcome) -> None:
        """Takes back an attempt that a shortage on this machine prevented: it does not count, and nothing was sent."""
        self._report.short(outcome.reason)
        self._limits.held_up()
        self.last_error = one_line(outcome.reason)
        self.attempts -= 1
        delivery.attempts -= 1
        delivery.started = UNTIMED
        self._queue.due.appendleft(delivery)
        self._pump()

    def _succeeded(self, delivery: Delivery, outcome: Outcome) -> None:
        if self.failures_in_a_row or self._outage.count:
            self._report.recovered(self.failures_in_a_row)
            self.failures_in_a_row = 0
            self._outage.answered()
        self._limits.succeeded()
        if outcome.reply is not None and self._publish is not None:
            self._reply(delivery, outcome.reply)
            return
        self.delivered += 1
        self._settle(delivery)

    def _reply(self, delivery: Delivery, answer: Event) -> None:
        def published(error: BaseException | None) -> None:
            if error is None:
                self.delivered += 1
                self._settle(delivery)
            else:  # Knative Broker specification, Delivery: the first event SHOULD be delivered again
                self._failed(delivery, Outcome(False, retry=True, reason=f"reply not accepted: {error}"), True)
            self._pump()

        assert self._publish is not None
        try:
            reply = as_published(answer, delivery.event, self._clock.now_ns())
        except Exception as e:
            self._failed(delivery, Outcome(False, reason=f"the sink gave no event as a reply: {text_of_error(e)}"))
            return
        if reply is None:
            self._failed(delivery, Outcome(False, reason=f"reply loop: {TTL} of the event is used up"))
        else:
            self._publish([reply], published)

    def _failed(self, delivery: Delivery, outcome: Outcome, answered: bool = False) -> None:
        self.failures_in_a_row += 1
        self.last_error = one_line(outcome.reason)
        delivery.outcome = outcome
        now_ns = self._clock.now_ns()
        self.memory.failed(now_ns, delivery.event, delivery.attempts, outcome)
        self._report.failed(self.failures_in_a_row, not self.failing, outcome.reason, self._held)
        if answered or outcome.code is not None:
            self._outage.answered()
        elif outcome.retry:
            self._outage.unanswered(delivery, outcome, now_ns)
        asked = self._limits.failed(outcome.retry_after_s) if outcome.retry else 0.0
        if (not outcome.retry or delivery.attempts > self.policy.retry) and not self._endless:
            self._give_up(delivery, "encode" if outcome.reason.startswith("encode: ") else "delivery")
            return
        if self._endless and delivery.attempts == self.policy.retry + 1:
            log.error("%s waits for its sink, it has no dead letter: %s", self.name, outcome.reason)
        self.retried += 1
        wait = max(asked, backoff.wait_s(self.policy, delivery.attempts, self.draw()))
        self._later(delivery, now_ns, wait, self._due)

    def _later(self, delivery: Delivery, now_ns: int, wait: float, then: Callable[[Delivery], None]) -> None:
        delivery.due_ns = now_ns + int(wait * 1e9)
        self._queue.waiting.add(delivery)
        if not self._stopping:
            delivery.timer = self._clock.call_later(wait, then, delivery)

    def _due(self, delivery: Delivery) -> None:
        self._queue.waiting.discard(delivery)
        self._queue.due.append(delivery)
        self._pump()

    # -- the dead letter --------------------------------------------------------------------------------------------

    def _may_give_up(self) -> bool:
        """Whether another dead letter may be written now, so that events given up together are not all written at
        once."""
        return self._dead_letters is None or self._dead_letters.count < self.policy.max_in_flight

    def _give_up(self, delivery: Delivery, stage: str) -> None:
        assert delivery.outcome is not None
        if self._dead_letters is None:
            self._forget(delivery)
            assert self._give_back is not None
            self._give_back(delivery.event.position, delivery.outcome)
            return
        self._dead_letters.write(delivery, stage, self.sink.address)

    def _dead_letter_failed(self, reason: str) -> None:
        self.last_error = one_line(reason)

    def _dead_letter_written(self, delivery: Delivery) -> None:
        self.dead_lettered += 1
        self._settle(delivery)
        self._pump()

    # -- the end of a delivery --------------------------------------------------------------------------------------

    def _settle(self, delivery: Delivery) -> None:
        self._forget(delivery)
        self.feed.ack(delivery.event.position)
        self._resume_feed()

    def _resume_feed(self) -> None:
        if self._full and self._held <= MOST_HELD // 2 and self.room():
            self._full = False
            self.feed.resume()

    def _forget(self, delivery: Delivery) -> None:
        self._held -= 1
        self._budget.used -= delivery.size
        self._queue.leave(delivery)

    def pause(self) -> None:
        """Starts no attempts until `resume`; those under way finish. New events stay in the channel."""
        self.paused = True

    def resume(self) -> None:
        """Resumes after `pause`."""
        self.paused = False
        self._pump()
        self._resume_feed()

    def stop(self) -> None:
        """Starts no more attempts and cancels all waits. Unsettled events stay in the channel."""
        self._stopping = True
        for delivery in self._queue.waiting:
            if delivery.timer is not None:
                delivery.timer.cancel()
        if self._dead_letters is not None:
            self._dead_letters.stop()
        if self._wake is not None:
            self._wake.cancel()
        self._watch.stop()
