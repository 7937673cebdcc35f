"""What every replay has in common, by `tidegate dlq replay` and in a running gateway: which dead letters can be sent
again, and that they are removed only after the event was accepted."""

from __future__ import annotations

from gateway_core.contract.outcome import Stage

from .dead_letters import DeadLetter, Store

REMOVE_EVERY = 500
"""Dead letters are removed in groups, since each removal rewrites the file; after a crash a group may be sent again."""


def was_event(dead_letter: DeadLetter) -> bool:
    """Whether the dead letter holds an event that was once accepted, not raw input that no codec could read."""
    return dead_letter.fact("tidegatestage") != Stage.DECODE


class Removals:
    """Removes dead letters whose events were accepted again, in groups of `every`."""

    def __init__(self, every: int = REMOVE_EVERY) -> None:
        self.removed = 0
        self._every = every
        self._waiting: dict[str, tuple[Store, list[str]]] = {}

    def accepted(self, dead_letter: DeadLetter) -> None:
        """The event of this one was accepted. May rewrite a file, which takes a while."""
        place, ids = self._waiting.setdefault(dead_letter.place.address, (dead_letter.place, []))
        ids.append(dead_letter.id)
        if len(ids) >= self._every:
            self._remove(place, ids)

    def finish(self) -> None:
        """Removes what is left of the groups. Call it in any case, also after an error."""
        for place, ids in self._waiting.values():
            self._remove(place, ids)

    def _remove(self, place: Store, ids: list[str]) -> None:
        if ids:
            place.store.remove(ids)
            self.removed += len(ids)
            ids.clear()
