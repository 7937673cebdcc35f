"""Writes dead letters. A failed write is retried, with growing waits, until it succeeds or the gateway stops."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from ..config.model import DeliveryConfig
from ..contract.clock import Clock, Timer
from ..contract.event import Event
from ..contract.interfaces import Accepted, Observer, Outcome, Sink
from ..contract.one_line import one_line
from ..pipeline.guards import checked, text_of_error
from . import backoff
from .attempt import Delivery
from .dead_letter import STAGES, with_facts
from .ordering import of_partition
from .watch import GRACE_S

log = logging.getLogger("tidegate.delivery")

TIMEOUT_S = 30.0
WAITS = DeliveryConfig(backoff_delay_s=0.5, backoff_max_s=30.0)


class DeadLetterWrite:
    """The write of one dead letter: retried, with growing waits, until it succeeds or `cancel` is called."""

    __slots__ = (
        "_awaited", "_cancelled", "_clock", "_draw", "_guard", "_on_failure", "_on_written", "_timer", "event", "sink",
        "tries",
    )  # fmt: skip

    def __init__(
        self,
        sink: Sink,
        event: Event,
        clock: Clock,
        draw: Callable[[], float],
        on_failure: Callable[[str], None],
        on_written: Callable[[DeadLetterWrite], None],
    ) -> None:
        """`on_failure(reason)` is called after the first try if it fails, `on_written(self)` once the event is safe."""
        self.event = event
        self.tries = 0
        self.sink = sink
        self._clock = clock
        self._draw = draw
        self._on_failure = on_failure
        self._on_written = on_written
        self._awaited = self._cancelled = False
        self._timer: Timer | None = None
        self._guard: Timer | None = None

    def begin(self) -> None:
        """Starts the next try."""
        self._timer = None
        self._awaited = True
        self.tries += 1
        try:
            self.sink.send(self.event, TIMEOUT_S, self._done)
        except KeyboardInterrupt:
            raise
        except BaseException as e:
            self._done(Outcome(False, retry=True, reason=text_of_error(e)))
        if self._awaited and not self._cancelled:
            self._guard = self._clock.call_later(TIMEOUT_S + GRACE_S, self._unanswered)

    def _unanswered(self) -> None:
        self._guard = None
        self._done(Outcome(False, retry=True, reason="it never reported an outcome"))

    def _done(self, outcome: Outcome) -> None:
        if not self._awaited:
            log.warning("dead letter %s reported a second outcome for one attempt; ignored", self.sink.address)
            return
        self._awaited = False
        if self._guard is not None:
            self._guard.cancel()
            self._guard = None
        outcome = checked(outcome)
        if outcome.delivered:
            self._on_written(self)
            return
        if self.tries == 1:
            self._on_failure(f"dead letter {self.sink.address} failed: {outcome.reason}")
        if not self._cancelled:
            self._timer = self._clock.call_later(backoff.wait_s(WAITS, self.tries, self._draw()), self.begin)

    @property
    def sending(self) -> bool:
        """True while a try is under way, False while waiting for the next one."""
        return self._awaited

    def cancel(self) -> None:
        """Stops retrying. A try under way may still succeed."""
        self._cancelled = True
        for timer in (self._timer, self._guard):
            if timer is not None:
                timer.cancel()


class SubscriptionDeadLetterWriter:
    """Writes the dead letters of one subscription. `stuck` counts the pending ones whose first try failed.

    `on_failure(reason)` is called after each first try that fails, `on_written(delivery)` once the event is safe.
    """

    def __init__(
        self,
        name: str,
        sink: Sink,
        clock: Clock,
        draw: Callable[[], float],
        observers: tuple[Observer, ...],
        on_failure: Callable[[str], None],
        on_written: Callable[[Delivery], None],
    ) -> None:
        self.stuck = 0
        self.stages = dict.fromkeys(STAGES, 0)  # how many were written, by the stage at which the events failed
        self._name = name
        self._sink = sink
        self._clock = clock
        self._draw = draw
        self._observers = observers
        self._on_failure = on_failure
        self._on_written = on_written
        self._pending: dict[DeadLetterWrite, Delivery] = {}
        self._stopped = False

    def observe(self, observers: tuple[Observer, ...]) -> None:
        """Replaces the observers."""
        self._observers = observers

    def write(self, delivery: Delivery, stage: str, dest: str) -> None:
        """Writes an event that could not be delivered to `dest`."""
        assert delivery.outcome is not None
        event = with_facts(
            *(delivery.event, delivery.outcome),
            trigger=self._name,
            dest=dest,
            attempts=delivery.attempts,
            first_ns=delivery.first_ns,
            last_ns=self._clock.now_ns(),
            stage=stage,
        )
        write = DeadLetterWrite(self._sink, event, self._clock, self._draw, self._failed, self._written)
        self._pending[write] = delivery
        if self._stopped:
            write.cancel()  # a single try; if it fails, the event stays in the channel
        write.begin()

    def _failed(self, reason: str) -> None:
        self.stuck += 1
        self._on_failure(reason)
        log.error("trigger %s is blocked: %s", self._name, one_line(reason))

    def _written(self, write: DeadLetterWrite) -> None:
        delivery = self._pending.pop(write)
        if write.tries > 1:
            self.stuck -= 1
            if not self.stuck:
                log.info("trigger %s resumes: its dead letter accepts events again", self._name)
        facts = write.event.attributes
        self.stages[facts["tidegatestage"]] += 1
        log.warning(
            "trigger %s: event %s from %s is in the dead letter (attempts: %d): %s",
            *(self._name, one_line(facts.get("id")), one_line(facts.get("source"))),
            *(delivery.attempts, facts["tidegatereason"]),
        )
        for observer in self._observers:
            observer.dead_lettered(self._name, write.event)
        self._on_written(delivery)

    def withdraw(self, partition: int) -> list[Delivery]:
        """Gives up the writes for a partition that wait for their next try. Returns their deliveries."""
        found = [(w, d) for w, d in self._pending.items() if not w.sending and of_partition(d.event) == partition]
        for write, _ in found:
            write.cancel()
            del self._pending[write]
        self.stuck -= len(found)
        return [delivery for _, delivery in found]

    @property
    def count(self) -> int:
        """How many writes are pending."""
        return len(self._pending)

    def deliveries(self) -> list[Delivery]:
        """The deliveries whose dead letter is still being written."""
        return list(self._pending.values())

    @property
    def sending(self) -> bool:
        """True while any try is under way."""
        return any(write.sending for write in self._pending)

    def stop(self) -> None:
        """Stops retrying. Tries under way may still succeed."""
        self._stopped = True
        for write in self._pending:
            write.cancel()


class SourceDeadLetterWriter:
    """Writes the dead letters of a broker or bridge: events that its sources tried to deliver themselves."""

    def __init__(self, owner: str, sink: Sink, clock: Clock, observers: tuple[Observer, ...] = ()) -> None:
        self.written = 0
        self.stuck = ""  # why a write failed, until no write is pending
        self.stages = dict.fromkeys(STAGES, 0)
        self._pending: set[DeadLetterWrite] = set()
        self._owner = owner
        self._sink = sink
        self._clock = clock
        self._observers = observers
        self._stopped = False
        self._successor: SourceDeadLetterWriter | None = None

    def observe(self, observers: tuple[Observer, ...]) -> None:
        """Replaces the observers."""
        self._observers = observers

    def hand_over(self, other: SourceDeadLetterWriter) -> None:
        """Passes pending writes to the writer of another dead letter, which retries them there."""
        for write in self._pending:
            write.sink = other._sink
        other._pending |= self._pending
        other.stuck = self.stuck
        self._pending = set()
        self._successor = other

    def stop(self) -> None:
        """Stops retrying. Callers that still wait get no answer."""
        self._stopped = True
        for write in self._pending:
            write.cancel()

    def write(self, event: Event, outcome: Outcome, dest: str, done: Accepted, stage: str = "delivery") -> None:
        """Writes an event, however long that takes. Calls `done(None)` once it is safe."""

        def written(write: DeadLetterWrite) -> None:
            self._last()._written(write, stage)
            done(None)

        now = self._clock.now_ns()
        times = {"first_ns": event.received_ns or now, "last_ns": now}
        event = with_facts(event, outcome, trigger=self._owner, dest=dest, attempts=1, stage=stage, **times)
        write = DeadLetterWrite(self._sink, event, self._clock, random.random, self._failed, written)
        self._pending.add(write)
        if self._stopped:
            write.cancel()
        write.begin()

    def _last(self) -> SourceDeadLetterWriter:
        found = self
        while found._successor is not None:
            found = found._successor
        return found

    def _written(self, write: DeadLetterWrite, stage: str) -> None:
        self.written += 1
        self.stages[stage] += 1
        self._pending.discard(write)
        if not self._pending:
            self.stuck = ""
        for observer in self._observers:
            observer.dead_lettered(self._owner, write.event)

    def _failed(self, reason: str) -> None:
        self._last().stuck = reason
        log.error("%s: %s", self._owner, one_line(reason))
