"""Where a scenario plays: a clock that stands still, and the record of what happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import Refused, TidegateError
from ..event import Event
from ..filters import clause_of, match_all
from ..interfaces import Filter
from ..testing.clock import FakeClock
from .model import AnswerConfig, ScenarioConfig
from .record import Attempt, Key, Passage, Trail, id_of

if TYPE_CHECKING:
    from .channel import MemoryChannel


class ScenarioError(TidegateError):
    """A scenario asks for what can't be (an answer that this sink's far side can't give)."""


class Script:
    """The answers of one subscriber or dead letter, taken one by one."""

    def __init__(self, answers: list[AnswerConfig]) -> None:
        self._left = [answer for answer in answers for _ in range(answer.times)]

    def next(self, event: Event) -> AnswerConfig | None:
        """The answer to this attempt; None where the script says nothing of it (any more)."""
        for i, answer in enumerate(self._left):
            if answer.for_id is None or answer.for_id == id_of(event):
                return self._left.pop(i)
        return None


class Stage:
    """Everything that the stand-ins of one scenario share."""

    def __init__(self, scenario: ScenarioConfig | None = None) -> None:
        self.clock = FakeClock()
        self.trails: list[Trail] = []
        self.letters: list[Event] = []  # all dead letters, in order
        self.sources: dict[str, Any] = {}  # by their place in the config
        self.channels: dict[str, MemoryChannel] = {}
        self.fault = ""  # what the scenario asks for and can't be
        self.current: Attempt | None = None  # the one that is beginning
        self.answering: Passage | None = None  # the one whose answer is being taken
        self._trail_of: dict[int, Trail] = {}  # by the identity of the event, which the trail keeps alive
        self._passages: dict[tuple[Key, int], Passage] = {}  # by the position, which dead letters keep
        self._scenario = scenario
        self._scripts: dict[tuple[bool, str], Script] = {}

    @property
    def now_s(self) -> float:
        return self.clock.monotonic()

    def script(self, name: str, dead_letter: bool) -> Script:
        """The answers of a trigger's or bridge's sink, or of a dead letter, by its owner."""
        found = self._scripts.get((dead_letter, name))
        if found is None:
            answers: list[AnswerConfig] = []
            if self._scenario is not None:
                section = self._scenario.dead_letters if dead_letter else self._scenario.answers
                answers = section.get(name, [])
            found = self._scripts[dead_letter, name] = Script(answers)
        return found

    # -- the record ---------------------------------------------------------------------------------------------------

    def arrived(self, to: str, event: Event) -> Trail:
        """An event was taken by a broker or bridge."""
        trail = Trail(to, self.now_s, event, reply_of=self.answering)
        self.trails.append(trail)
        self._trail_of[id(event)] = trail
        return trail

    def refused(self, to: str, error: Refused) -> None:
        self.trails.append(Trail(to, self.now_s, refused=error))

    def asked(self, trail: Trail, key: Key, filter: Filter | None) -> Passage:
        """A trigger or bridge looks at an event."""
        assert trail.event is not None
        passage = Passage(key, trail.event, clause_of(filter or match_all(), trail.event))
        trail.passages[key] = passage
        return passage

    def attempt(self, key: Key, event: Event) -> tuple[Passage, Attempt]:
        """An attempt begins."""
        passage = self._trail_of[id(event)].passages[key]
        self._passages[key, event.position] = passage
        attempt = Attempt(len(passage.attempts) + 1, self.now_s, event)
        passage.attempts.append(attempt)
        return passage, attempt

    def buried(self, key: Key, letter: Event, to: str) -> None:
        """A letter is in the dead letter."""
        self.letters.append(letter)
        passage = self._passages.get((key, letter.position))
        if passage is not None:
            passage.letter, passage.letter_s, passage.letter_to = letter, self.now_s, to
