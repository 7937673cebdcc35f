"""What parts had counted before a change of the config replaced them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..contract.status import AnEntry, Entry, with_own_reader


class Earlier:
    """The counts of triggers, bridges and dead letters that were replaced by others of the same name. Their successors
    continue from there."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], Any] = {}

    def keep(self, section: str, entry: Entry) -> None:
        """Adds what this entry of a status has counted."""
        counts, key = entry.counts(), (section, entry.name)
        self._counts[key] = self._counts[key].merged(counts) if key in self._counts else counts

    def add_to(self, section: str, entry: AnEntry) -> AnEntry:
        """An entry of a status, with what its predecessors counted."""
        counts = self._counts.get((section, entry.name))
        return with_own_reader(entry, entry if counts is None else entry.merged(counts))

    def forget(self, wanted: Callable[[str, str], bool]) -> None:
        """Drops the counts of entries that no longer exist."""
        self._counts = {key: counts for key, counts in self._counts.items() if wanted(*key)}
