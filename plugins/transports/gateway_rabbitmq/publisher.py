"""Publishes messages on a channel with confirms: many in flight, without a task or a future for each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import takewhile

import anyio

from gateway_core.contract.clock import Clock, Timer
from gateway_core.contract.errors import Refused
from gateway_core.contract.interfaces import DELIVERED, Outcome
from gateway_core.contract.one_line import one_line

from . import wire
from .config import RabbitSinkConfig
from .faults import ACCESS_REFUSED
from .link import Channel, Link
from .wire import Content

TICK_S = 0.1
"""How precisely attempts time out."""
FORBIDDEN_S = 60.0
"""How long a routing key that the server refused is not tried again; in seconds."""
FORBIDDEN_MOST = 1024


Headers = list[tuple[bytes, bytes]]


class Attempt:
    """One message on its way."""

    __slots__ = ("body", "deadline", "done", "headers", "key", "properties", "returned", "timeout_s")

    def __init__(self, key: str, headers: Headers, properties: bytes, body: bytes) -> None:
        self.key = key
        self.headers = headers
        self.properties = properties
        self.body = body
        self.deadline = self.timeout_s = 0.0
        self.done: Callable[[Outcome], None] | None = None
        self.returned: Outcome | None = None


class Publisher:
    """The attempts under way. `begin` and `end` say when there is a channel; without one, and while the server reads
    nothing, attempts wait. `fault` says why there is no connection."""

    def __init__(self, options: RabbitSinkConfig, clock: Clock, fault: Callable[[], str | None]) -> None:
        self._fault = fault
        self._clock = clock
        self._exchange = options.exchange
        self._mandatory = options.mandatory
        self._persistent = options.persistent
        self._retries = options.unroutable == "retry"
        self._most_bytes = options.max_message_bytes
        self._most_of = "`max_message_bytes`"
        self._forbidden: dict[str, tuple[float, str]] = {}  # by routing key: until when, and why
        self._methods: dict[str, bytes] = {}
        self._link: Link | None = None
        self._channel: Channel | None = None
        self._tag = 0
        self._sent: dict[int, Attempt] = {}  # by delivery tag, in their order
        self._held: deque[Attempt] = deque()  # not sent yet
        self._timer: Timer | None = None
        self._idle: anyio.Event | None = None
        self._frame_max = 131_072 - wire.OVERHEAD

    def begin(self, link: Link, channel: Channel) -> None:
        """From now on messages are published here. The channel is in confirm mode."""
        self._link, self._channel, self._tag = link, channel, 0
        self._frame_max = link.body_max
        self._methods.clear()
        channel.confirmed = self._confirmed
        channel.returned = self._returned
        link.on_taking = self._send_held
        self._send_held()

    def limit(self, most_bytes: int) -> None:
        """The server takes no larger message, and would end the connection at each: they are refused here from now."""
        if most_bytes < self._most_bytes:
            self._most_bytes, self._most_of = most_bytes, "the server's `max_message_size` when it was last exceeded"

    def forbid(self, key: str, reason: str) -> None:
        """The server refuses this routing key, and would end the connection at each message that has it."""
        if len(self._forbidden) >= FORBIDDEN_MOST:
            self._forbidden.clear()
        self._forbidden[key] = self._clock.monotonic() + FORBIDDEN_S, reason

    def end(self, reason: str) -> None:
        """There is no channel any more: what was sent has failed, as far as anyone knows."""
        self._link = self._channel = None
        sent, self._sent = self._sent, {}
        for attempt in sent.values():
            _finish(attempt, Outcome(False, retry=True, reason=f"not confirmed: {reason}"))
        self._ended()

    def stop(self) -> None:
        """Nothing is sent any more."""
        held, self._held = self._held, deque()
        for attempt in held:
            _finish(attempt, Outcome(False, retry=True, reason="not sent: the sink was stopped"))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def drain(self, limit_s: float) -> None:
        """Returns once no attempt is under way, or after `limit_s` seconds. At once without a channel."""
        if self._link is not None and (self._sent or self._held):
            self._idle = anyio.Event()
            with anyio.move_on_after(limit_s):
                await self._idle.wait()

    def attempt(self, key: str, content_type: bytes, headers: Headers, body: bytes, id: str) -> Attempt:
        """A message as its frames. Raises `Refused` if it is too large."""
        if len(body) > self._most_bytes:
            raise Refused(f"the message has {len(body)} bytes, the limit is {self._most_bytes} ({self._most_of})")
        message_id = id.encode()
        if len(message_id) > 255:
            message_id = b""
        properties = wire.properties(content_type, headers, self._persistent, message_id)
        if len(properties) + 12 > self._frame_max:
            text = f"the attributes need {len(properties)} bytes, and AMQP's header frame has {self._frame_max}"
            raise Refused(f"{text}; use structured mode")
        return Attempt(key, headers, properties, body)

    def send(self, attempt: Attempt, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        """Publishes a message. `done` follows."""
        attempt.done = done
        attempt.timeout_s = timeout_s
        attempt.deadline = self._clock.monotonic() + timeout_s
        if self._timer is None:
            self._timer = self._clock.call_later(TICK_S, self._expire)
        if self._held or self._link is None or not self._link.takes:
            self._held.append(attempt)
        else:
            self._publish(attempt)

    def _publish(self, attempt: Attempt) -> None:
        link, channel = self._link, self._channel
        assert link is not None
        assert channel is not None
        if self._forbidden and (found := self._forbidden.get(attempt.key)) is not None:
            until, reason = found
            if self._clock.monotonic() < until:
                _finish(attempt, Outcome(False, retry=True, code=ACCESS_REFUSED, reason=f"not sent: {reason}"))
                self._ended()
                return
            del self._forbidden[attempt.key]
        method = self._methods.get(attempt.key)
        if method is None:
            if len(self._methods) >= 4096:
                self._methods.clear()
            method = wire.publish_method(channel.number, self._exchange, attempt.key, self._mandatory)
            self._methods[attempt.key] = method
        self._tag += 1
        self._sent[self._tag] = attempt
        link.write(method + wire.content(channel.number, attempt.properties, attempt.body, link.body_max))

    # -- what the server says -----------------------------------------------------------------------------------------

    def _confirmed(self, tag: int, multiple: bool, ok: bool) -> None:
        outcome = DELIVERED if ok else _NACKED
        sent = self._sent
        if multiple:
            numbers = list(takewhile(lambda n: n <= tag, sent)) if tag else list(sent)
            for number in numbers:
                attempt = sent.pop(number)
                _finish(attempt, attempt.returned or outcome)
        elif (found := sent.pop(tag, None)) is not None:
            _finish(found, found.returned or outcome)
        if not sent:
            self._ended()

    def _returned(self, code: int, text: str, content: Content) -> None:
        """A mandatory message reached no queue. Its confirm follows, so this only notes it. The server does not say
        which one it was, but messages with the same routing key, headers and body are the same to everyone."""
        reason = (
            f"{code} {one_line(text)}: no queue gets messages with the routing key {one_line(content.routing_key)!r}"
        )
        for attempt in self._sent.values():
            same = attempt.returned is None and attempt.key == content.routing_key and attempt.body == content.body
            if same and dict(attempt.headers) == content.headers:
                attempt.returned = Outcome(False, retry=self._retries, code=code, reason=reason)
                return

    def _send_held(self) -> None:
        while self._held and self._link is not None and self._link.takes:
            self._publish(self._held.popleft())

    # -- time ---------------------------------------------------------------------------------------------------------

    def _expire(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        for tag in [n for n, attempt in self._sent.items() if attempt.deadline <= now]:
            attempt = self._sent.pop(tag)
            _finish(attempt, self._late("no confirm", attempt))
        if any(attempt.deadline <= now for attempt in self._held):
            held, self._held = self._held, deque()
            for attempt in held:
                if attempt.deadline <= now:
                    _finish(attempt, self._late("not sent", attempt))
                else:
                    self._held.append(attempt)
        if not self._sent and not self._held:
            self._ended()
        elif self._timer is None:  # an owner that was told above may have sent another one, which set it
            self._timer = self._clock.call_later(TICK_S, self._expire)

    def _late(self, what: str, attempt: Attempt) -> Outcome:
        if self._link is None:
            why = f": {self._fault()}"
        elif (blocked := self._link.blocked) is not None:
            why = f": the server blocks publishers ({blocked})"
        else:
            why = ""
        return Outcome(False, retry=True, reason=f"{what} within {attempt.timeout_s:g} s{why}")

    def _ended(self) -> None:
        if self._idle is not None and not self._sent and not self._held:
            self._idle.set()


_NACKED = Outcome(False, retry=True, reason="the server did not take the message (basic.nack): a queue is full")


def _finish(attempt: Attempt, outcome: Outcome) -> None:
    done, attempt.done = attempt.done, None
    if done is not None:
        done(outcome)
