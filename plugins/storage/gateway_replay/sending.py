"""Where a replay with `to_sink` sends its events: to a URL, in the trigger's place. The trigger's credentials stay with
the trigger, and what fails is no dead letter: the replay counts it and names the first of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from types import TracebackType
from typing import Protocol

import anyio
from gateway_api.routes import Problem
from pydantic import ValidationError

from gateway_core.contract import backoff
from gateway_core.contract.component import BuildContext, SinkRef
from gateway_core.contract.config_model import DeliveryConfig
from gateway_core.contract.errors import TidegateError
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome, Sink
from gateway_core.contract.one_line import one_line
from gateway_core.contract.services import GatewayView
from gateway_core.contract.topology import Redelivered

from .job import Job

TRIES = 5
"""How many attempts an event gets."""


def sink_of(gateway: GatewayView, url: str) -> Sink:
    """The sink of a URL, not started. Raises `Problem`."""
    name = gateway.registry.by_scheme("sink", url)
    offer = gateway.registry.find("sink", name) if name else None
    if name is None or offer is None:
        raise Problem(422, f"no sink has the scheme of {one_line(url, 100)!r}")
    context = BuildContext("replay", gateway.data_dir, gateway.clock, gateway.registry)
    try:
        options = offer.component.model.model_validate({"url": url})
        made: Sink = gateway.registry.build(SinkRef(name, url, options), context)
    except ValidationError as e:
        raise Problem(422, f"{one_line(url, 100)!r} can't be used: {e.errors()[0]['msg']}") from e
    except TidegateError as e:
        raise Problem(422, f"{one_line(url, 100)!r} can't be used: {e}") from e
    return made


class Delivers(Protocol):
    """What a replay needs of a trigger's delivery; see `contract.topology.DeliveryView`."""

    @property
    def policy(self) -> DeliveryConfig: ...
    @property
    def order_key_of(self) -> Callable[[Event], Hashable] | None: ...
    @property
    def paused(self) -> bool: ...
    @property
    def in_flight(self) -> int: ...
    def again(self, event: Event, done: Redelivered, *, by: str) -> bool: ...
    def end_again(self) -> None: ...


class SinkDelivery:
    """Delivers to a sink, a few events at once."""

    order_key_of: Callable[[Event], Hashable] | None = None
    paused = False

    def __init__(self, gateway: GatewayView, job: Job) -> None:
        self._clock = gateway.clock
        self._sink = sink_of(gateway, job.wanted.to_sink)
        self._tasks = anyio.create_task_group()
        self._waiting: set[_Sent] = set()
        self.policy = DeliveryConfig(retry=TRIES - 1)
        self.in_flight = 0

    async def __aenter__(self) -> SinkDelivery:
        await self._tasks.__aenter__()
        await self._sink.start(self._tasks)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.end_again()
        with anyio.CancelScope(shield=True), anyio.move_on_after(self.policy.timeout_s):
            while self.in_flight:  # noqa: ASYNC110 - once in a replay
                await anyio.sleep(0.01)
        with anyio.CancelScope(shield=True):
            await self._sink.stop()
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(None, None, None)

    def again(self, event: Event, done: Redelivered, *, by: str) -> bool:
        """See `contract.topology.DeliveryView`."""
        self._try(_Sent(event, done))
        return True

    def end_again(self) -> None:
        """Ends those that wait for their next attempt."""
        for sent in [*self._waiting]:
            self._waiting.discard(sent)
            sent.done("ended", None)

    def _try(self, sent: _Sent) -> None:
        self.in_flight += 1
        sent.attempts += 1
        try:
            self._sink.send(sent.event, self.policy.timeout_s, sent.once(self._attempted))
        except Exception as e:
            sent.answer(Outcome(False, reason=one_line(e, 300)))

    def _attempted(self, sent: _Sent, outcome: Outcome) -> None:
        self.in_flight -= 1
        if outcome.delivered:
            sent.done("delivered", outcome)
        elif outcome.retry and (outcome.local or sent.attempts < TRIES):
            sent.attempts -= outcome.local
            wait = max(
                outcome.retry_after_s or 0.0, backoff.wait_s(self.policy, max(1, sent.attempts), random.random())
            )
            self._waiting.add(sent)
            self._clock.call_later(wait, self._due, sent)
        else:
            sent.done("given_up", outcome)

    def _due(self, sent: _Sent) -> None:
        if sent in self._waiting:
            self._waiting.discard(sent)
            self._try(sent)


class _Sent:
    """An event under way. Each attempt has one answer."""

    __slots__ = ("_answered", "_then", "attempts", "done", "event")

    def __init__(self, event: Event, done: Redelivered) -> None:
        self.event = event
        self.done = done
        self.attempts = 0
        self._answered = True
        self._then: Callable[[_Sent, Outcome], None]

    def once(self, then: Callable[[_Sent, Outcome], None]) -> Callable[[Outcome], None]:
        """What the sink calls with the outcome."""
        self._answered, self._then = False, then
        return self.answer

    def answer(self, outcome: Outcome) -> None:
        """The outcome of the attempt."""
        if not self._answered:
            self._answered = True
            self._then(self, outcome)
