"""A filter that never raises, for channels and for readers of channels.

If a filter raises on an event, the event counts as wanted; the subscription then writes it to its dead letter with the
stage "filter". Other events are not affected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .component_errors import Errors, text_of_error
from .event import Event
from .event_data import UnreadableData
from .interfaces import Clause, Filter
from .normal_form import normal_form
from .outcome import Outcome, Stage
from .shortage import may_pass

MOST_UNDECIDED = 1024
"""How many events are remembered between a filter's error and the offer that follows: older errors are forgotten."""


class FilterGuard:
    """A filter that never raises, for a channel: `filter` matches whatever the original raises on.

    `undecided` holds those events, by identity, until the subscription is offered them: (event, outcome). `unreadable`
    is what the filters count (`BuildContext.unreadable`).
    """

    def __init__(
        self,
        filter: Filter,
        owner: str,
        then: str = "the event goes to the dead letter",
        unreadable: UnreadableData | None = None,
    ) -> None:
        """`then` is what the log says about the event."""
        self._then = then
        self.unreadable = unreadable or UnreadableData()
        self.errors = Errors(owner)
        self.undecided: dict[int, tuple[Event, Outcome]] = {}
        self._original = filter
        matches = self._guarded(filter.matches)  # not by `replace`, which takes five times as long
        self.filter = Filter(matches, filter.exact, filter.prefix, filter.alternatives, self._explain)

    def _guarded(self, matches: Callable[[Event], bool]) -> Callable[[Event], bool]:
        def guarded(event: Event) -> bool:
            try:
                normal = event if event.attributes.get("specversion") == "1.0" else normal_form(event)
                return True if matches(normal) else False  # noqa: SIM210 - `bool` is a call, on every event
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
