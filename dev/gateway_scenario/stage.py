"""The environment of a scenario: a fake clock, and the record of what happened."""

from __future__ import annotations

from typing import Any

from gateway_testing.clock import FakeClock

from gateway_core.contract.config_node import Place
from gateway_core.contract.errors import Refused, TidegateError
from gateway_core.contract.event import Event
from gateway_core.contract.filters import clause_of, match_all
from gateway_core.contract.interfaces import Channel, Filter

from .model import AnswerConfig, ScenarioConfig
from .record import Attempt, DeliveryRecord, EventHistory, Key, id_of


class ScenarioError(TidegateError):
    """A scenario asks for something impossible, such as a response that this sink's remote can't give."""


class Script:
    """The responses of one subscriber or dead letter sink, used one by one."""

    def __init__(self, answers: list[AnswerConfig]) -> None:
        self._left = [answer for answer in answers for _ in range(answer.times)]

    def next(self, event: Event) -> AnswerConfig | None:
        """The response to this attempt; None if the script has none (left) for it."""
        for i, answer in enumerate(self._left):
            if answer.for_id is None or answer.for_id == id_of(event):
                return self._left.pop(i)
        return None


class Stage:
    """State shared by all test doubles of one scenario."""

    def __init__(self, scenario: ScenarioConfig) -> None:
        self.clock = FakeClock()
        self.histories: list[EventHistory] = []
        self.dead_letters: list[Event] = []  # in order
        self.sources: dict[Place, Any] = {}  # inputs, by their place in the config
        self.channels: dict[str, Channel] = {}
        self.fault = ""  # something impossible that the scenario asks for
        self.current: Attempt | None = None  # the one that has just begun
        self.answering: DeliveryRecord | None = None  # the one whose response is being handled
        self._history_of: dict[int, EventHistory] = {}  # by the id() of the event, which the trail keeps alive
        self._deliveries: dict[tuple[Key, int], DeliveryRecord] = {}  # by position, which dead letters keep
        self._replayed: dict[int, DeliveryRecord] = {}  # by the id() of the event that a replay sends
        self._scenario = scenario
        self._scripts: dict[tuple[bool, str], Script] = {}

    @property
    def now_s(self) -> float:
        return self.clock.monotonic()

    def script(self, name: str, dead_letter: bool) -> Script:
        """The responses of a trigger's or bridge's sink, or of a dead letter sink, by its owner."""
        found = self._scripts.get((dead_letter, name))
        if found is None:
            section = self._scenario.dead_letters if dead_letter else self._scenario.answers
            found = self._scripts[dead_letter, name] = Script(section.get(name, []))
        return found

    # -- the record ---------------------------------------------------------------------------------------------------

    def arrived(self, to: str, event: Event) -> EventHistory:
        """A broker or bridge accepted an event."""
        history = EventHistory(to, self.now_s, event, reply_of=self.answering)
        self.histories.append(history)
        self._history_of[id(event)] = history
        return history

    def repeated(self, to: str, event: Event) -> None:
        """A broker accepted an event that it has already."""
        self.histories.append(EventHistory(to, self.now_s, event, repeated=True))

    def refused(self, to: str, error: Refused) -> None:
        self.histories.append(EventHistory(to, self.now_s, refused=error))

    def filtered(self, history: EventHistory, key: Key, filter: Filter | None) -> DeliveryRecord:
        """A trigger or bridge filters an event."""
        assert history.event is not None
        delivery = DeliveryRecord(key, history.event, clause_of(filter or match_all(), history.event))
        history.deliveries[key] = delivery
        if history.event.position:  # it may go to the dead letter without an attempt
            self._deliveries[key, history.event.position] = delivery
        return delivery

    def again(self, key: Key, event: Event, copy: Event) -> None:
        """A replay sends an event again, as this copy."""
        history = self._history_of[id(event)]
        record = self._replayed[id(copy)] = DeliveryRecord(key, copy, clause_of(match_all(), copy))
        history.replays.append(record)
        self._deliveries[key, event.position] = record

    def attempt(self, key: Key, event: Event) -> tuple[DeliveryRecord, Attempt]:
        """An attempt begins."""
        delivery = self._replayed.get(id(event)) or self._history_of[id(event)].deliveries[key]
        self._deliveries[key, event.position] = delivery
        attempt = Attempt(len(delivery.attempts) + 1, self.now_s, event)
        delivery.attempts.append(attempt)
        return delivery, attempt

    def dead_lettered(self, key: Key, dead_letter: Event, to: str) -> None:
        """A dead letter was written."""
        self.dead_letters.append(dead_letter)
        delivery = self._deliveries.get((key, dead_letter.position))
        if delivery is not None:
            delivery.dead_letter, delivery.dead_letter_s, delivery.dead_letter_to = dead_letter, self.now_s, to
