"""Where subscriptions are in a shard whose file is damaged: `shard-000.places.json` beside it. Nothing is changed any
more in the file itself."""

from __future__ import annotations

import json
import logging
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from gateway_core.files import replace_file

from . import places
from .places import Changes, Place
from .reader import open_read_only, shard_file
from .rows import salvage

log = logging.getLogger("tidegate.log")


def load(folder: Path, shard: int, first: int) -> tuple[int, dict[str, Place], bool]:
    """The routed end and all places, as they were written last, and whether they are lost: then every subscription
    begins with the first event, for better twice than never."""
    routed, known, lost = first, dict[str, Place](), False
    try:
        with closing(open_read_only(shard_file(folder, shard))) as connection:
            salvage(connection)
            routed, known = places.load(connection)
    except (sqlite3.Error, ValueError) as e:
        lost = not places_file(folder, shard).exists()
        if lost:
            log.error(
                "%s: how far its triggers were can't be read (%s): they get all of its events again",
                *(shard_file(folder, shard), e),
            )
    with suppress(FileNotFoundError):
        try:
            newer = json.loads(places_file(folder, shard).read_bytes())
            routed = int(newer["routed"])
            known |= {n: Place(p, tuple(map(int, waiting))) for n, (p, waiting) in newer["places"].items()}
        except (ValueError, TypeError, KeyError) as e:
            log.error("%s is damaged (%s): events may be delivered again", places_file(folder, shard), e)
            lost = not known
    return routed, known, lost


def save(folder: Path, changes: Changes) -> None:
    """Writes the changes. Raises `OSError`."""
    path = places_file(folder, changes.shard)
    known: dict[str, Any] = {}
    with suppress(FileNotFoundError, ValueError, TypeError, KeyError):
        known = dict(json.loads(path.read_bytes())["places"])
    known |= {name: [place.next, list(place.pending)] for name, place in changes.places}
    replace_file(path, json.dumps({"routed": changes.routed, "places": known}).encode())


def unfinished_repair(folder: Path, shard: int) -> Path:
    """The new file of a repair, complete, that has not taken the old one's place yet."""
    return folder / f"shard-{shard:03d}.db.repaired"


def places_file(folder: Path, shard: int) -> Path:
    """Where they are."""
    return folder / f"shard-{shard:03d}.places.json"
