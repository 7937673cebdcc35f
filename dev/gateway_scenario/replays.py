"""Replays in a scenario: past events go to one trigger again, through its real delivery."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial

from gateway_core.contract.components import Components
from gateway_core.contract.event import Event
from gateway_core.contract.faults import near
from gateway_core.contract.interfaces import Filter, Outcome
from gateway_core.contract.topology import DeliveryView, TriggerView

from .model import ReplayStepConfig
from .record import Key
from .stage import ScenarioError, Stage

MARK = "tidegatereplay"
_AGAIN_S, _LONGEST_S = 0.1, 60.0


def replay(
    stage: Stage, triggers: Mapping[str, TriggerView], registry: Components, step: ReplayStepConfig, number: int
) -> None:
    """Begins a replay; `number` is that of the step, from 1. Raises `ScenarioError`."""
    trigger = triggers.get(step.trigger)
    if trigger is None:
        remedy = near(step.trigger, [*triggers])
        raise ScenarioError(f"events: replay: there is no trigger {step.trigger!r}" + (f": {remedy}" if remedy else ""))
    if trigger.delivery is None:
        raise ScenarioError(f"events: replay: the subscriber of {step.trigger!r} reads the channel itself")
    extra = _compiled(step.filters, registry)
    key: Key = ("trigger", trigger.name)
    chosen: list[Event] = []
    for event in _selected(stage, trigger.broker.name, step):
        if _wants(trigger.filter, event) and (extra is None or _wants(extra, event)):
            copy = _read_again(event)
            if step.mark:
                copy = copy.with_attributes(**{MARK: f"replay-{number}"})
            stage.again(key, event, copy)
            chosen.append(copy)
    _Run(stage, trigger.delivery, chosen).step()


def _compiled(texts: list[str], registry: Components) -> Filter | None:
    from gateway_api.filter_texts import BadFilter, compile_all

    try:
        return compile_all(texts, registry)
    except BadFilter as e:
        raise ScenarioError(f"events: replay: filters: {e}") from e


def _selected(stage: Stage, broker: str, step: ReplayStepConfig) -> Iterator[Event]:
    for history in stage.histories:
        event = history.event
        if history.to != broker or event is None or not event.position:
            continue
        if history.at_s < step.from_s or (step.to_s is not None and history.at_s >= step.to_s):
            continue
        if step.positions is None or event.position in step.positions:
            yield event


def _wants(filter: Filter, event: Event) -> bool:
    try:
        return filter.matches(event)
    except Exception:  # as in live delivery
        return True


def _read_again(event: Event) -> Event:
    return Event({**event.attributes}, event.data, event.json_data, event.key, event.received_ns, event.position)


class _Run:
    """Hands over the events in order. As in a gateway, few are under way at once, and the others wait for room."""

    def __init__(self, stage: Stage, delivery: DeliveryView, events: list[Event]) -> None:
        self._stage = stage
        self._delivery = delivery
        self._left = deque(events)
        self._out = 0
        self._share = max(1, delivery.policy.max_in_flight // 4)
        self._wait_s = _AGAIN_S

    def step(self) -> None:
        """Hands over what there is room for."""
        while self._left and self._out < self._share:
            self._out += 1
            event = self._left.popleft()
            if not self._delivery.again(event, partial(self._settled, event)):
                self._out -= 1
                self._left.appendleft(event)
                self._stage.clock.call_later(self._wait_s, self.step)
                self._wait_s = min(2 * self._wait_s, _LONGEST_S)
                return
            self._wait_s = _AGAIN_S

    def _settled(self, event: Event, result: str, outcome: Outcome | None = None) -> None:
        self._out -= 1
        if result == "ended":
            self._left.appendleft(event)
        if self._left:
            self._stage.clock.call_later(0, self.step)
