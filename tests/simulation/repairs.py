"""What an operator does about a log that a gateway won't start with."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

from gateway_log.repair import repair

from gateway_core.contract.errors import StartError


def repaired(data_dir: Path) -> tuple[str, ...]:
    """What `tidegate log repair` says, without the time in the names of the files that it keeps."""
    try:
        lines = list(repair(data_dir / "log" / "default"))
    except (StartError, sqlite3.Error, OSError) as e:
        lines = [f"the log can't be repaired: {e}"]
    return tuple(re.sub(r"\d{8}T\d{6}", "TIME", line.replace(str(data_dir), "")) for line in lines)
