"""The cursors of a shard whose file is damaged: in `shard-000.places.json` beside it. The damaged file itself is not
changed any more."""

from __future__ import annotations

import json
import logging
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from gateway_core.contract.private_files import replace_file

from .cursor import CursorChanges, CursorState, load_cursors
from .reader import open_read_only, shard_file
from .rows import salvage

log = logging.getLogger("tidegate.log")


def load(folder: Path, shard: int, first: int) -> tuple[int, dict[str, CursorState], bool]:
    """The routed end and all cursors as last written, and whether they are lost: then every subscription starts with
    the first event, since delivering twice is better than never."""
    routed, known, lost = first, dict[str, CursorState](), False
    try:
        with closing(open_read_only(shard_file(folder, shard))) as connection:
            salvage(connection)
            routed, known = load_cursors(connection)
    except (sqlite3.Error, ValueError) as e:
        lost = not cursors_file(folder, shard).exists()
        if lost:
            log.error(
                "%s: can't read the cursors of its triggers (%s): they get all of its events again",
                shard_file(folder, shard),
                e,
            )
    with suppress(FileNotFoundError):
        try:
            newer = json.loads(cursors_file(folder, shard).read_bytes())
            routed = int(newer["routed"])
            known |= {n: CursorState(p, tuple(map(int, waiting))) for n, (p, waiting) in newer["places"].items()}
        except (ValueError, TypeError, KeyError) as e:
            log.error("%s is damaged (%s): events may be delivered again", cursors_file(folder, shard), e)
            lost = not known
    return routed, known, lost


def save(folder: Path, changes: CursorChanges) -> None:
    """Writes the changes. Raises `OSError`."""
    path = cursors_file(folder, changes.shard)
    known: dict[str, Any] = {}
    with suppress(FileNotFoundError, ValueError, TypeError, KeyError):
        known = dict(json.loads(path.read_bytes())["places"])
    known |= {name: [state.next, list(state.pending)] for name, state in changes.cursors}
    replace_file(path, json.dumps({"routed": changes.routed, "places": known}).encode())


def unfinished_repair(folder: Path, shard: int) -> Path:
    """The complete new file of a repair that has not replaced the old one yet."""
    return folder / f"shard-{shard:03d}.db.repaired"


def cursors_file(folder: Path, shard: int) -> Path:
    """The file with the cursors."""
    return folder / f"shard-{shard:03d}.places.json"
