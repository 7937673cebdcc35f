"""Guards around plugin code: errors are counted, logged with the component's path in the config, and stop nothing else.

If an observer or a tracer raises, that call is skipped. A filter's guard is `gateway_core.contract.filter_guard`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from anyio.abc import TaskGroup

from ..contract.component_errors import Errors
from ..contract.errors import Refused
from ..contract.event import Event
from ..contract.interfaces import Observer, Outcome
from ..contract.outcome import Stage
from ..contract.status import ObserverStatus
from ..contract.tracing import Origin, SendContext, Tracer

log = logging.getLogger("tidegate.plugins")

SLOW_S = 0.1
"""A call of an observer that takes longer is logged, because everything else waits for it."""


def checked(outcome: Any) -> Outcome:
    """The outcome that a sink reported, with its fields checked."""
    if not isinstance(outcome, Outcome):
        return Outcome(False, retry=True, reason=f"the sink gave {type(outcome).__name__} instead of an outcome")
    code, data, wait = outcome.code, outcome.data, outcome.retry_after_s
    if (
        isinstance(outcome.reason, str)
        and (code is None or isinstance(code, int))
        and (data is None or isinstance(data, bytes))
        and (wait is None or isinstance(wait, int | float))
        and isinstance(outcome.stage, Stage)
    ):
        return outcome
    reason = f"{outcome.reason!r:.200} (the sink gave an outcome with fields of wrong types)"
    return Outcome(bool(outcome.delivered), retry=bool(outcome.retry), reason=reason)


# -- observers ------------------------------------------------------------------------------------------------------


class GuardedObserver(Observer):
    """An observer that never raises. `name` is the word that the config uses."""

    def __init__(self, inner: Observer, name: str, owner: str) -> None:
        self.name = name
        self.fault = ""  # why one of its tasks ended
        self.errors = Errors(owner)
        self._inner = inner
        tracer = inner.tracer
        self.tracer = GuardedTracer(tracer, self.errors) if tracer is not None else None
        # bound once: a method that is not overridden costs only this call
        self._accepted, self._refused = inner.accepted, inner.refused
        self._attempted, self._dead_lettered = inner.attempted, inner.dead_lettered

    def accepted(self, broker: str, events: Sequence[Event]) -> None:
        self._call(self._accepted, broker, events)

    def refused(self, broker: str, error: Refused) -> None:
        self._call(self._refused, broker, error)

    def attempted(self, trigger: str, event: Event, outcome: Outcome, seconds: float) -> None:
        self._call(self._attempted, trigger, event, outcome, seconds)

    def dead_lettered(self, trigger: str, event: Event) -> None:
        self._call(self._dead_lettered, trigger, event)

    def _call(self, tell: Callable[..., Any], *told: Any) -> None:
        began = monotonic()
        try:
            tell(*told)
        except KeyboardInterrupt:
            raise
        except BaseException as e:
            self.errors.note("it missed this event", e)
        if (took := monotonic() - began) > SLOW_S:
            self.errors.warn(f"took {took:.2f} s in `{tell.__name__}`: all events of the gateway waited for it")

    async def start(self, tasks: TaskGroup) -> None:
        await self._inner.start(tasks)

    async def stop(self) -> None:
        await self._inner.stop()

    def status(self) -> ObserverStatus:
        """Its errors."""
        return ObserverStatus(self.name, self.errors.count, self.fault or self.errors.last)


class GuardedTracer:
    """A tracer that never raises. If the wrapped one does, the event continues without a span."""

    def __init__(self, inner: Tracer, errors: Errors) -> None:
        self._inner = inner
        self._errors = errors

    def received(self, origin: Origin, events: Sequence[Event]) -> Callable[[BaseException | None], None]:
        try:
            return self._ended(self._inner.received(origin, events))
        except Exception as e:
            self._errors.note("the events continue without a span", e)
            return _nothing

    def refused(self, origin: Origin, error: Refused) -> None:
        try:
            self._inner.refused(origin, error)
        except Exception as e:
            self._errors.note("the refusal has no span", e)

    def sending(self, context: SendContext, event: Event, attempt: int) -> tuple[str | None, Callable[[Outcome], None]]:
        try:
            trace, ended = self._inner.sending(context, event, attempt)
        except Exception as e:
            self._errors.note("the attempt has no span", e)
            return event.trace, _nothing
        return trace, self._ended(ended)

    def sending_batch(
        self, context: SendContext, events: Sequence[Event]
    ) -> tuple[str | None, Callable[[Outcome], None]]:
        try:
            trace, ended = self._inner.sending_batch(context, events)
        except Exception as e:
            self._errors.note("the batch has no span", e)
            return None, _nothing
        return trace, self._ended(ended)

    def _ended(self, ended: Callable[[Any], None]) -> Callable[[Any], None]:
        def guarded(result: Any) -> None:
            try:
                ended(result)
            except Exception as e:
                self._errors.note("the span has no end", e)

        return guarded


def _nothing(result: Any) -> None:
    return
