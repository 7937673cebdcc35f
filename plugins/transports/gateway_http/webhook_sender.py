"""Asks a subscriber for permission before the first event, and keeps to the rate that it grants.

Source: CloudEvents "HTTP 1.1 Web Hooks for Event Delivery" 1.0.2, sections 2.1, 2.2 and 4. Permission by callback
(`WebHook-Request-Callback`) is not asked for.
"""

from __future__ import annotations

import logging
import ssl
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import anyio
from anyio.abc import TaskGroup
from gateway_options.client_tls import client_context
from gateway_transport.http_retries import retry_after_s

from gateway_core.contract.capabilities import (
    ClassifiesResponses,
    Fetched,
    LimitingInFlight,
    Previewing,
    Replying,
    lend,
)
from gateway_core.contract.clock import Clock, Timer
from gateway_core.contract.component import BuildContext
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome, Send, Sink
from gateway_core.contract.one_line import one_line
from gateway_core.contract.outcome import short
from gateway_core.contract.shortage import is_shortage

from .client import Target
from .config import HttpSinkConfig
from .outcome import Headers, unanswered
from .webhook_config import HandshakeSenderConfig

log = logging.getLogger(__name__)

WITHDRAWN = frozenset((401, 403, 410))
"""Answers to an event after which permission is asked for again."""
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 300.0
LONGEST_PACED_S = 600.0
"""How long an attempt may wait for its turn at the granted rate, in seconds."""
_SLACK_S = 1e-9
_SHOWN = 100  # characters of a header in a reason


class Answer(NamedTuple):
    """The answer to the validation request. Names of headers are in lower case."""

    status: int
    headers: Headers


Asked = Callable[[Answer | Outcome], None]
Ask = Callable[[Asked], None]
"""Sends the validation request and calls back with the answer, or with the outcome if there is none."""


class Grant(NamedTuple):
    """A permission. `per_minute` is the number of requests, None for no limit."""

    per_minute: int | None


def grant_of(answer: Answer, options: HandshakeSenderConfig) -> Grant | str:
    """The permission in an answer, or why there is none. The status does not count (section 4.2). An answer without
    `WebHook-Allowed-Rate` grants the rate that was asked for."""
    origins = [value.decode("latin-1").strip() for name, value in answer.headers if name == b"webhook-allowed-origin"]
    if not origins:
        return f"the answer to OPTIONS ({answer.status}) has no WebHook-Allowed-Origin"
    if not any(origin == "*" or origin.lower() == options.origin.lower() for origin in origins):
        return f"WebHook-Allowed-Origin is {one_line(origins[0][:_SHOWN])!r}, not {options.origin!r}"
    rates = [value.strip() for name, value in answer.headers if name == b"webhook-allowed-rate"]
    if not rates:
        return Grant(options.rate_per_minute)
    if rates[0] == b"*":
        return Grant(None)
    if rates[0].isdigit() and len(rates[0]) <= 18 and int(rates[0]) > 0:
        return Grant(int(rates[0]))
    return f"WebHook-Allowed-Rate is {one_line(rates[0][:_SHOWN].decode('latin-1'))!r}, no rate"


class _Waiting:
    """An attempt that waits for the permission, or for its turn (`at`, in the clock's time)."""

    __slots__ = ("at", "done", "event", "timeout_s")

    def __init__(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        self.event = event
        self.timeout_s = timeout_s
        self.done = done
        self.at = 0.0


class Permission:
    """Lets attempts pass to `send` once the subscriber has granted permission, evenly spaced at the granted rate.
    Several workers share the rate."""

    def __init__(
        self, options: HandshakeSenderConfig, address: str, ask: Ask, send: Send, clock: Clock, workers: int = 1
    ) -> None:
        self._options = options
        self._address = address
        self._ask = ask
        self._send = send
        self._clock = clock
        self._workers = workers
        self._asking = self._stopped = False
        self._asked: list[_Waiting] = []  # until the validation request is answered
        self._turns: deque[_Waiting] = deque()
        self._timer: Timer | None = None
        self._granted_until = self._ask_at = float("-inf")
        self._gap_s = 0.0
        self._next = self._latest = float("-inf")  # the next free turn, and when the latest attempt left
        self._fruitless = 0  # refusals and withdrawals since an event was delivered
        self._why = ""

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        """`Sink.send`. The time limit begins when the event is sent."""
        self._begin(_Waiting(event, timeout_s, done))

    def release(self) -> None:
        """Ends the attempts that wait; nothing of them was sent. No more start."""
        self._stopped = True
        waiting, self._asked = [*self._asked, *self._leave_turns()], []
        for one in waiting:
            one.done(Outcome(False, retry=True, local=True, reason="the gateway is stopping"))

    # -- the permission ---------------------------------------------------------------------------------------------

    def _begin(self, attempt: _Waiting) -> None:
        now = self._clock.monotonic()
        if self._stopped:
            self._end(attempt, Outcome(False, retry=True, local=True, reason="the gateway is stopping"))
        elif now < self._granted_until:
            self._take_turn(attempt, now)
        elif now < self._ask_at:
            self._end(attempt, self._refusal(now))
        else:
            self._asked.append(attempt)
            if not self._asking:
                self._asking = True
                self._ask(self._answered)

    def _end(self, attempt: _Waiting, outcome: Outcome) -> None:
        self._clock.call_later(0.0, attempt.done, outcome)  # never inside `send`

    def _refusal(self, now: float) -> Outcome:
        wait = max(0.0, self._ask_at - now)
        return Outcome(False, retry=True, reason=f"no permission to send: {self._why}", retry_after_s=wait)

    def _answered(self, answer: Answer | Outcome) -> None:
        self._asking = False
        held, self._asked = self._asked, []
        if isinstance(answer, Outcome):
            for one in held:
                one.done(answer)
            return
        now = self._clock.monotonic()
        found = grant_of(answer, self._options)
        if isinstance(found, Grant):
            self._granted(found, now)
            for one in held:
                self._begin(one)
            return
        asked = [retry_after_s(v, self._clock.now_ns() / 1e9) for n, v in answer.headers if n == b"retry-after"]
        self._refused(found, now, max(self._wait_s(), min(asked[0] or 0.0, LONGEST_WAIT_S) if asked else 0.0))
        outcome = self._refusal(now)
        for one in [*held, *self._leave_turns()]:
            one.done(outcome)

    def _granted(self, grant: Grant, now: float) -> None:
        rate = "any rate" if grant.per_minute is None else f"{grant.per_minute} requests a minute"
        log.log(logging.INFO if self._why else logging.DEBUG, "%s permits %s", self._address, rate)
        self._why = ""
        self._granted_until = now + self._options.renew_s
        gap_s = 60.0 / grant.per_minute * self._workers if grant.per_minute else 0.0
        if gap_s != self._gap_s:  # the new rate counts at once, also for those that have a turn
            self._gap_s = gap_s
            self._next = self._latest + gap_s
            for one in self._leave_turns():
                self._begin(one)

    def _refused(self, why: str, now: float, wait_s: float) -> None:
        if not self._why:
            log.warning("%s gives no permission to send: %s", self._address, why)
        self._why = why
        self._granted_until = float("-inf")
        self._ask_at = now + wait_s

    def _wait_s(self) -> float:
        self._fruitless += 1
        return float(min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(self._fruitless - 1, 20)))

    # -- attempts ---------------------------------------------------------------------------------------------------

    def _take_turn(self, attempt: _Waiting, now: float) -> None:
        at = max(self._next, now)
        if at - now > LONGEST_PACED_S:
            reason = f"the subscriber permits one request every {self._gap_s:g} s"
            self._end(attempt, Outcome(False, retry=True, local=True, reason=reason))
            return
        self._next = at + self._gap_s
        if at <= now and not self._turns:
            self._start(attempt, now)
            return
        attempt.at = at
        self._turns.append(attempt)
        if self._timer is None:
            self._timer = self._clock.call_later(at - now, self._turn)

    def _turn(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        if now >= self._granted_until:  # it ended meanwhile: they wait for the next one
            for one in self._leave_turns():
                self._begin(one)
            return
        while self._turns and self._turns[0].at <= now + _SLACK_S:
            self._start(self._turns.popleft(), now)
        if self._turns and self._timer is None:
            self._timer = self._clock.call_later(self._turns[0].at - now, self._turn)

    def _leave_turns(self) -> list[_Waiting]:
        """The attempts that waited for their turn; they wait for it no longer."""
        waiting = [*self._turns]
        self._turns.clear()
        if waiting:
            self._next = self._latest + self._gap_s
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return waiting

    def _start(self, attempt: _Waiting, now: float) -> None:
        self._latest = now
        self._send(attempt.event, attempt.timeout_s, partial(self._ended, attempt.done))

    def _ended(self, done: Callable[[Outcome], None], outcome: Outcome) -> None:
        if outcome.delivered:
            self._fruitless = 0
        elif outcome.code in WITHDRAWN:
            self._withdrawn(outcome)
        done(outcome)

    def _withdrawn(self, outcome: Outcome) -> None:
        now = self._clock.monotonic()
        if now >= self._granted_until:
            return  # another attempt has said so
        self._refused(f"it answered {outcome.reason}", now, self._wait_s())
        for one in self._leave_turns():
            self._begin(one)


class Asker:
    """Sends validation requests, each on a connection of its own."""

    def __init__(self, options: HttpSinkConfig, target: Target, tls: ssl.SSLContext | None) -> None:
        assert options.webhook is not None
        headers = [*target.headers]
        if options.webhook.rate_per_minute is not None:
            headers.append((b"webhook-request-rate", b"%d" % options.webhook.rate_per_minute))
        self._headers = headers
        self._url = target.url
        self._tls = tls
        self._limit_s = options.connect_timeout_s
        self._proxies = options.client == "httpx"  # as the events
        self._tasks: TaskGroup | None = None

    def start(self, tasks: TaskGroup) -> None:
        self._tasks = tasks

    def ask(self, asked: Asked) -> None:
        assert self._tasks is not None, "send before start"
        self._tasks.start_soon(self._run, asked)

    async def _run(self, asked: Asked) -> None:
        found: Answer | Outcome = unanswered("the gateway is stopping")
        try:
            found = await self._answer()
        finally:
            asked(found)

    async def _answer(self) -> Answer | Outcome:
        import httpx

        try:
            with anyio.fail_after(self._limit_s):
                async with (
                    httpx.AsyncClient(verify=self._tls or False, trust_env=self._proxies, timeout=None) as client,
                    client.stream("OPTIONS", self._url, headers=self._headers) as response,
                ):
                    return Answer(response.status_code, [(n.lower(), v) for n, v in response.headers.raw])
        except TimeoutError:
            return unanswered(f"no answer to OPTIONS within {self._limit_s:g} s")
        except Exception as e:  # whatever it is, the attempts end: libraries raise more than they document
            if is_shortage(e):
                return short(e)
            return unanswered(f"no answer to OPTIONS: {one_line(e) or type(e).__name__}")


class WebhookSink:
    """A `Sink` that asks first, around one that sends."""

    longest_s = LONGEST_PACED_S + 3600.0  # what waits for its turn is not late

    def __init__(self, options: HttpSinkConfig, context: BuildContext, sink: Sink) -> None:
        assert options.webhook is not None
        target = Target(options, context.wants_reply)
        tls = client_context(options.tls, context.owner) if target.tls and not context.offline else None
        self._asker = Asker(options, target, tls)
        self._sink = sink
        self.address = sink.address
        permission = Permission(
            options.webhook, sink.address, self._asker.ask, sink.send, context.clock, workers=context.workers
        )
        self.send = permission.send
        self._permission = permission
        lend(self, sink, (LimitingInFlight, Replying, Previewing, ClassifiesResponses))

    async def start(self, tasks: TaskGroup) -> None:
        self._asker.start(tasks)
        await self._sink.start(tasks)

    def release(self) -> None:
        """See `gateway_core.contract.capabilities.Fetched`: also of attempts that wait for a token."""
        self._permission.release()
        if isinstance(self._sink, Fetched):
            self._sink.release()

    async def stop(self) -> None:
        self._permission.release()
        await self._sink.stop()
