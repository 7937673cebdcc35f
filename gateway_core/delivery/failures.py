"""The failures of a subscription: how many in a row, the newest ones for `tidegate why`, and what the log says.

A failing subscriber gets one line at once, one when the trigger is no longer ready, one a minute while that lasts, and
one when it accepts events again, however many events fail.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from ..contract.capabilities import GivenUp
from ..contract.clock import Clock
from ..contract.event import Event, id_of
from ..contract.interfaces import Outcome, Sink
from ..contract.one_line import one_line

log = logging.getLogger("tidegate.delivery")

FAILING = 5
"""Failures in a row after which the trigger is not ready."""
MOST = 500
"""How many failures, and how many events that were given up, are kept; older ones are dropped."""
EVERY_S = 60.0
"""Seconds between two lines about failures."""
CHANGE_S = 10.0
"""Seconds between two lines that say "not ready", for triggers whose state changes often."""


class Failure(NamedTuple):
    """One attempt that failed: when (Unix time), of which event, its number and the answer."""

    at_ns: int
    id: str | None
    source: str | None
    position: int
    attempt: int
    code: int | None
    reason: str


class Failures:
    """The failures of one subscription. `what` is "trigger" or "bridge". A successful attempt costs nothing."""

    __slots__ = (
        "_change", "_clock", "_count", "_given_up", "_name", "_next", "_said", "_short", "_since", "_sink", "in_a_row",
        "last", "newest",
    )  # fmt: skip

    def __init__(self, what: str, name: str, sink: Sink, clock: Clock) -> None:
        self.in_a_row = 0
        self.last: str | None = None
        """Why the last one failed."""
        self.newest: deque[Failure] | tuple[()] = ()
        self._given_up: deque[tuple[str | None, str | None, int, GivenUp]] | tuple[()] = ()
        self._name = f"{what} {name}"
        self._sink = sink
        self._clock = clock
        self._next = self._change = float("-inf")
        self._count = 0  # failures since the last line
        self._since = 0.0  # when the first failure in a row came
        self._said = False  # that it is not ready
        self._short = False

    @property
    def many(self) -> bool:
        """True while all attempts fail."""
        return self.in_a_row >= FAILING

    def of(self, id: str, source: str | None) -> Iterator[Failure]:
        """The newest failures of an event, oldest first."""
        return (f for f in self.newest if f.id == id and source in (None, f.source))

    def gave_up(self, event: Event, given_up: GivenUp) -> None:
        """The event is in a dead letter, or went back to its sender."""
        self._given_up = self._given_up or deque(maxlen=MOST)
        self._given_up.append((id_of(event), event.attributes.get("source"), event.position, given_up))

    @property
    def complete(self) -> bool:
        """Whether every event that was given up since the start is still remembered."""
        return len(self._given_up) < MOST

    def all_given_up(self) -> Iterator[tuple[str | None, str | None, int, GivenUp]]:
        """What it remembers of events that were given up, oldest first: id, source, position, facts."""
        yield from self._given_up

    def given_up(self, id: str, source: str | None, position: int) -> GivenUp | None:
        """What is remembered about an event that was given up; position 0 means any."""
        for known, its_source, its_position, given_up in reversed(self._given_up):
            if known == id and source in (None, its_source) and position in (0, its_position):
                return given_up
        return None

    def failed(self, now_ns: int, event: Event, attempt: int, outcome: Outcome, held: int) -> None:
        """An attempt failed, the event's `attempt`-th; `held` events are held."""
        self.in_a_row += 1
        self.last = reason = one_line(outcome.reason)
        source = event.attributes.get("source")
        self.newest = self.newest or deque(maxlen=MOST)
        self.newest.append(Failure(now_ns, id_of(event), source, event.position, attempt, outcome.code, reason))
        now = self._clock.monotonic()
        self._count += 1
        if self.in_a_row == 1:
            self._since = now
        if self.many and not self._said:
            if now < self._change:
                return
            self._said = True
            self._change = now + CHANGE_S
            self._tell(
                now,
                "%s is not ready: %d attempts in a row failed at %s (%d events held), the last: %s",
                self.in_a_row,
                held,
            )
        elif now >= self._next:
            if self._said:
                since = now - self._since
                self._tell(
                    now,
                    "%s is still not ready after %.0f s: %d more attempts failed at %s (%d events held), the last: %s",
                    since,
                    self._count,
                    held,
                )
            else:
                self._tell(now, "%s: %d attempts failed at %s (%d events held), the last: %s", self._count, held)

    def shared(self, now_ns: int, event: Event, attempt: int, outcome: Outcome) -> None:
        """A message with several events was rejected, among them this one."""
        self.newest = self.newest or deque(maxlen=MOST)
        reason = one_line(outcome.reason)
        source = event.attributes.get("source")
        self.newest.append(Failure(now_ns, id_of(event), source, event.position, attempt, outcome.code, reason))

    def _tell(self, now: float, text: str, *facts: object) -> None:
        *counts, held = facts
        log.warning(text, self._name, *counts, one_line(self._sink.address), held, self.last)
        self._next = now + EVERY_S
        self._count = 0

    def recovered(self) -> None:
        """An attempt succeeded."""
        failures, self.in_a_row = self.in_a_row, 0
        if self._said:
            self._said = False
            self._next = float("-inf")
            seconds = self._clock.monotonic() - self._since
            log.info(
                "%s is ready again: %s took an event after %d failures in %.1f s",
                self._name,
                one_line(self._sink.address),
                failures,
                seconds,
            )

    def short(self, reason: str) -> None:
        """This machine is short of something that an attempt needs."""
        self.last = one_line(reason)
        now = self._clock.monotonic()
        if not self._short or now >= self._next:
            self._short = True
            self._next = now + EVERY_S
            log.error("%s makes no attempts for now: %s", self._name, self.last)

    def plenty(self) -> None:
        """The shortage is over."""
        if self._short:
            self._short = False
            self._next = float("-inf")
            log.info("%s makes attempts again", self._name)
