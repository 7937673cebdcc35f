"""An intake in memory: where a source under test delivers."""

from __future__ import annotations

from collections.abc import Sequence

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Accepted, Admission, Outcome


class MemoryIntake:
    """Records what it accepts, and answers as told.

    `result`   passed to `done`: None, or an error for as long as it is set.
    `hold`     answers only after `release`.
    `never`    ids of events that it never takes: a group with one of them is `Refused`.
    `stores`   as `Intake.stores`.

    `events` are all events that it was offered, also repeatedly, `safe` those whose acceptance it confirmed, `letters`
    what the source passed to `undeliverable` (event, outcome, destination), of which `buried` are safe.
    """

    admissions: Sequence[Admission] = ()

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.safe: list[Event] = []
        self.refused: list[Refused] = []
        self.attempts: list[tuple[Event, Outcome]] = []
        self.letters: list[tuple[Event, Outcome, str]] = []
        self.buried: list[Event] = []
        self.result: BaseException | None = None
        self.withdrawn: list[int] = []
        self.never: set[str] = set()
        self.stores = True
        self.deduplicates = False
        self.hold = False
        self.held: list[tuple[Sequence[Event], Accepted]] = []

    def accept(self, events: Sequence[Event], done: Accepted) -> None:
        self.events.extend(events)
        if self.hold:
            self.held.append((events, done))
        else:
            self._answer(events, done)

    def withdraw(self, partition: int) -> Sequence[int]:
        self.withdrawn.append(partition)
        return ()

    def refuse(self, error: Refused) -> None:
        self.refused.append(error)

    def attempted(self, event: Event, outcome: Outcome, seconds: float) -> None:
        self.attempts.append((event, outcome))

    def undeliverable(self, event: Event, outcome: Outcome, dest: str, done: Accepted) -> None:
        self.letters.append((event, outcome, dest))
        if self.result is None:
            self.buried.append(event)
        done(self.result)

    def release(self, count: int | None = None) -> None:
        """Answers everything held, with `result`, and holds no more; or the first `count` groups only."""
        self.hold = count is not None
        answered, self.held = self.held[:count], self.held[len(self.held[:count]) :]
        for events, done in answered:
            self._answer(events, done)

    def _answer(self, events: Sequence[Event], done: Accepted) -> None:
        error = self.result
        if error is None and any(event.attributes.get("id") in self.never for event in events):
            error = Refused("the intake never takes this event")
        if error is None:
            self.safe.extend(events)
        done(error)


def id_of(event: Event) -> str:
    """Its `id`."""
    return str(event.attributes["id"])


def ids_of(events: Sequence[Event]) -> list[str]:
    """Their ids, in their order."""
    return [id_of(event) for event in events]
