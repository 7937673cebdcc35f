"""What a channel that deduplicates knows of the duplicates that came, for status, `tidegate why` and the log."""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import replace

from .capabilities import Repeated
from .event import Event, id_of
from .one_line import one_line

TELL_S = 60.0
"""How often the gateway's log reports conflicts at most, in seconds."""
KEPT = 1000
"""How many of the newest duplicates are known."""


class FoundDuplicates:
    """The newest duplicates, and how many `conflicts` there were: duplicates with other content than the first. `where`
    names the channel in the lines of the log, which say what `becomes` of conflicts: "dropped" or "refused"."""

    def __init__(self, log: logging.Logger, where: str, becomes: str = "dropped") -> None:
        self._log = log
        self._where = where
        self._becomes = becomes
        self._newest: deque[tuple[str, str, Repeated]] = deque(maxlen=KEPT)  # id, source
        self._told = 0.0
        self._untold = 0
        self.conflicts = 0

    def add(self, event: Event, repeated: Repeated) -> None:
        """Notes a duplicate."""
        self._newest.append((str(id_of(event)), str(event.attributes.get("source")), repeated))
        if repeated.differs:
            self._conflict(event, repeated)

    def differs(self, event: Event, repeated: Repeated) -> None:
        """The content of a duplicate that was noted turns out to differ from the first's."""
        for n, (id, source, known) in enumerate(self._newest):
            if known is repeated:
                self._newest[n] = id, source, replace(repeated, differs=True)
                break
        self._conflict(event, repeated)

    def of(self, id: str, source: str | None) -> list[Repeated]:
        """See `gateway_core.contract.capabilities.Deduplicates.repeated`. May be called on any thread."""
        return [each for its, of, each in self._newest.copy() if its == id and source in (None, of)]

    def _conflict(self, event: Event, repeated: Repeated) -> None:
        self.conflicts += 1
        self._untold += 1
        now = time.monotonic()
        if now >= self._told:
            self._told, count, self._untold = now + TELL_S, self._untold, 0
            self._log.warning(
                "%s: %s events with the key of an earlier one but other content: %d; the last: id %s, like position %d",
                self._where,
                self._becomes,
                count,
                one_line(str(id_of(event))),
                repeated.first,
            )
