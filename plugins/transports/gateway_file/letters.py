"""The dead letters in a file of events: those lines whose event carries the facts of a failure.

A line has no id of its own: its id is the time of the last attempt and a digest of the line, so that ids sort by time
and stay when other lines are removed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from gateway_cloudevents import event_json

from gateway_core.contract.event import Event
from gateway_core.contract.moments import time_ns_of

from .line_file import LinePlace, lines_at, take_out

_TRIGGER, _LAST = "tidegatetrigger", "tidegatelast"
_MARK = b'"' + _TRIGGER.encode() + b'"'


def letters(path: Path) -> Iterator[tuple[str, Event, LinePlace]]:
    """All dead letters with their places, in the order of the file; none if there is no file."""
    with suppress(FileNotFoundError):
        for place, line, end in lines_at(path):
            if end and (found := letter(line)) is not None:
                yield *found, place


def letter(line: bytes) -> tuple[str, Event] | None:
    """Id and event of a line, None if it is no dead letter."""
    if _MARK not in line:
        return None
    try:
        event = event_json.load(line)
    except (ValueError, RecursionError):
        return None
    return (_id(line, event), event) if _TRIGGER in event.attributes else None


def remove(path: Path, ids: Sequence[str]) -> int:
    """Removes dead letters; returns how many existed. The file is replaced atomically, or not at all."""
    return take_out(path, set(ids), id_of) if ids else 0


def id_of(line: bytes) -> str | None:
    """The id of a line, None if it is no dead letter."""
    found = letter(line)
    return None if found is None else found[0]


def _id(line: bytes, event: Event) -> str:
    at_ns = 0
    with suppress(ValueError):
        at_ns = time_ns_of(str(event.attributes.get(_LAST)))
    return f"{at_ns:016x}{hashlib.sha256(line).hexdigest()[:12]}"
