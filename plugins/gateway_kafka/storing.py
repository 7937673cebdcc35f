"""A Kafka source's events on their way into a broker's channel, or into the dead letter."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence

from gateway_core.clock import Clock, Timer
from gateway_core.errors import Refused
from gateway_core.event import PARTITION_BITS, Event
from gateway_core.interfaces import Intake, Outcome

log = logging.getLogger("tidegate.kafka")

RETRY_S = 1.0
LETTER_RETRY_S = 5.0
MOST_STORING = 1000
"""Events that may wait to be stored: what comes by other ways waits behind them."""

Placed = tuple[Event, int]
"""An event, and its position here: the channel gives it another."""


class Storing:
    """One group of events of a lane (a partition) is under way at a time: the channel may refuse a group and take a
    smaller one that came later, which would then be before it. `settle` is told the positions that are dealt with,
    `room` that more can be taken; `address` is that of the source."""

    def __init__(
        self, owner: str, address: str, clock: Clock, settle: Callable[[int], None], room: Callable[[], None]
    ) -> None:
        self._owner = owner
        self._address = address
        self._clock = clock
        self._settle = settle
        self._room = room
        self._groups: dict[int, _Group] = {}
        self._letters: dict[int, set[_Letter]] = {}
        self._events = 0
        self._failing = 0
        self._letter_fails = False
        self.intake: Intake

    # -- into the channel -------------------------------------------------------------------------------------------

    def take(self, events: Sequence[Event]) -> bool:
        """Takes events of one lane; False where there is no room yet: `room` follows."""
        lane = events[0].position >> PARTITION_BITS
        if self._failing or self._events >= MOST_STORING or lane in self._groups:
            return False
        group = self._groups[lane] = _Group(lane, [(event, event.position) for event in events])
        self._events += group.size
        self._send(group)
        return True

    def withdraw(self, lane: int) -> list[int]:
        """Drops what waits to be tried again; returns its positions. What is under way is tried no more."""
        dropped = []
        if (group := self._groups.pop(lane, None)) is not None:
            group.dropped = True
            if group.timer is not None:
                group.timer.cancel()
                dropped += [position for piece in group.pieces for _, position in piece]
                self._left(group)
            else:
                dropped += [position for piece in list(group.pieces)[1:] for _, position in piece]
        for letter in self._letters.pop(lane, ()):
            letter.dropped = True
            if letter.timer is not None:
                letter.timer.cancel()
                dropped.append(letter.position)
        return dropped

    def _send(self, group: _Group) -> None:
        group.timer = None
        self.intake.accept([event for event, _ in group.pieces[0]], lambda error: self._answered(group, error))

    def _answered(self, group: _Group, error: BaseException | None) -> None:
        piece = group.pieces[0]
        if error is None:
            for _, position in piece:
                self._settle(position)
        elif not isinstance(error, Refused):
            if group.dropped:
                self._left(group)
            else:
                self._set_failing(group, True)
                group.timer = self._clock.call_later(RETRY_S, self._send, group)
            return
        elif len(piece) > 1:  # what the channel will never take (it is too large) is looked for
            half = len(piece) // 2
            group.pieces[0] = piece[half:]
            group.pieces.appendleft(piece[:half])
            self._go_on(group)
            return
        else:
            ((event, position),) = piece
            self.bury(event, position, error, "delivery")
        group.pieces.popleft()
        self._go_on(group)

    def _go_on(self, group: _Group) -> None:
        if group.pieces and not group.dropped:
            self._set_failing(group, False)
            self._send(group)
        else:
            self._left(group)

    def _left(self, group: _Group) -> None:
        self._events -= group.size
        if self._groups.get(group.lane) is group:
            del self._groups[group.lane]
        self._set_failing(group, False)
        self._room()

    def _set_failing(self, group: _Group, fails: bool) -> None:
        """While something waits to be tried again, nothing more is taken."""
        self._failing += fails - group.fails
        group.fails = fails

    # -- into the dead letter ---------------------------------------------------------------------------------------

    def bury(self, event: Event, position: int, reason: Refused, stage: str) -> None:
        """Puts an event into the dead letter, trying until it is there."""
        letter = _Letter(event, position, reason, stage)
        self._letters.setdefault(position >> PARTITION_BITS, set()).add(letter)
        self._bury(letter)

    def _bury(self, letter: _Letter) -> None:
        letter.timer = None
        outcome = Outcome(False, reason=letter.reason.detail)
        self.intake.undeliverable(
            letter.event, outcome, self._address, lambda error: self._buried(letter, error), letter.stage
        )

    def _buried(self, letter: _Letter, error: BaseException | None) -> None:
        if error is not None:
            if not self._letter_fails:
                log.error("%s: a record can't be put into the dead letter, and waits: %s", self._owner, error)
            self._letter_fails = True
            if not letter.dropped:
                letter.timer = self._clock.call_later(LETTER_RETRY_S, self._bury, letter)
            return
        self._letter_fails = False
        if not letter.dropped:
            self._letters[letter.position >> PARTITION_BITS].discard(letter)
        self._settle(letter.position)


class _Group:
    """Events of one lane. `pieces` are what of it is left to be stored, the first of which is under way or waits for
    its `timer`."""

    __slots__ = ("dropped", "fails", "lane", "pieces", "size", "timer")

    def __init__(self, lane: int, events: list[Placed]) -> None:
        self.lane = lane
        self.size = len(events)
        self.pieces = deque([events])
        self.timer: Timer | None = None
        self.fails = False
        self.dropped = False


class _Letter:
    """An event on its way into the dead letter."""

    __slots__ = ("dropped", "event", "position", "reason", "stage", "timer")

    def __init__(self, event: Event, position: int, reason: Refused, stage: str) -> None:
        self.event = event
        self.position = position
        self.reason = reason
        self.stage = stage
        self.timer: Timer | None = None
        self.dropped = False
