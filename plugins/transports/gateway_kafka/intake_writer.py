"""Writes the events of a Kafka source to a broker's channel or to the dead letter."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence

from gateway_core.contract.clock import Clock, Timer
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import PARTITION_BITS, Event
from gateway_core.contract.interfaces import Intake, Outcome

log = logging.getLogger("tidegate.kafka")

RETRY_S = 1.0
DEAD_LETTER_RETRY_S = 5.0
MAX_STORING = 1000
"""The most events that may wait to be stored: other sources of the broker queue behind them."""
MOST_BYTES = 1024 * 1024
"""The most bytes of data of several events that are stored together: a channel stores them whole or not at all, so many
would be one large transaction."""

Positioned = tuple[Event, int]
"""An event and its position here; the channel assigns another one."""


class IntakeWriter:
    """At most one group of events per partition is in flight: the channel might refuse one group and accept a smaller
    one that came later, which would change the order. `settle` is called with the positions that are done, `room` when
    more events can be taken. `address` is the address of the source."""

    def __init__(
        self, owner: str, address: str, clock: Clock, settle: Callable[[int], None], room: Callable[[], None]
    ) -> None:
        self._owner = owner
        self._address = address
        self._clock = clock
        self._settle = settle
        self._room = room
        self._groups: dict[int, _Group] = {}
        self._dead_letters: dict[int, set[_DeadLetter]] = {}
        self._events = 0
        self._failing = 0
        self._dead_letter_fails = False
        self.intake: Intake

    # -- into the channel -------------------------------------------------------------------------------------------

    def take(self, events: Sequence[Event]) -> bool:
        """Takes events of one partition. Returns False if there is no room yet; `room` is called later."""
        partition_id = events[0].position >> PARTITION_BITS
        if self._failing or self._events >= MAX_STORING or partition_id in self._groups:
            return False
        group = self._groups[partition_id] = _Group(partition_id, [(event, event.position) for event in events])
        self._events += group.size
        self._send(group)
        return True

    def withdraw(self, partition_id: int) -> list[int]:
        """Drops the events that wait for a retry, and returns their positions. Events in flight are not retried."""
        dropped = []
        if (group := self._groups.pop(partition_id, None)) is not None:
            group.dropped = True
            if group.timer is not None:
                group.timer.cancel()
                dropped += [position for piece in group.pieces for _, position in piece]
                self._finished(group)
            else:
                dropped += [position for piece in list(group.pieces)[1:] for _, position in piece]
        for undelivered in self._dead_letters.pop(partition_id, ()):
            undelivered.dropped = True
            if undelivered.timer is not None:
                undelivered.timer.cancel()
                dropped.append(undelivered.position)
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
                self._finished(group)
            else:
                self._set_failing(group, True)
                group.timer = self._clock.call_later(RETRY_S, self._send, group)
            return
        elif len(piece) > 1:  # halves the group to find the event that the channel will never take (it is too large)
            half = len(piece) // 2
            group.pieces[0] = piece[half:]
            group.pieces.appendleft(piece[:half])
            self._continue(group)
            return
        else:
            ((event, position),) = piece
            self.dead_letter(event, position, Outcome(False, reason=error.detail))
        group.pieces.popleft()
        self._continue(group)

    def _continue(self, group: _Group) -> None:
        if group.pieces and not group.dropped:
            self._set_failing(group, False)
            self._send(group)
        else:
            self._finished(group)

    def _finished(self, group: _Group) -> None:
        self._events -= group.size
        if self._groups.get(group.partition_id) is group:
            del self._groups[group.partition_id]
        self._set_failing(group, False)
        self._room()

    def _set_failing(self, group: _Group, fails: bool) -> None:
        """No events are taken while any wait for a retry."""
        self._failing += fails - group.fails
        group.fails = fails

    # -- into the dead letter ---------------------------------------------------------------------------------------

    def dead_letter(self, event: Event, position: int, outcome: Outcome) -> None:
        """Writes an event to the dead letter, and retries until it is stored."""
        undelivered = _DeadLetter(event, position, outcome)
        self._dead_letters.setdefault(position >> PARTITION_BITS, set()).add(undelivered)
        self._write_dead_letter(undelivered)

    def _write_dead_letter(self, undelivered: _DeadLetter) -> None:
        undelivered.timer = None
        self.intake.undeliverable(
            undelivered.event,
            undelivered.outcome,
            self._address,
            lambda error: self._dead_letter_written(undelivered, error),
        )

    def _dead_letter_written(self, undelivered: _DeadLetter, error: BaseException | None) -> None:
        if error is not None:
            if not self._dead_letter_fails:
                log.error("%s: can't write a record to the dead letter, will retry: %s", self._owner, error)
            self._dead_letter_fails = True
            if not undelivered.dropped:
                undelivered.timer = self._clock.call_later(DEAD_LETTER_RETRY_S, self._write_dead_letter, undelivered)
            return
        self._dead_letter_fails = False
        if not undelivered.dropped:
            self._dead_letters[undelivered.position >> PARTITION_BITS].discard(undelivered)
        self._settle(undelivered.position)


class _Group:
    """Events of one partition. `pieces` holds those that are not stored yet; the first piece is in flight or waits for
    `timer`."""

    __slots__ = ("dropped", "fails", "partition_id", "pieces", "size", "timer")

    def __init__(self, partition_id: int, events: list[Positioned]) -> None:
        self.partition_id = partition_id
        self.size = len(events)
        self.pieces = _pieces(events)
        self.timer: Timer | None = None
        self.fails = False
        self.dropped = False


def _pieces(events: list[Positioned]) -> deque[list[Positioned]]:
    """Cuts a group into pieces of at most `MOST_BYTES`."""
    pieces: deque[list[Positioned]] = deque()
    first = size = 0
    for at, (event, _) in enumerate(events):
        length = len(event.data) if event.data else 0
        size += length
        if size > MOST_BYTES and at > first:
            pieces.append(events[first:at])
            first, size = at, length
    pieces.append(events[first:])
    return pieces


class _DeadLetter:
    """An event on its way to the dead letter."""

    __slots__ = ("dropped", "event", "outcome", "position", "timer")

    def __init__(self, event: Event, position: int, outcome: Outcome) -> None:
        self.event = event
        self.position = position
        self.outcome = outcome
        self.timer: Timer | None = None
        self.dropped = False
