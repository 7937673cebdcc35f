"""One trigger's deliveries: from the channel's offer to the acknowledgement.

The path of an event: `offer` queues a `Delivery`; `_pump` starts attempts while limits allow; the sink calls the
delivery with the outcome; then it is acknowledged, or waits for its retry, or goes to the dead letter. It is
acknowledged to the channel only once the subscriber or the dead letter has it. Everything runs on the event loop in
callbacks: there is no task per event.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

from ..contract import backoff
from ..contract.capabilities import GivenUp, KeepsGivenUp, offers
from ..contract.clock import Clock
from ..contract.component_errors import text_of_error
from ..contract.config_model import DeliveryConfig
from ..contract.errors import Refused
from ..contract.event import Event, id_of
from ..contract.filter_guard import FilterGuard
from ..contract.interfaces import Accepted, Feed, Observer, Outcome, Send, Sink
from ..contract.one_line import one_line
from ..contract.outcome import UNWANTED, Stage
from ..contract.topology import Held, Redelivered
from . import reply
from .dead_letter import WAITS, DeadLetterWriter
from .deliveries import (
    ALWAYS_HELD,
    MOST_HELD,
    NEVER,
    PATIENCE,
    UNTIMED,
    Attempts,
    Budget,
    Delivery,
    DeliveryQueue,
    OrderKeyOf,
    Schedule,
)
from .failures import Failures

log = logging.getLogger("tidegate.delivery")


class _NoFeed:
    """The feed until the channel has attached the subscription."""

    def ack(self, position: int) -> None: ...
    def resume(self) -> None: ...
    def lag(self) -> int:
        return 0


MOST_REASON = 300
"""How many characters of a reason are kept with an event that was given up."""
MOST_OF_LETTER = 3
"""How many attempts an event of a dead letter gets at most when it is sent again."""
NO_FEED = _NoFeed()
RETRIES = 10
"""With retries by time only: after so many, a bridge without a dead letter says that it waits, and a filter without
memory is not tried again."""
_LEFT = Outcome(False, retry=True, reason="its sender did not wait for the answer")
_NOTHING: Any = None
_ENDED = Outcome(False, retry=True, reason="the replay was ended")
_NO_QUEUE = DeliveryQueue(None, 0)
_NO_SCHEDULE = Schedule(WAITS, _NOTHING, _NO_QUEUE, random.random, _NOTHING, _NOTHING)
_NO_ATTEMPTS = Attempts("", _NOTHING, _NOTHING, 0, _NOTHING, (), ended=_NOTHING)


class _Again(NamedTuple):
    """An event that is delivered again: who waits for it, the dead letter that it comes from, and the replay."""

    done: Redelivered
    letter: GivenUp | None
    by: str


class Subscription:
    """Delivers to one sink by one policy. `feed` is set once the channel knows the subscription.

    Without a `dead_letter`, failures go to `give_back(position, outcome)` instead (bridges); without both, an event is
    tried until it is delivered. `order_key_of` says which events must wait for each other, None if none must.
    `publish` takes a reply event to the broker's channel; None if replies aren't wanted. `draw` returns the random
    numbers in [0, 1) for waits; it may be set at any time. `send` replaces that of the sink. `filter` is the guard of
    the filter, which knows the events on which the filter raised. `left(position)` says whether the sender of an event
    that is given back does not wait any more: then no attempt begins. `what` is the kind of owner, for the log;
    `broker` is that of a trigger, for its dead letters.
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
        left: Callable[[int], bool] | None = None,
        what: str = "trigger",
        broker: str = "",
    ) -> None:
        self.name = name
        self.sink = sink
        self.policy = policy
        self.draw = draw
        self.order_key_of = order_key_of
        self.feed: Feed = NO_FEED
        self.clock = clock
        self._filter = filter
        self._undecided = filter.undecided if filter is not None else {}
        self._give_back = give_back
        self._left = left
        self._endless = dead_letter is None and give_back is None
        self._publish = publish
        self._budget = budget or Budget()
        self.dead_letters: DeadLetterWriter | None = None
        if dead_letter is not None:
            self.dead_letters = DeadLetterWriter(
                what,
                name,
                dead_letter,
                clock,
                observers,
                draw=self._drawn,
                on_failure=self._dead_letter_failed,
                broker=broker,
            )
        # until the first event: of thousands of triggers most may never get one, and their own would take 3 kB each
        self._queue, self._schedule, self._attempts = _NO_QUEUE, _NO_SCHEDULE, _NO_ATTEMPTS
        self._send, self._observers = send or sink.send, observers
        self.failures = Failures(what, name, sink, clock)  # a dead letter of its source may fail before the first event
        self._full = self._pumping = self._stopping = False
        self.paused = False
        self._redelivered: dict[Delivery, _Again] = {}
        self.replayed: dict[str, int] = {}
        """How many events were delivered again, by result."""
        self._silent_since = UNTIMED  # since when the subscriber has given no answer
        self._silent_s = 0.0  # when the newest attempt without an answer ended
        self._patience = PATIENCE
        self._rejections = 0  # answers other than those that `delivered` counts
        self.held = 0
        """Events taken from the channel and not settled."""
        self.delivered = self.retried = 0

    def _prepare(self) -> None:
        """The first event is here."""
        policy, clock = self.policy, self.clock
        endless = float("inf")
        self._queue = DeliveryQueue(
            self.order_key_of,
            endless if self._endless else policy.most_attempts,
            endless if self._endless else policy.retries_for_s,
        )
        self._schedule = Schedule(policy, clock, self._queue, self._drawn, self._pump, self._later)
        self._attempts = Attempts(
            self.name, self.sink, self._send, policy.timeout_s, clock, self._observers, ended=self._attempted
        )

    @property
    def _retries(self) -> int:
        """How many retries count as many."""
        return RETRIES if self.policy.retry is None else self.policy.retry

    def _drawn(self) -> float:
        return self.draw()

    def observe(self, observers: tuple[Observer, ...]) -> None:
        """Replaces the observers."""
        self._observers = observers
        self._attempts.observe(observers)
        if self.dead_letters is not None:
            self.dead_letters.observe(observers)

    def offer(self, event: Event) -> bool:
        """Accepts an event, or returns False if there is no room: the channel keeps it until `feed.resume()`."""
        return not self.offer_all((event,))

    def offer_all(self, events: Sequence[Event]) -> list[Event]:
        """Accepts events that came together, and returns those for which there is no room."""
        refused = []
        if self._queue is _NO_QUEUE:
            self._prepare()
        try:
            for event in events:
                if self.paused or not self.room():
                    self._full = True
                    refused.append(event)
                    continue
                delivery = Delivery(self._attempts, event)
                self.held += 1
                self._budget.used += delivery.size
                self._enter(delivery)
        finally:  # even if there is no memory for one of them
            self._pump()
        return refused

    def _enter(self, delivery: Delivery) -> bool:
        """Queues it, unless its filter or its key mapper raised."""
        if self._undecided and (found := self._undecided.pop(id(delivery.event), None)) is not None:
            self._without_attempt(delivery, found[1])
            return False
        try:
            self._queue.enter(delivery)
        except Exception as e:
            self._without_attempt(delivery, _no_order(e))
            return False
        return True

    def reject(self, event: Event, outcome: Outcome) -> None:
        """Accepts the event that a channel made of a record that is not one, and writes it to the dead letter."""
        if not self._stopping:  # else the channel keeps it
            if self._queue is _NO_QUEUE:
                self._prepare()
            delivery = Delivery(self._attempts, event)
            self.held += 1
            self._budget.used += delivery.size
            self._without_attempt(delivery, outcome)

    def again(self, event: Event, done: Redelivered, letter: GivenUp | None = None, by: str = "") -> bool:
        """See `contract.topology.DeliveryView`."""
        if self.paused or self.blocked or not self.room():
            return False
        if self._queue is _NO_QUEUE:
            self._prepare()
        if self._filter is not None and not self._filter.filter.matches(event):
            self._count_replayed("unwanted")
            done("unwanted", UNWANTED)
            return True
        delivery = Delivery(self._attempts, event)
        self._redelivered[delivery] = _Again(done, letter, by)
        self.held += 1
        self._budget.used += delivery.size
        self._enter(delivery)
        self._pump()
        return True

    def end_again(self, *, letters: bool = False) -> None:
        """See `contract.topology.DeliveryView`."""
        redelivered = self._redelivered
        for delivery in self._queue.take_out(
            lambda d: d in redelivered and (redelivered[d].letter is not None) == letters
        ):
            self.held -= 1
            self._budget.used -= delivery.size
            redelivered.pop(delivery).done("ended", _ENDED)
        self._pump()
        self._resume_feed()

    def _of_letter(self, delivery: Delivery) -> bool:
        """Whether it comes from a dead letter: then it does not go back there."""
        return (again := self._redelivered.get(delivery)) is not None and again.letter is not None

    @property
    def _most_of_letter(self) -> int:
        return min(MOST_OF_LETTER, self._retries + 1)

    def _count_replayed(self, result: str) -> None:
        self.replayed[result] = self.replayed.get(result, 0) + 1

    def _keep_delivered(self, event: Event, letter: GivenUp | None, by: str) -> None:
        """Remembers of an event that was given up that the subscriber has it now."""
        now_ns, source = self.clock.now_ns(), event.attributes.get("source")
        known = letter or self.failures.given_up(id_of(event) or "", source, event.position)
        if known is not None and not known.delivered_ns:
            self.failures.gave_up(event, replace(known, delivered_ns=now_ns, delivered_by=by))
        if event.position and offers(self.feed, KeepsGivenUp):
            self.feed.delivered_again(event.position, now_ns, letter, by)

    def _without_attempt(self, delivery: Delivery, outcome: Outcome) -> None:
        """No attempt can be made."""
        delivery.outcome = outcome
        delivery.first_ns = delivery.first_ns or self.clock.now_ns()
        if self._redelivered and self._of_letter(delivery):
            self._settle(delivery, outcome)
            return
        self.failures.last = one_line(outcome.reason)
        # retry a filter that ran out of memory, unless later events may not overtake this one
        again = outcome.retry and self.order_key_of is None and delivery.attempts < self._retries
        if not again and not self._endless:
            self._give_up_soon(delivery)
            return
        delivery.attempts += 1  # without a dead letter there is no limit: the source can wait
        self.failures.in_a_row += 1
        wait = backoff.wait_s(self.policy, self.failures.in_a_row, self.draw())
        self._later(delivery, wait, self._decide)

    def _decide(self, delivery: Delivery) -> None:
        """Runs the filter and the key mapper again."""
        self._queue.waiting.discard(delivery)
        if self._filter is not None and not self._filter.filter.matches(delivery.event):
            self.failures.in_a_row = 0
            self._settle(delivery, result="unwanted")
        elif self._enter(delivery):
            self.failures.in_a_row = delivery.attempts = 0
            self._pump()

    def withdraw(self, partition: int) -> list[int]:
        """Drops the events of a partition without an attempt or a dead letter under way: another gateway delivers them
        now. Returns their positions."""
        positions = self._drop(partition)
        self._pump()
        self._resume_feed()
        return positions

    def _drop(self, partition: int | None) -> list[int]:
        """Drops what waits, of this partition or of all. The channel keeps it."""
        dropped = self._queue.withdraw(partition)
        if self.dead_letters is not None:
            letters = self.dead_letters.withdraw(partition)
            for delivery in letters:
                self._queue.leave(delivery)
            dropped += letters
        positions = []
        for delivery in dropped:
            self.held -= 1
            self._budget.used -= delivery.size
            if (again := self._redelivered.pop(delivery, None)) is not None:
                again.done("ended", _ENDED)
            else:
                positions.append(delivery.event.position)
        return positions

    def _pump(self) -> None:
        if self._stopping:
            self._drop(None)
            return
        if self._pumping:  # a sink may answer inside `send`; the loop below continues
            return
        self._pumping = True
        try:
            due, spent, under_way = self._queue.due, self._queue.spent, self._attempts.under_way
            while (due or spent) and not self.paused and not self.blocked and not self._stopping:
                if spent and self._may_give_up():
                    self._give_up(spent.pop(0))
                elif due and self._left is not None and (found := self._unwanted()) is not None:
                    self._settle(*found)
                elif due and (delivery := self._schedule.next(len(under_way))) is not None:
                    self._attempts.begin(delivery)
                else:
                    break
        finally:
            self._pumping = False

    def _unwanted(self) -> tuple[Delivery, Outcome] | None:
        """Removes and returns a due delivery that goes back to its sender without another attempt, and why."""
        due = self._queue.due
        assert self._left is not None
        if self._left(due[0].event.position):
            return due.popleft(), _LEFT
        if pause := self.pause_left_s():
            for delivery in due:
                if not delivery.attempts:
                    due.remove(delivery)
                    reason = f"the sink asked for a pause: {self.failures.last}"
                    return delivery, Outcome(False, retry=True, reason=reason, retry_after_s=pause)
        return None

    def _attempted(self, delivery: Delivery, outcome: Outcome) -> None:
        """An attempt ended."""
        if outcome.local and outcome.retry:
            if not self._stopping:
                self.failures.short(outcome.reason)
            self._schedule.held_up()
            self._queue.due.appendleft(delivery)
            self._pump()
            return
        if self._schedule.short and not outcome.local:
            self._schedule.plenty()
            self.failures.plenty()
        if outcome.delivered:
            self._succeeded(delivery, outcome)
        elif outcome.shared:
            self._again(delivery, outcome)
        else:
            self._failed(delivery, outcome, outcome.code is not None)
        if self._queue.due or self._queue.spent or self._stopping:  # saves a call per event
            self._pump()

    def _succeeded(self, delivery: Delivery, outcome: Outcome) -> None:
        if self.failures.in_a_row or self._schedule.outage.count:
            self.failures.recovered()
            self._end_silence(delivery)
        self._schedule.succeeded()
        if outcome.reply is None or self._publish is None:
            self.delivered += 1
            self._settle(delivery)
        else:
            replied = partial(self._replied, delivery)
            reply.publish(outcome.reply, delivery.event, self.clock.now_ns(), self._publish, replied)

    def _replied(self, delivery: Delivery, failure: Outcome | None) -> None:
        if failure is None:
            self.delivered += 1
            self._settle(delivery)
        else:
            self._failed(delivery, failure, True)
        self._pump()

    def _again(self, delivery: Delivery, outcome: Outcome) -> None:
        """The message was rejected that the event was part of: the next attempt follows at once."""
        delivery.outcome = outcome
        delivery.free += 1
        self.failures.shared(self.clock.now_ns(), delivery.event, delivery.attempts, outcome)
        self._end_silence(delivery)
        self._schedule.answered()
        self.retried += 1
        self._queue.due.appendleft(delivery)

    def _failed(self, delivery: Delivery, outcome: Outcome, answered: bool) -> None:
        delivery.outcome = outcome
        now_ns = self.clock.now_ns()
        if answered:
            self._end_silence(delivery)
        if not outcome.local:
            self.failures.failed(now_ns, delivery.event, delivery.attempts, outcome, self.held)
        asked = self._schedule.failed(delivery, outcome, answered)
        of_letter = bool(self._redelivered) and self._of_letter(delivery)
        if of_letter and (not outcome.retry or self._stopping or delivery.attempts >= self._most_of_letter):
            self._settle(delivery, outcome)
            return
        if self.policy.hold_while_down and not answered and outcome.retry and self._silent(delivery, outcome):
            delivery.free += 1
            self.retried += 1
            self._later(delivery, backoff.wait_s(self.policy, delivery.attempts, self.draw()))
            return
        elapsed = delivery.failed(self.clock.monotonic(), self._queue.limit_s)
        last = self._queue.is_spent(delivery) and not (self._stopping and self.dead_letters)
        if (not outcome.retry or last) and not self._endless:
            if self.policy.hold_while_down and outcome.reached and self._schedule.outage.alone(delivery):
                self._schedule.outage.forget(delivery)
                self._patience *= 2
            self._give_up_soon(delivery)
            return
        if self._endless and delivery.attempts == self._retries + 1:
            log.error("%s waits for its sink, it has no dead letter: %s", self.name, outcome.reason)
        self.retried += 1
        self._later(delivery, max(asked, backoff.wait_s(self.policy, delivery.tries, self.draw(), elapsed)))

    # -- a subscriber that gives no answer, with `hold_while_down` ----------------------------------------------------

    def _silent(self, delivery: Delivery, outcome: Outcome) -> bool:
        """Whether an attempt without an answer says nothing about the event, and so uses up no retry: the subscriber
        has answered nobody since the event's last such attempt, and if this event alone is tried, few attempts have
        reached the subscriber (`PATIENCE`)."""
        now = self.clock.monotonic()
        if self._silent_since == UNTIMED:
            self._silent_since = self._silent_s = now
        last, self._silent_s = self._silent_s, now
        answers = self.delivered + self._rejections
        before, delivery.answers = delivery.answers, answers
        if before not in (NEVER, answers):
            return False
        if outcome.reached and self._schedule.outage.alone(delivery):
            delivery.reached += 1
            return delivery.reached <= self._patience
        if delivery.failed_s != UNTIMED:  # the time since the attempt before is no time of retries
            delivery.failed_s = min(now, delivery.failed_s + now - last)
        return True

    def _end_silence(self, delivery: Delivery) -> None:
        """The subscriber answered. The time without an answer does not count as time of retries."""
        if not self.policy.hold_while_down:
            return
        self._rejections += 1
        self._patience, delivery.reached = PATIENCE, 0
        since, self._silent_since = self._silent_since, UNTIMED
        if since == UNTIMED:
            return
        now = self.clock.monotonic()
        for one in {delivery, *self._attempts.under_way, *(d for _, d in self._queue.under_way())}:
            if one.failed_s != UNTIMED:
                one.failed_s = min(now, one.failed_s + now - max(since, one.failed_s))

    def pause_left_s(self) -> float:
        """How long the sink still wants no events (`Retry-After`), in seconds."""
        return max(0.0, self._schedule.asked_until - self.clock.monotonic()) if self._schedule.asked_until else 0.0

    def _later(self, delivery: Delivery, wait: float, then: Callable[[Delivery], None] | None = None) -> None:
        delivery.due_s = self.clock.monotonic() + wait
        self._queue.waiting.add(delivery)
        if not self._stopping:
            delivery.timer = self.clock.call_later(wait, then or self._due, delivery)

    def _due(self, delivery: Delivery) -> None:
        delivery.due_s = 0.0
        self._queue.waiting.discard(delivery)
        self._queue.due.append(delivery)
        self._pump()

    def _may_give_up(self) -> bool:
        """Whether another dead letter may be written now: events given up together are not all written at once."""
        return self.dead_letters is None or self.dead_letters.count < self.policy.max_in_flight

    def _give_up_soon(self, delivery: Delivery) -> None:
        self._give_up(delivery) if self._may_give_up() else self._queue.spent.append(delivery)

    def _give_up(self, delivery: Delivery) -> None:
        assert delivery.outcome is not None
        if self._of_letter(delivery):
            self._settle(delivery, delivery.outcome)
            return
        if self.dead_letters is None:
            self.failures.gave_up(delivery.event, self._given_up(delivery, ""))
            self._settle(delivery, delivery.outcome)
            return
        done = partial(self._dead_letter_written, delivery)
        self.dead_letters.write(delivery.event, delivery.outcome, self.sink.address, done, delivery=delivery)

    def _dead_letter_failed(self, reason: str) -> None:
        self.failures.last = one_line(reason)
        if self._stopping:
            self._pump()

    def _dead_letter_written(self, delivery: Delivery, error: BaseException | None) -> None:
        assert self.dead_letters is not None
        given_up = self._given_up(delivery, self.dead_letters.sink.address)
        self._keep_given_up(delivery.event, given_up)
        self._settle(delivery, result="given_up")
        self._pump()

    def _keep_given_up(self, event: Event, given_up: GivenUp) -> None:
        """Remembers who gave the event up, also in the channel if the event has a position there."""
        self.failures.gave_up(event, given_up)
        if event.position and offers(self.feed, KeepsGivenUp):
            self.feed.give_up(event.position, given_up)

    def _given_up(self, delivery: Delivery, to: str) -> GivenUp:
        outcome = delivery.outcome
        assert outcome is not None
        reason = one_line(outcome.reason, MOST_REASON)
        return GivenUp(self.clock.now_ns(), to, reason, delivery.attempts, outcome.code)

    # -- the end of a delivery --------------------------------------------------------------------------------------

    def _settle(
        self,
        delivery: Delivery,
        failure: Outcome | None = None,
        result: Literal["delivered", "given_up", "unwanted"] = "delivered",
    ) -> None:
        self.held -= 1
        self._budget.used -= delivery.size
        if delivery.order_key is not None:
            self._queue.leave(delivery)
        if self._redelivered and (again := self._redelivered.pop(delivery, None)) is not None:
            if failure is None and result == "delivered":
                self._keep_delivered(delivery.event, again.letter, again.by)
            result = result if failure is None else "given_up"
            self._count_replayed(result)
            again.done(result, failure or delivery.outcome)
        elif failure is None:
            self.feed.ack(delivery.event.position)
        elif self._give_back is not None:
            self._give_back(delivery.event.position, failure)
        if self._full:
            self._resume_feed()

    def _resume_feed(self) -> None:
        if self._full and self.held <= MOST_HELD // 2 and self.room():
            self._full = False
            self.feed.resume()

    def pause(self) -> None:
        """Starts no attempts until `resume`; those under way finish. New events stay in the channel."""
        self.paused = True

    def resume(self) -> None:
        """Resumes after `pause`."""
        self.paused = False
        self._pump()
        self._resume_feed()

    def stop(self) -> None:
        """Starts no more attempts and drops what waits. Unsettled events stay in the channel, whatever fails now."""
        self._stopping = True
        self._schedule.stop()
        self._attempts.stop()
        if self.dead_letters is not None:
            self.dead_letters.stop()
        self._drop(None)

    def room(self, count: int = 1) -> bool:
        """Whether there is room for `count` more events."""
        if self._stopping:
            return False
        held = self.held + count
        return held <= ALWAYS_HELD or (held <= MOST_HELD and self._budget.used < self._budget.limit)

    @property
    def blocked(self) -> bool:
        """True while a dead letter can't be written: no attempt starts until it can."""
        return self.dead_letters is not None and self.dead_letters.fault != ""

    @property
    def busy(self) -> bool:
        """True while an attempt or the write of a dead letter is under way."""
        return bool(self._attempts.under_way) or (self.dead_letters is not None and self.dead_letters.sending)

    @property
    def short(self) -> bool:
        """True while this machine is short of something that an attempt needs (`Outcome.local`)."""
        return self._schedule.short

    @property
    def holding(self) -> bool:
        """True while the subscriber gives no answer, and its events are held until it does (`hold_while_down`)."""
        return self.policy.hold_while_down and self._schedule is not _NO_SCHEDULE and self._schedule.outage.away

    @property
    def attempts(self) -> int:
        """Attempts made since the start."""
        return self._attempts.count

    @property
    def in_flight(self) -> int:
        """Attempts under way."""
        return len(self._attempts.under_way)

    @property
    def filter_errors(self) -> int:
        """Events on which the filter raised, since the start."""
        return self._filter.errors.count if self._filter is not None else 0

    @property
    def unreadable(self) -> dict[str, int]:
        """Events whose data a filter could not look at, since the start, by reason."""
        return dict(self._filter.unreadable.counts) if self._filter is not None else {}

    @property
    def dead_lettered(self) -> int:
        """Events written to the dead letter."""
        return self.dead_letters.written if self.dead_letters is not None else 0

    @property
    def dead_lettered_by_stage(self) -> dict[str, int]:
        """The same by the stage at which they failed."""
        return dict(self.dead_letters.written_by_stage) if self.dead_letters is not None else {}

    def retried_until_ns(self, delivery: Delivery) -> int | None:
        """The earliest time at which a failed event is given up (Unix time); None if its time has no limit."""
        limit_s = self._queue.limit_s
        if delivery.failed_s == UNTIMED or limit_s == float("inf") or self._of_letter(delivery):
            return None
        return self.clock.now_ns() + int((delivery.failed_s + limit_s - self.clock.monotonic()) * 1e9)

    def retries_left(self, delivery: Delivery) -> int | None:
        """How many retries an event has left; None if their number has no limit."""
        if self._of_letter(delivery):
            return max(0, self._most_of_letter - delivery.attempts)
        most = self._queue.most
        return None if most == float("inf") else max(0, int(most) - delivery.tries)

    def longest_failing(self) -> Delivery | None:
        """Of the events that have failed and wait for an attempt, the one that failed first."""
        queue = self._queue
        failed = [d for d in queue.waiting if d.failed_s != UNTIMED]
        if self.failures.in_a_row:  # else what is due has not failed, and may be much
            failed += (d for d in queue.due if d.failed_s != UNTIMED)
        return min(failed, key=lambda d: d.failed_s, default=None)

    def longest_wait_s(self, delivery: Delivery) -> float:
        """The longest wait before a retry of an event that has failed, as long as it has by now; in seconds."""
        return backoff.cap_s(self.policy, self.clock.monotonic() - delivery.failed_s)

    def find_held(self, id: str, source: str | None, position: int) -> Held | None:
        """See `contract.topology.DeliveryView`."""
        for state, delivery in self.under_way():
            event = delivery.event
            same = event.position == position if position else id_of(event) == id
            if same and source in (None, event.attributes.get("source")):
                due_ns = self.clock.now_ns() + int((delivery.due_s - self.clock.monotonic()) * 1e9)
                until_ns, left = self.retried_until_ns(delivery), self.retries_left(delivery)
                return Held(state, delivery.attempts, due_ns, until_ns, left)
        return None

    def under_way(self) -> Iterator[tuple[str, Delivery]]:
        """Events held without an attempt in flight, each with its state: `due`, `waiting` (for a retry), `behind`
        (another one with its order key) or `letter` (being written to the dead letter)."""
        yield from self._queue.under_way()
        if self.dead_letters is not None:
            yield from (("letter", delivery) for delivery in self.dead_letters.deliveries())


def _no_order(error: Exception) -> Outcome:
    """The key mapper raised: nobody knows for what the event would have to wait."""
    detail = error.detail if isinstance(error, Refused) else text_of_error(error)
    return Outcome(False, stage=Stage.ORDER, reason=f"order: {detail}")
