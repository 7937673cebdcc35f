"""What every replay has in common, by `tidegate dlq replay` and in a running gateway: which dead letters can be sent
again, and that they are removed only after the event was accepted."""

from __future__ import annotations

import logging

from gateway_core.contract.one_line import one_line
from gateway_core.contract.outcome import Stage

from .dead_letters import DeadLetter, Located, Store

log = logging.getLogger("tidegate.deadletter")

PORTION = 100
"""So many dead letters are sent before those that were accepted are removed: a crash sends at most these again."""
_REMOVE_EVERY = 500
"""Of a store that rewrites all for each removal."""


def was_event(dead_letter: DeadLetter) -> bool:
    """Whether the dead letter holds an event that was once accepted, not raw input that no codec could read."""
    return dead_letter.fact("tidegatestage") != Stage.DECODE


class Removals:
    """Removes dead letters whose events were accepted again, in portions, each durably."""

    def __init__(self) -> None:
        self.removed = 0
        self._waiting: dict[str, tuple[Store, list[DeadLetter]]] = {}

    def accepted(self, dead_letter: DeadLetter) -> None:
        """The event of this one was accepted. May remove a portion, which takes a while. Raises `OSError`."""
        place, waiting = self._waiting.setdefault(dead_letter.place.address, (dead_letter.place, []))
        waiting.append(dead_letter)
        if len(waiting) >= (PORTION if isinstance(place.store, Located) else _REMOVE_EVERY):
            self._remove(place, waiting)

    def end_portion(self) -> None:
        """Removes what waits wherever that is cheap. Raises `OSError`."""
        for place, waiting in self._waiting.values():
            if isinstance(place.store, Located):
                self._remove(place, waiting)

    def finish(self) -> None:
        """Removes what is left. Call it in any case, also after an error. Raises `OSError`."""
        for place, waiting in self._waiting.values():
            self._remove(place, waiting)
            if isinstance(place.store, Located):
                try:
                    place.store.compact()
                except OSError as e:  # nothing is sent again because of that
                    log.warning("%s keeps the room of what was removed: %s", place.address, one_line(e))

    def _remove(self, place: Store, waiting: list[DeadLetter]) -> None:
        if not waiting:
            return
        if isinstance(place.store, Located):
            place.store.remove_at([(dead_letter.id, dead_letter.at) for dead_letter in waiting])
        else:
            place.store.remove([dead_letter.id for dead_letter in waiting])
        self.removed += len(waiting)
        waiting.clear()
