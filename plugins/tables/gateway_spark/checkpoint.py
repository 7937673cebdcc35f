"""Reads a streaming query's progress from its checkpoint, whichever process runs it."""

from __future__ import annotations

import json
from pathlib import Path

from .source.offsets import of_source as offsets


def committed(checkpoint: Path) -> dict[str, int] | None:
    """The next position of each shard or partition after the last committed batch. None if there was no batch yet, or
    the query is just cleaning up."""
    try:
        last = max((int(p.name) for p in (checkpoint / "commits").iterdir() if p.name.isdigit()), default=-1)
        lines = (checkpoint / "offsets" / str(last)).read_text().splitlines()
        # a version, the settings of the batch, and a line for each source, of which there is one
        return offsets(json.loads(lines[2])) or None
    except (OSError, ValueError, IndexError):
        return None


def has_batches(checkpoint: Path) -> bool:
    """Whether the query has planned a batch."""
    try:
        return any(p.name.isdigit() for p in (checkpoint / "offsets").iterdir())
    except OSError:
        return False
