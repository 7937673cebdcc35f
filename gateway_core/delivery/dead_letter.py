"""Dead letters: how undeliverable events are written (`gateway_core.contract.dead_letter_facts` says what they add)."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from ..contract import backoff
from ..contract.clock import Clock, Timer
from ..contract.component_errors import text_of_error
from ..contract.config_model import DeliveryConfig
from ..contract.dead_letter_facts import with_facts
from ..contract.event import Event
from ..contract.interfaces import Accepted, Observer, Outcome, Sink
from ..contract.one_line import one_line
from ..contract.outcome import Stage
from ..pipeline.guards import checked
from .deliveries import GRACE_S, Delivery, of_partition

log = logging.getLogger("tidegate.delivery")

TIMEOUT_S = 30.0
_NONE = {stage.value: 0 for stage in Stage}
_NEVER = Outcome(False, retry=True, reason="it never reported an outcome")
WAITS = DeliveryConfig(backoff_delay_s=0.5, backoff_max_s=30.0)


class DeadLetterWriter:
    """Writes the dead letters of one trigger, broker or bridge, each until its write succeeds.

    `fault` says why a first try failed, until no write with a failed try is pending; `on_failure` gets it at each
    failed try. `what` is the kind of owner, for the log. `broker` is that of a trigger. `draw` returns the random
    numbers in [0, 1) for waits.
    """

    def __init__(
        self,
        what: str,
        name: str,
        sink: Sink,
        clock: Clock,
        observers: tuple[Observer, ...] = (),
        *,
        draw: Callable[[], float] = random.random,
        on_failure: Callable[[str], None] | None = None,
        broker: str = "",
    ) -> None:
        self.sink = sink
        self.clock = clock
        self.draw = draw
        self.fault = ""
        self.stopped = False
        self.written = 0
        self.written_by_stage = _NONE
        self._owner = f"{what} {name}"
        self._name = name
        self._broker = broker
        self._observers = observers
        self._on_failure = on_failure
        self._pending: dict[_Write, Delivery | None] = {}
        self._failing = 0  # pending writes with a failed try

    def observe(self, observers: tuple[Observer, ...]) -> None:
        """Replaces the observers."""
        self._observers = observers

    def use(self, sink: Sink) -> None:
        """Writes to this sink from now on, also what waits for its next try."""
        self.sink = sink

    def write(
        self, event: Event, outcome: Outcome, dest: str, done: Accepted, *, delivery: Delivery | None = None
    ) -> None:
        """Writes an event that could not be delivered to `dest`, however long that takes. Calls `done(None)` once it is
        safe. Without a `delivery` its source made one attempt."""
        now = self.clock.now_ns()
        attempts = delivery.attempts if delivery is not None else 1
        first_ns = (delivery.first_ns if delivery is not None else event.received_ns) or now
        write = _Write(
            self,
            event,
            done,
            lambda: with_facts(
                event,
                outcome,
                trigger=self._name,
                dest=dest,
                attempts=attempts,
                first_ns=first_ns,
                last_ns=now,
                broker=self._broker,
            ),
        )
        self._pending[write] = delivery
        write.begin()

    def failed(self, write: _Write, reason: str) -> None:
        """A try failed."""
        if not write.failed:
            write.failed = True
            self._failing += 1
            self.fault = f"dead letter {self.sink.address} failed: {reason}"
            log.error("%s waits for its dead letter: %s", self._owner, one_line(self.fault))
        if self._on_failure is not None:
            self._on_failure(self.fault)

    def succeeded(self, write: _Write) -> None:
        """An event is safe."""
        self._remove(write)
        facts = write.event.attributes
        self.written += 1
        stage = facts["tidegatestage"]
        self.written_by_stage = {**self.written_by_stage, stage: self.written_by_stage[stage] + 1}
        log.warning(
            "%s: event %s from %s is in the dead letter (attempts: %d): %s",
            self._owner,
            one_line(facts.get("id")),
            one_line(facts.get("source")),
            facts["tidegateattempts"],
            facts["tidegatereason"],
        )
        for observer in self._observers:
            observer.dead_lettered(self._name, write.event)

    def _remove(self, write: _Write) -> None:
        del self._pending[write]
        self._failing -= write.failed
        if self.fault and not self._failing and not self.stopped:
            self.fault = ""
            log.info("%s continues: its dead letter accepts events again", self._owner)

    def withdraw(self, partition: int | None) -> list[Delivery]:
        """Gives up the writes for a partition (or for all) that wait for their next try. Returns their deliveries."""
        found = [
            (write, delivery)
            for write, delivery in self._pending.items()
            if delivery is not None and not write.sending
            if partition is None or of_partition(delivery.event) == partition
        ]
        for write, _ in found:
            write.cancel()
            self._remove(write)
        return [delivery for _, delivery in found]

    @property
    def count(self) -> int:
        """How many writes are pending."""
        return len(self._pending)

    def deliveries(self) -> list[Delivery]:
        """The deliveries whose dead letter is still being written."""
        return [delivery for delivery in self._pending.values() if delivery is not None]

    @property
    def sending(self) -> bool:
        """True while any try is under way."""
        return any(write.sending for write in self._pending)

    def stop(self) -> None:
        """Stops retrying. Tries under way may still succeed; later writes get a single try. What fails stays in the
        channel or with its source."""
        self.stopped = True
        for write in self._pending:
            write.cancel()


class _Write:
    """The write of one dead letter."""

    __slots__ = ("_done", "_letter", "_timer", "_tries", "_writer", "event", "failed", "sending")

    def __init__(self, writer: DeadLetterWriter, event: Event, done: Accepted, letter: Callable[[], Event]) -> None:
        self.event = event
        self._letter = letter
        self.sending = self.failed = False  # a try is under way; at least one has failed
        self._writer = writer
        self._done = done
        self._tries = 0
        self._timer: Timer | None = None  # until the next try, or until the try under way has taken too long

    def begin(self) -> None:
        """Starts the next try."""
        writer = self._writer
        self._timer = None
        self.sending = True
        self._tries += 1
        try:
            self.event = self._letter()  # in each try, since there may be no memory for it
            writer.sink.send(self.event, TIMEOUT_S, self._answered)
        except KeyboardInterrupt:
            raise
        except BaseException as e:
            self._answered(Outcome(False, retry=True, reason=text_of_error(e)))
        if self.sending and not writer.stopped:
            self._timer = writer.clock.call_later(TIMEOUT_S + GRACE_S, self._answered, _NEVER)

    def _answered(self, outcome: Outcome) -> None:
        writer = self._writer
        if not self.sending:
            log.warning("dead letter %s reported a second outcome for one attempt; ignored", writer.sink.address)
            return
        self.sending = False
        self.cancel()
        outcome = checked(outcome)
        if outcome.delivered:
            writer.succeeded(self)
            self._done(None)
            return
        writer.failed(self, outcome.reason)
        if not writer.stopped:
            self._timer = writer.clock.call_later(backoff.wait_s(WAITS, self._tries, writer.draw()), self.begin)

    def cancel(self) -> None:
        """Makes no further try. One under way may still succeed."""
        if self._timer is not None:
            self._timer.cancel()
