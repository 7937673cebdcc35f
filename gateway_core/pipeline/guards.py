"""Guards around plugin code: errors are counted, logged with the component's path in the config, and stop nothing else.

If a filter raises, the event counts as wanted, and the subscription writes it to its dead letter with the stage
"filter". If an observer or a tracer raises, that call is skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any

from anyio.abc import TaskGroup

from ..contract.errors import Refused
from ..contract.event import Event
from ..contract.interfaces import Clause, Filter, Observer, Outcome
from ..contract.normal_form import normal_form
from ..contract.one_line import one_line
from ..contract.outcome import Stage
from ..contract.shortage import may_pass
from ..contract.status import ObserverStatus
from ..contract.tracing import Origin, SendContext, Tracer

log = logging.getLogger("tidegate.plugins")

LOG_EVERY_S = 10.0
"""A component's errors are logged at most this often, with the number of errors in between."""
SLOW_S = 0.1
"""A call of an observer that takes longer is logged, because everything else waits for it."""
MOST_UNDECIDED = 1024
"""How many events are remembered between a filter's error and the offer that follows: older errors are forgotten."""


def text_of_error(error: BaseException) -> str:
    """What a plugin raised, in one line."""
    try:
        said = one_line(error)
    except Exception:
        said = ""  # its `__str__` raises as well
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


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


def _place_of(error: BaseException | None) -> str:
    """Where it was raised: the plugin's file and line."""
    trace = error.__traceback__ if error is not None else None
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f" (at {trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno})"


class Errors:
    """Counts the errors of one component, and logs them at a bounded rate. `owner` is its place in the config."""

    __slots__ = ("_silent", "_until", "count", "last", "owner")

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.count = 0
        self.last: str | None = None
        self._until = 0.0
        self._silent = 0

    def note(self, what: str, error: BaseException) -> str:
        """Counts one; `what` says what became of the event. Returns the error's text."""
        self.count += 1
        self.last = text = text_of_error(error)
        self.warn(f"raised {text}; {what}", error)
        return text

    def warn(self, text: str, error: BaseException | None = None) -> None:
        """Logs it, unless something was logged a moment ago."""
        now = monotonic()
        if now < self._until:
            self._silent += 1
            return
        self._until = now + LOG_EVERY_S
        more = f" ({self._silent} more since the last message)" if self._silent else ""
        self._silent = 0
        # an error's text may hold what strangers sent: a traceback only at the level debug
        whole = error if log.isEnabledFor(logging.DEBUG) else None
        log.error("%s %s%s%s", self.owner, text, _place_of(error), more, exc_info=whole)


class FilterGuard:
    """A filter that never raises, for a channel: `filter` matches whatever the original raises on.

    `undecided` holds those events, by identity, until the subscription is offered them: (event, outcome).
    """

    def __init__(self, filter: Filter, owner: str, then: str = "the event goes to the dead letter") -> None:
        """`then` is what the log says about the event."""
        self._then = then
        self.errors = Errors(owner)
        self.undecided: dict[int, tuple[Event, Outcome]] = {}
        self._original = filter
        matches = self._guarded(filter.matches)  # not by `replace`, which takes five times as long
        self.filter = Filter(matches, filter.exact, filter.prefix, filter.alternatives, self._explain)

    def _guarded(self, matches: Callable[[Event], bool]) -> Callable[[Event], bool]:
        def guarded(event: Event) -> bool:
            try:
                judged = event if event.attributes.get("specversion") == "1.0" else normal_form(event)
                return True if matches(judged) else False  # noqa: SIM210 - `bool` is a call, on every event
            except KeyboardInterrupt:
                raise
            except BaseException as e:  # also `SystemExit`, and the panics of libraries in Rust
                return self._failed(event, e)

        return guarded

    def _failed(self, event: Event, error: BaseException) -> bool:
        text = self.errors.note(self._then, error)
        if len(self.undecided) >= MOST_UNDECIDED:
            del self.undecided[next(iter(self.undecided))]
        outcome = Outcome(False, retry=may_pass(error), stage=Stage.FILTER, reason=f"filter: {text}")
        self.undecided[id(event)] = event, outcome
        return True

    def _explain(self, event: Event) -> Clause:
        event = normal_form(event)
        try:
            matched = bool(self._original.matches(event))
        except Exception as e:
            return Clause("the filter raises: the event goes to the dead letter", True, text_of_error(e))
        try:
            explain = self._original.explain
            clause = explain(event) if explain else Clause("a filter that does not say why", matched)
            return clause if clause.matched is matched else replace(clause, matched=matched)
        except Exception as e:
            return Clause("a filter whose explanation raises", matched, text_of_error(e))


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

    def _ended(self, ended: Callable[[Any], None]) -> Callable[[Any], None]:
        def guarded(result: Any) -> None:
            try:
                ended(result)
            except Exception as e:
                self._errors.note("the span has no end", e)

        return guarded


def _nothing(result: Any) -> None:
    return
