"""The HTTP sink with a bearer token, on either client engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol

from anyio.abc import TaskGroup
from gateway_options.secrecy import without

from gateway_core.contract.capabilities import (
    BatchTracing,
    ClassifiesResponses,
    Gathering,
    LimitingInFlight,
    Measured,
    Previewing,
    Replying,
    lend,
)
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome, Sink
from gateway_core.contract.options import HIDDEN

from ..outcome import unanswered
from .tokens import Token, TokenSource

Done = Callable[[Outcome], None]


class Engine(Sink, Protocol):
    """A sink that sends the same header fields with every request."""

    def authorize(self, value: bytes) -> None:
        """Sets the value of `Authorization` for the requests from now on."""


class BearerSink:
    """A `Sink`. While there is no token, attempts wait for one, and end without having been made if none comes
    (`Outcome.local`)."""

    def __init__(self, engine: Engine, source: TokenSource) -> None:
        self.address = engine.address
        self._engine = engine
        self._send = engine.send
        self._source = source
        self._token_of = source.token
        self._token: Token | None = None
        self._waiting: set[_Waiting] = set()
        lend(
            self,
            engine,
            (BatchTracing, ClassifiesResponses, Gathering, LimitingInFlight, Measured, Previewing, Replying),
        )

    async def start(self, tasks: TaskGroup) -> None:
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        await self._engine.start(tasks)
        self._source.start()

    def release(self) -> None:
        """See `gateway_core.contract.capabilities.Fetched`: a stop does not wait for the token endpoint."""
        for waiting in tuple(self._waiting):
            self._end(waiting, _unsent(self._source.problem))

    async def stop(self) -> None:
        for waiting in tuple(self._waiting):
            self._end(waiting, unanswered("the gateway is stopping"))
        self._source.stop()
        await self._engine.stop()

    def send(self, event: Event, timeout_s: float, done: Done) -> None:
        token = self._token_of(self._now())
        if token is None:
            self._wait(event, timeout_s, done)
            return
        if token is not self._token:
            self._token = token
            token.used = True
            self._engine.authorize(token.header)
        self._send(event, timeout_s, partial(self._settled, token, done))

    def _settled(self, token: Token, done: Done, outcome: Outcome) -> None:
        if outcome.delivered:
            token.accepted = True
        elif outcome.code is not None:
            outcome = self._refusal(token, outcome)
        done(outcome)

    def _refusal(self, token: Token, outcome: Outcome) -> Outcome:
        """An outcome that doesn't contain the token, whatever the subscriber repeats. A refused token is a reason to
        try again if the next attempt can have a better one."""
        return Outcome(
            False,
            retry=outcome.retry or (outcome.code == 401 and self._source.refused(token)),
            code=outcome.code,
            data=without((token.value,), outcome.data or b""),
            reason=outcome.reason.replace(token.value.decode(), HIDDEN),
            retry_after_s=outcome.retry_after_s,
            local=outcome.local,
            shared=outcome.shared,
            reached=outcome.reached,
            stage=outcome.stage,
        )

    # -- without a token ----------------------------------------------------------------------------------------------

    def _wait(self, event: Event, timeout_s: float, done: Done) -> None:
        waiting = _Waiting(event, self._now() + timeout_s, done)
        self._waiting.add(waiting)
        waiting.timer = self._loop.call_later(timeout_s, self._expire, waiting)
        # later: a sink that answers at once would be tried again at once
        self._loop.call_soon(self._source.wait, partial(self._ready, waiting))

    def _ready(self, waiting: _Waiting, token: Token | None) -> None:
        if waiting not in self._waiting:
            return
        left = waiting.deadline - self._now()
        if token is None or left <= 0:
            self._end(waiting, _unsent(self._source.problem))
            return
        self._leave(waiting)
        self.send(waiting.event, left, waiting.done)

    def _expire(self, waiting: _Waiting) -> None:
        self._end(waiting, _unsent(self._source.problem))

    def _end(self, waiting: _Waiting, outcome: Outcome) -> None:
        self._leave(waiting)
        waiting.done(outcome)

    def _leave(self, waiting: _Waiting) -> None:
        self._waiting.discard(waiting)
        if waiting.timer is not None:
            waiting.timer.cancel()


class _Waiting:
    """An attempt that waits for a token. `deadline` is in the loop's time."""

    __slots__ = ("deadline", "done", "event", "timer")

    def __init__(self, event: Event, deadline: float, done: Done) -> None:
        self.event = event
        self.deadline = deadline
        self.done = done
        self.timer: asyncio.TimerHandle | None = None


def _unsent(problem: str) -> Outcome:
    """Nothing was sent, so that the subscriber has failed nothing, and the event none of its attempts."""
    return Outcome(False, retry=True, local=True, reason=f"no access token: {problem}")
