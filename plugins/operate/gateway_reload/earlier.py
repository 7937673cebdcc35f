"""What parts had counted before a reload replaced them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec.structs import replace

from gateway_core.contract.status import Entry, TriggerStatus

AnEntry = TypeVar("AnEntry", bound=Entry)


class Earlier:
    """The counts of triggers, bridges and dead letters that a reload has replaced by others of the same name. Their
    successors continue from there."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], Any] = {}
        self._ending: list[tuple[str, Callable[[], Any]]] = []

    def keep(self, section: str, entry: Entry) -> None:
        """Adds what this entry of a status has counted."""
        counts, key = entry.counts(), (section, entry.name)
        self._counts[key] = self._counts[key].merged(counts) if key in self._counts else counts

    def follow(self, section: str, read: Callable[[], Entry]) -> Callable[[], None]:
        """The same for a part that is still finishing. Call the result once it has finished."""
        ending = (section, read)
        self._ending.append(ending)

        def ended() -> None:
            self._ending.remove(ending)
            self.keep(section, read())

        return ended

    def add_to(self, section: str, entry: AnEntry) -> AnEntry:
        """An entry of a status, with what its predecessors counted."""
        counts = self._counts.get((section, entry.name))
        found = entry if counts is None else entry.merged(counts)
        for of, read in self._ending:
            if of == section and (other := read()).name == entry.name:
                found = found.merged(other.counts())
        return with_own_reader(entry, found)

    def forget(self, wanted: Callable[[str, str], bool]) -> None:
        """Drops the counts of entries that no longer exist."""
        self._counts = {key: counts for key, counts in self._counts.items() if wanted(*key)}


def with_own_reader(entry: AnEntry, merged: AnEntry) -> AnEntry:
    """Without the reader of a predecessor: the subscriber that it has now does not read the channel."""
    if isinstance(entry, TriggerStatus) and isinstance(merged, TriggerStatus) and entry.reader is None:
        return replace(merged, reader=None)
    return merged
