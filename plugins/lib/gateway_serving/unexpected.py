"""Errors that nobody foresaw, where whoever provoked them may be a stranger: counted, and logged without their text."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path

_MOST_KINDS = 1000
counts: dict[str, int] = {}
"""Kind of error, by its type and place, and how many there were."""


def log_unexpected(log: logging.Logger, while_what: str, error: BaseException) -> None:
    """Logs the first error of a kind, the tenth, the hundredth and so on, by type and place. The error's own text and
    its traceback may hold what a stranger sent: they are for the level debug."""
    places = traceback.extract_tb(error.__traceback__)[-3:]
    place = ", ".join(f"{Path(p.filename).name}:{p.lineno} in {p.name}" for p in reversed(places))
    kind = f"{type(error).__name__} at {place or 'an unknown place'}"
    if kind not in counts and len(counts) >= _MOST_KINDS:
        kind = "others"
    count = counts[kind] = counts.get(kind, 0) + 1
    if str(count).strip("0") == "1":
        log.error("unexpected error while %s, %d of its kind so far: %s", while_what, count, kind)
        log.debug("the last of them", exc_info=error)
