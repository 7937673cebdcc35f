"""The dead letter: where undeliverable events go, with the facts of why.

`knativeerrordest`, `knativeerrorcode` and `knativeerrordata` are Knative Eventing's dead-letter attributes. Knative's
implementations disagree on the encoding of the data; here it is the response body cut at 1024 bytes, then base64.
"""

from __future__ import annotations

import logging
import random
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from ..clock import Clock, Timer
from ..config.model import DeliveryConfig
from ..event import Event
from ..interfaces import Accepted, Observer, Outcome, Sink
from . import backoff

log = logging.getLogger("tidegate.delivery")

FACTS = (
    "knativeerrordest",
    "knativeerrorcode",
    "knativeerrordata",
    "tidegatetrigger",
    "tidegateattempts",
    "tidegatefirst",
    "tidegatelast",
    "tidegatestage",
    "tidegatereason",
)
"""The attributes that a dead letter adds to its event."""

DATA_BYTES = 1024
TIMEOUT_S = 30.0
WAITS = DeliveryConfig(backoff_delay_s=0.5, backoff_max_s=30.0)


def rfc3339(ns: int) -> str:
    """Unix nanoseconds as RFC 3339 in UTC, to the microsecond."""
    return datetime.fromtimestamp(ns / 1e9, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def with_facts(
    event: Event, outcome: Outcome, *, trigger: str, dest: str, attempts: int, first_ns: int, last_ns: int, stage: str
) -> Event:
    """The event with the facts of its failure as extension attributes; earlier facts are replaced."""
    facts: dict[str, Any] = {
        "knativeerrordest": dest,
        "tidegatetrigger": trigger,
        "tidegateattempts": attempts,
        "tidegatefirst": rfc3339(first_ns),
        "tidegatelast": rfc3339(last_ns),
        "tidegatestage": stage,
        "tidegatereason": _one_line(outcome.reason) or "no reason given",
    }
    if outcome.code is not None:
        facts["knativeerrorcode"] = str(outcome.code)
    if outcome.data:
        facts["knativeerrordata"] = b64encode(outcome.data[:DATA_BYTES]).decode()
    return without_facts(event).with_attributes(**facts)


def without_facts(event: Event) -> Event:
    """The event as it was before it became a dead letter (what a replay sends)."""
    attributes = {k: v for k, v in event.attributes.items() if k not in FACTS}
    return Event(attributes, event.data, event.json_data, event.key, event.received_ns, event.position)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:500]


class Burial:
    """One letter on its way to the dead letter: tried again, with growing waits, until it is there or `cancel`."""

    __slots__ = ("_clock", "_draw", "_sink", "_stuck", "_then", "_timer", "letter", "tries")

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
        self._sink = sink
        self._clock = clock
        self._draw = draw
        self._stuck = stuck
        self._then = then
        self._timer: Timer | None = None

    def begin(self) -> None:
        """The next try."""
        self._timer = None
        self.tries += 1
        try:
            self._sink.send(self.letter, TIMEOUT_S, self._done)
        except Exception as e:
            self._done(Outcome(False, retry=True, reason=f"{type(e).__name__}: {e}"))

    def _done(self, outcome: Outcome) -> None:
        if outcome.delivered:
            self._then(self)
            return
        if self.tries == 1:
            self._stuck(f"dead letter {self._sink.address} failed: {outcome.reason}")
        self._timer = self._clock.call_later(backoff.wait_s(WAITS, self.tries, self._draw()), self.begin)

    @property
    def sending(self) -> bool:
        """True while a try is under way, False while it waits for the next."""
        return self._timer is None

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class Letters:
    """The dead letter of a broker or bridge, for events that its sources tried to deliver by themselves."""

    def __init__(self, owner: str, sink: Sink, clock: Clock, observers: tuple[Observer, ...] = ()) -> None:
        self.buried = 0
        self._owner = owner
        self._sink = sink
        self._clock = clock
        self._observers = observers

    def bury(self, event: Event, outcome: Outcome, dest: str, done: Accepted) -> None:
        """Writes the event's letter, however long that takes. `done(None)` follows when it is safe."""

        def buried(burial: Burial) -> None:
            self.buried += 1
            for observer in self._observers:
                observer.dead_lettered(self._owner, burial.letter)
            done(None)

        now = self._clock.now_ns()
        times = {"first_ns": event.received_ns or now, "last_ns": now}
        letter = with_facts(event, outcome, trigger=self._owner, dest=dest, attempts=1, stage="delivery", **times)
        Burial(self._sink, letter, self._clock, random.random, self._stuck, buried).begin()

    def _stuck(self, reason: str) -> None:
        log.error("%s: %s", self._owner, reason)
