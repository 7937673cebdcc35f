"""Processes as the system sees them, for tests that end what others have started."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterable
from typing import Any

from gateway_testing import GatewayProcess


def descendants(pid: int) -> set[int]:
    """The processes that it has begun, those that these have begun, and so on."""
    ran = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    parents: dict[int, int] = {int(pid): int(parent) for pid, parent in map(str.split, ran.stdout.splitlines())}
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def log_lines(gateway: GatewayProcess) -> list[dict[str, Any]]:
    """What it has logged."""
    return [json.loads(line) for line in gateway.stderr.read_text().splitlines() if line.startswith("{")]


def alive(pid: int) -> bool:
    """Whether there is such a process; one that has ended counts until its parent has asked for it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def gone(pids: Iterable[int], timeout_s: float = 60.0) -> None:
    """Waits until none of them runs any more; one that has ended need not have been asked for."""
    end = time.monotonic() + timeout_s
    while left := [pid for pid in pids if _runs(pid)]:
        assert time.monotonic() < end, f"{left} still run"
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    ran = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return ran.stdout.strip()[:1] not in ("", "Z")
