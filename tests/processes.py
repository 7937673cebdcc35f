"""Processes as the system sees them, for tests that end what others have started."""

from __future__ import annotations

import os
import subprocess


def descendants(pid: int) -> set[int]:
    """The processes that it has begun, those that these have begun, and so on."""
    ran = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    parents: dict[int, int] = dict(tuple(map(int, line.split())) for line in ran.stdout.splitlines())
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def alive(pid: int) -> bool:
    """Whether there is such a process; one that has ended counts until its parent has asked for it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
