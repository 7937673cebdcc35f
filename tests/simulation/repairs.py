"""What an operator does about a log that a gateway won't start with."""

from __future__ import annotations

import re
import sqlite3
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

from gateway_log import repair

from gateway_core.contract.errors import StartError


def repaired(data_dir: Path, now_s: float) -> tuple[str, ...]:
    """What `tidegate log repair` says, without the time in the names of the files that it keeps. That is the simulated
    one: two repairs of a run often fall into one real second, in which the second one could keep nothing."""
    clock = SimpleNamespace(gmtime=lambda: time.gmtime(now_s), strftime=time.strftime)
    try:
        with patch.object(repair, "time", clock):
            lines = list(repair.repair(data_dir / "log" / "default"))
    except (StartError, sqlite3.Error, OSError) as e:
        lines = [f"the log can't be repaired: {e}"]
    return tuple(re.sub(r"\d{8}T\d{6}", "TIME", line.replace(str(data_dir), "")) for line in lines)
