"""Looks into a streaming query's checkpoint from outside: how far it is, whoever runs it."""

from __future__ import annotations

import json
from pathlib import Path

from .query_run import offsets


def committed(checkpoint: Path) -> dict[str, int] | None:
    """The next position of each shard or partition, after the last batch that was committed. None where no batch was
    yet, or the query cleans up at this moment."""
    try:
        last = max((int(p.name) for p in (checkpoint / "commits").iterdir() if p.name.isdigit()), default=-1)
        lines = (checkpoint / "offsets" / str(last)).read_text().splitlines()
        # a version, what the batch ran with, and a line for each source: of those there is one
        return offsets(json.loads(lines[2])) or None
    except (OSError, ValueError, IndexError):
        return None
