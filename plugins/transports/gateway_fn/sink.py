"""The sink: events to a function. No caller waits for a response; what the function returns is a reply."""

from __future__ import annotations

from collections.abc import Callable

from anyio.abc import TaskGroup

from gateway_core.contract.capabilities import LimitingInFlight, Previewing
from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.interfaces import Outcome

from .config import FnSinkConfig
from .convert import converted
from .function import build_function
from .names import DEADLINE, as_returned, is_error, message_of, rfc3339, with_extension

_FORGET_S = 3600.0  # kept after a deadline; no retry waits that long
_EARLY_S = 0.005  # a loop's timer may fire this much early


class FnSink:
    """A `Sink` around the function's own. The deadline belongs to the event: retries have the same deadline, and none
    starts after it."""

    def __init__(self, options: FnSinkConfig, context: BuildContext) -> None:
        self._function = build_function(options.function, context)
        self._version = options.version
        self._deadline_s = options.deadline_s
        self._clock = context.clock
        self._wants_reply = self.replies = context.wants_reply
        # by the event's position, in the order of their first attempts: (deadline, its text)
        self._deadlines: dict[int, tuple[float, str]] = {}
        self.address = self._function.address
        function = self._function
        self.most_in_flight = function.most_in_flight if isinstance(function, LimitingInFlight) else None

    async def start(self, tasks: TaskGroup) -> None:
        await self._function.start(tasks)

    async def stop(self) -> None:
        await self._function.stop()

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        deadline, text = self._deadline(event.position, timeout_s)
        left = deadline - self._clock.monotonic()
        if left <= _EARLY_S:
            self._deadlines.pop(event.position, None)
            done(Outcome(False, local=True, reason="past its deadline: no attempt starts after it"))
            return
        sent = with_extension(converted(event, self._version), DEADLINE, text)
        self._function.send(sent, min(timeout_s, left), lambda outcome: self._settle(event, deadline, outcome, done))

    def preview(self, event: Event) -> Message:
        """The call, with the deadline it would have now."""
        if not isinstance(self._function, Previewing):
            raise Refused(f"the sink of {self.address} can't show what it would send")
        text = rfc3339(self._clock.now_ns() + round((self._deadline_s or 0.0) * 1e9))
        return self._function.preview(with_extension(converted(event, self._version), DEADLINE, text))

    def _settle(self, event: Event, deadline: float, outcome: Outcome, done: Callable[[Outcome], None]) -> None:
        if outcome.local:  # no attempt was made: the deadline starts with the next one
            self._deadlines.pop(event.position, None)
            done(outcome)
            return
        if outcome.delivered and outcome.reply is not None:
            outcome = self._returned(outcome, outcome.reply)
        if not outcome.delivered and outcome.retry and self._clock.monotonic() >= deadline - _EARLY_S:
            outcome = _final(outcome)
        if outcome.delivered or not outcome.retry:
            self._deadlines.pop(event.position, None)
        done(outcome)

    def _returned(self, outcome: Outcome, reply: Event) -> Outcome:
        if is_error(reply):
            return Outcome(False, retry=True, code=outcome.code, data=reply.data, reason=message_of(reply))
        published = as_returned(reply, self.address, self._clock.now_ns()) if self._wants_reply else None
        return Outcome(True, code=outcome.code, reply=published)

    def _deadline(self, position: int, timeout_s: float) -> tuple[float, str]:
        known = self._deadlines.get(position)
        if known is None:
            now, seconds = self._clock.monotonic(), self._deadline_s or timeout_s
            self._forget(now)
            known = now + seconds, rfc3339(self._clock.now_ns() + round(seconds * 1e9))
            if position:
                self._deadlines[position] = known
        return known

    def _forget(self, now: float) -> None:
        """Drops the oldest deadlines, whose events were given up without notice."""
        while self._deadlines:
            position = next(iter(self._deadlines))
            if self._deadlines[position][0] + _FORGET_S > now:
                return
            del self._deadlines[position]


def _final(outcome: Outcome) -> Outcome:
    return Outcome(False, code=outcome.code, data=outcome.data, reason=f"past its deadline: {outcome.reason}")
