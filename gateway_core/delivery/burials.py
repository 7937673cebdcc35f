"""The way into the dead letter: a letter is tried again, with growing waits, until it is there."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from ..clock import Clock, Timer
from ..config.model import DeliveryConfig
from ..event import Event
from ..guards import checked, text_of_error
from ..interfaces import Accepted, Observer, Outcome, Sink
from ..oneline import one_line
from . import backoff
from .attempt import Delivery
from .deadletter import STAGES, with_facts
from .lanes import of_partition
from .watch import GRACE_S

log = logging.getLogger("tidegate.delivery")

TIMEOUT_S = 30.0
WAITS = DeliveryConfig(backoff_delay_s=0.5, backoff_max_s=30.0)


class Burial:
    """One letter on its way to the dead letter: tried again, with growing waits, until it is there or `cancel`."""

    __slots__ = (
        "_awaited", "_cancelled", "_clock", "_draw", "_guard", "_stuck", "_then", "_timer", "letter", "sink", "tries",
    )  # fmt: skip

    def __init__(
        self,
        sink: Sink,
        letter: Event,
        clock: Clock,
        draw: Callable[[], float],
        stuck: Callable[[str], None],
        then: Callable[[Burial], None],
    ) -> None:
        """`stuck(reason)` is called after the first try that fails, `then(self)` when the letter is safe."""
        self.letter = letter
        self.tries = 0
        self.sink = sink
        self._clock = clock
        self._draw = draw
        self._stuck = stuck
        self._then = then
        self._awaited = self._cancelled = False
        self._timer: Timer | None = None
        self._guard: Timer | None = None

    def begin(self) -> None:
        """The next try."""
        self._timer = None
        self._awaited = True
        self.tries += 1
        try:
            self.sink.send(self.letter, TIMEOUT_S, self._done)
        except KeyboardInterrupt:
            raise
        except BaseException as e:
            self._done(Outcome(False, retry=True, reason=text_of_error(e)))
        if self._awaited and not self._cancelled:
            self._guard = self._clock.call_later(TIMEOUT_S + GRACE_S, self._unanswered)

    def _unanswered(self) -> None:
        self._guard = None
        self._done(Outcome(False, retry=True, reason="it said nothing of the letter"))

    def _done(self, outcome: Outcome) -> None:
        if not self._awaited:
            log.warning("dead letter %s gave a second outcome for one attempt, which is ignored", self.sink.address)
            return
        self._awaited = False
        if self._guard is not None:
            self._guard.cancel()
            self._guard = None
        outcome = checked(outcome)
        if outcome.delivered:
            self._then(self)
            return
        if self.tries == 1:
            self._stuck(f"dead letter {self.sink.address} failed: {outcome.reason}")
        if not self._cancelled:
            self._timer = self._clock.call_later(backoff.wait_s(WAITS, self.tries, self._draw()), self.begin)

    @property
    def sending(self) -> bool:
        """True while a try is under way, False while it waits for the next."""
        return self._awaited

    def cancel(self) -> None:
        """No more tries. One that is under way may succeed yet."""
        self._cancelled = True
        for timer in (self._timer, self._guard):
            if timer is not None:
                timer.cancel()


class Burials:
    """All letters of one subscription that are on their way. `stuck` counts those whose first try failed;
    `told(reason)` is called for each such, `buried(delivery)` when a letter is safe."""

    def __init__(
        self,
        name: str,
        sink: Sink,
        clock: Clock,
        draw: Callable[[], float],
        observers: tuple[Observer, ...],
        told: Callable[[str], None],
        buried: Callable[[Delivery], None],
    ) -> None:
        self.stuck = 0
        self.stages = dict.fromkeys(STAGES, 0)  # letters that are safe, by the stage at which events came to their end
        self._name = name
        self._sink = sink
        self._clock = clock
        self._draw = draw
        self._observers = observers
        self._told = told
        self._then = buried
        self._under_way: dict[Burial, Delivery] = {}
        self._stopped = False

    def observe(self, observers: tuple[Observer, ...]) -> None:
        """Tells these from now on, and no others."""
        self._observers = observers

    def begin(self, delivery: Delivery, stage: str, dest: str) -> None:
        """Writes the letter of an event that could not be delivered to `dest`."""
        assert delivery.outcome is not None
        letter = with_facts(
            *(delivery.event, delivery.outcome),
            trigger=self._name,
            dest=dest,
            attempts=delivery.attempts,
            first_ns=delivery.first_ns,
            last_ns=self._clock.now_ns(),
            stage=stage,
        )
        burial = Burial(self._sink, letter, self._clock, self._draw, self._stuck, self._buried)
        self._under_way[burial] = delivery
        if self._stopped:
            burial.cancel()  # one try; what is not safe by then stays in the channel
        burial.begin()

    def _stuck(self, reason: str) -> None:
        self.stuck += 1
        self._told(reason)
        log.error("trigger %s is paused: %s", self._name, one_line(reason))

    def _buried(self, burial: Burial) -> None:
        delivery = self._under_way.pop(burial)
        if burial.tries > 1:
            self.stuck -= 1
            if not self.stuck:
                log.info("trigger %s goes on: its dead letter takes events again", self._name)
        facts = burial.letter.attributes
        self.stages[facts["tidegatestage"]] += 1
        log.warning(
            "trigger %s: event %s from %s is in the dead letter (attempts: %d): %s",
            *(self._name, one_line(facts.get("id")), one_line(facts.get("source"))),
            *(delivery.attempts, facts["tidegatereason"]),
        )
        for observer in self._observers:
            observer.dead_lettered(self._name, burial.letter)
        self._then(delivery)

    def withdraw(self, partition: int) -> list[Delivery]:
        """Gives up the letters of a partition that wait for their next try."""
        found = [(b, d) for b, d in self._under_way.items() if not b.sending and of_partition(d.event) == partition]
        for burial, _ in found:
            burial.cancel()
            del self._under_way[burial]
        self.stuck -= len(found)
        return [delivery for _, delivery in found]

    @property
    def count(self) -> int:
        """Letters that are on their way."""
        return len(self._under_way)

    def deliveries(self) -> list[Delivery]:
        """Those whose letter is on its way."""
        return list(self._under_way.values())

    @property
    def sending(self) -> bool:
        """True while the writing of a letter is under way."""
        return any(burial.sending for burial in self._under_way)

    def stop(self) -> None:
        """No letter is tried again. Those being written may still arrive."""
        self._stopped = True
        for burial in self._under_way:
            burial.cancel()


class Letters:
    """The dead letter of a broker or bridge, for events that its sources tried to deliver by themselves."""

    def __init__(self, owner: str, sink: Sink, clock: Clock, observers: tuple[Observer, ...] = ()) -> None:
        self.buried = 0
        self.stuck = ""  # why the last letter could not be written, while there is one that waits for that
        self.stages = dict.fromkeys(STAGES, 0)
        self._waiting: set[Burial] = set()
        self._owner = owner
        self._sink = sink
        self._clock = clock
        self._observers = observers
        self._stopped = False
        self._after: Letters | None = None  # those that took over

    def observe(self, observers: tuple[Observer, ...]) -> None:
        """Tells these from now on, and no others."""
        self._observers = observers

    def hand_over(self, other: Letters) -> None:
        """The dead letter is another one: what is not safe yet is tried there from now on."""
        for burial in self._waiting:
            burial.sink = other._sink
        other._waiting |= self._waiting
        other.stuck = self.stuck
        self._waiting = set()
        self._after = other

    def stop(self) -> None:
        """No letter is tried again: who waits for one is not answered."""
        self._stopped = True
        for burial in self._waiting:
            burial.cancel()

    def bury(self, event: Event, outcome: Outcome, dest: str, done: Accepted, stage: str = "delivery") -> None:
        """Writes the event's letter, however long that takes. `done(None)` follows when it is safe."""

        def buried(burial: Burial) -> None:
            self._last()._is_safe(burial, stage)
            done(None)

        now = self._clock.now_ns()
        times = {"first_ns": event.received_ns or now, "last_ns": now}
        letter = with_facts(event, outcome, trigger=self._owner, dest=dest, attempts=1, stage=stage, **times)
        burial = Burial(self._sink, letter, self._clock, random.random, self._fails, buried)
        self._waiting.add(burial)
        if self._stopped:
            burial.cancel()
        burial.begin()

    def _last(self) -> Letters:
        found = self
        while found._after is not None:
            found = found._after
        return found

    def _is_safe(self, burial: Burial, stage: str) -> None:
        self.buried += 1
        self.stages[stage] += 1
        self._waiting.discard(burial)
        if not self._waiting:
            self.stuck = ""
        for observer in self._observers:
            observer.dead_lettered(self._owner, burial.letter)

    def _fails(self, reason: str) -> None:
        self._last().stuck = reason
        log.error("%s: %s", self._owner, one_line(reason))
