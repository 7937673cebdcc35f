"""The sending end of a connection: events out, acknowledgements in."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gateway_core.contract.interfaces import DELIVERED, Outcome

from .socket import POLICY, WebSocket
from .subprotocol import ACK, read_answer


class Attempt:
    """One attempt. `number` is the event's in its connection, 0 while it waits."""

    __slots__ = ("data", "deadline", "done", "ended", "number")

    def __init__(self, data: bytes, deadline: float, done: Callable[[Outcome], None]) -> None:
        self.data = data
        self.deadline = deadline
        self.done = done
        self.number = 0
        self.ended = False

    def end(self, outcome: Outcome) -> None:
        """Reports the outcome, once."""
        if not self.ended:
            self.ended = True
            self.done(outcome)


class Sender:
    """The handler of one connection (`socket.Handler`). `room` is called when it can take more, and `gone` when it has
    ended.

    `pending` holds the attempts that are not acknowledged, by their numbers; of the plain subprotocol, those that are
    not yet with the operating system.
    """

    def __init__(self, socket: WebSocket, room: Callable[[], None], gone: Callable[[Sender], None]) -> None:
        self.socket = socket
        self.acknowledges = socket.subprotocol == ACK
        self.pending: dict[int, Attempt] = {}
        self._count = 0
        self._room = room
        self._gone = gone

    @property
    def ready(self) -> bool:
        """Whether it can send now."""
        return self.socket.writable and self.socket.is_open

    def send(self, attempt: Attempt) -> None:
        self._count = attempt.number = self._count + 1
        self.pending[attempt.number] = attempt
        self.socket.send(attempt.data)

    def forget(self, attempt: Attempt) -> None:
        """Its time is over: a late acknowledgement means nothing."""
        self.pending.pop(attempt.number, None)

    # -- the connection's handler -------------------------------------------------------------------------------------

    def message(self, data: bytes, text: bool) -> None:
        if not self.acknowledges or not text:
            self.socket.fail(POLICY, "this end sends events, it takes none")
            return
        try:
            answer = read_answer(data)
        except (msgspec.MsgspecError, RecursionError):
            self.socket.fail(POLICY, "not an acknowledgement")
            return
        if isinstance(answer.ack, int):
            self._end(answer.ack, DELIVERED)
        elif answer.ack is not None:
            first, last = answer.ack
            numbers = range(first, last + 1)
            if last - first < len(self.pending):
                for number in numbers:
                    self._end(number, DELIVERED)
            else:
                for number in [number for number in self.pending if number in numbers]:
                    self._end(number, DELIVERED)
        elif answer.nack is not None:
            self._end(answer.nack, answer.outcome())
        else:
            self.socket.fail(POLICY, "not an acknowledgement")

    def _end(self, number: int, outcome: Outcome) -> None:
        if (attempt := self.pending.pop(number, None)) is not None:
            attempt.end(outcome)

    def flushed(self) -> None:
        if not self.acknowledges:
            written, self.pending = self.pending, {}
            for attempt in written.values():
                attempt.end(DELIVERED)
        self._room()

    def closed(self, reason: str) -> None:
        self._gone(self)
        lost, self.pending = self.pending, {}
        for attempt in lost.values():
            attempt.end(Outcome(False, retry=True, reason=f"the connection ended before the event was safe: {reason}"))
