"""Numbers that libraries count about this process, for status and metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping

Source = Callable[[], Mapping[str, int]]
_sources: list[Source] = []


def add(source: Source) -> None:
    """Adds numbers, by name. A library adds its own when it is imported."""
    _sources.append(source)


def facts() -> dict[str, int]:
    """The current numbers."""
    return {name: number for source in _sources for name, number in source().items()}
