"""One tap: an observer that writes what it sees into a bounded buffer."""

from __future__ import annotations

from base64 import b64encode
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import msgspec

from gateway_core.contract.clock import Clock
from gateway_core.contract.component_errors import text_of_error
from gateway_core.contract.dead_letter_facts import without_facts
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Filter, Observer, Outcome
from gateway_core.contract.moments import stamped
from gateway_core.contract.normal_form import normal_form

from .choice import MOST_HELD, Choice

MOST_BYTES = 8 * 1024 * 1024
"""Maximum size of unread lines, likewise; one line may always be held."""

_encode = msgspec.json.Encoder(enc_hook=str).encode


class Tap(Observer):
    """Lines are JSON. `wait` returns when there are some, and `take` removes them."""

    def __init__(self, choice: Choice, filter: Filter | None, clock: Clock) -> None:
        self.choice = choice
        self.closed = False
        self._matches: Callable[[Event], bool] | None = filter.matches if filter else None
        self._now_ns = clock.now_ns
        self._lines: deque[bytes] = deque()
        self._most = min(choice.held, MOST_HELD)
        self._bytes = 0
        self._dropped = 0
        self._some = anyio.Event()

    # -- the observer -----------------------------------------------------------------------------------------------

    def accepted(self, broker: str, events: Sequence[Event]) -> None:
        if self._matches is None and self._full():
            self._drop(len(events))
            return
        for event in events:
            self._event("accepted", event, broker=broker)

    def refused(self, broker: str, error: Refused) -> None:
        if self._matches is None:
            told = {"broker": broker, "code": error.status, "reason": str(error)}
            self._line({"kind": "refused", "at": self._at(), **told})

    def attempted(self, trigger: str, event: Event, outcome: Outcome, seconds: float) -> None:
        self._event(
            "attempt",
            event,
            trigger=trigger,
            delivered=outcome.delivered,
            retry=outcome.retry,
            code=outcome.code,
            reason=outcome.reason,
            ms=round(seconds * 1000, 3) if seconds else None,
        )

    def dead_lettered(self, trigger: str, event: Event) -> None:
        facts = event.attributes
        told = {"reason": facts.get("tidegatereason"), "attempts": facts.get("tidegateattempts")}
        self._event("dead_lettered", without_facts(event), trigger=trigger, **told)

    def _event(self, kind: str, event: Event, **facts: Any) -> None:
        if self._matches is not None:
            try:
                if not self._matches(normal_form(event)):
                    return
            except Exception as e:  # the event is shown with the error
                facts["filter_error"] = text_of_error(e)
        if self._full():
            self._drop(1)
            return
        line = {"kind": kind, "at": self._at(), **facts, "position": event.position, "event": event.attributes}
        line["bytes"] = None if event.data is None else len(event.data)
        if self.choice.data_bytes and event.data is not None:
            line.update(_data(event.data[: self.choice.data_bytes]))
        self._line(line)

    def _line(self, line: dict[str, Any]) -> None:
        try:
            text = _encode(line)
        except (ValueError, TypeError, OverflowError):  # not representable in JSON; an observer must not raise
            self._drop(1)
            return
        self.push([text])

    def _at(self) -> str:
        return stamped(self._now_ns())

    # -- lines ------------------------------------------------------------------------------------------------------

    def push(self, lines: Sequence[bytes], dropped: int = 0) -> None:
        """Adds as many lines as there is room for. `dropped` counts lines dropped elsewhere."""
        for line in lines:
            if self._full() or (self._lines and self._bytes + len(line) > MOST_BYTES):
                dropped += 1
                continue
            self._lines.append(line)
            self._bytes += len(line)
        if dropped:
            self._drop(dropped)
        self._some.set()

    def _full(self) -> bool:
        return len(self._lines) >= self._most or self._bytes >= MOST_BYTES

    def _drop(self, count: int) -> None:
        self._dropped += count
        self._some.set()

    async def wait(self) -> None:
        """Returns when there is something to take, or the tap is closed."""
        await self._some.wait()

    def take(self, most: int) -> tuple[list[bytes], int]:
        """The oldest lines, and how many were dropped since the last time."""
        lines = [self._lines.popleft() for _ in range(min(most, len(self._lines)))]
        self._bytes -= sum(map(len, lines))
        dropped, self._dropped = self._dropped, 0
        if not self._lines and not self.closed:
            self._some = anyio.Event()
        return lines, dropped

    def close(self) -> None:
        """Closes the tap: no more lines will come."""
        self.closed = True
        self._some.set()


def _data(data: bytes) -> dict[str, str]:
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError as e:
        if e.start > len(data) - 4 and e.reason == "unexpected end of data":  # cut inside a character
            return {"data": data[: e.start].decode()}
        return {"data_base64": b64encode(data).decode()}
