"""What the operating system knows about this process."""

from __future__ import annotations

import logging
import os
import resource
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..contract import process_facts

_IMPORTED_S = time.time()
_TICK = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc/self")
_MOST_DESCRIPTORS = 1 << 20

log = logging.getLogger("tidegate.descriptors")


def process_status(worker: int) -> dict[str, Any]:
    """For status: `cpu_s` (user and system), `started_s` (Unix time), `max_fds`; where there is a `/proc`, also
    `resident_bytes`, `virtual_bytes` and `open_fds`, else None. Libraries add numbers of their own."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    status: dict[str, Any] = {
        "worker": worker,
        "pid": os.getpid(),
        "cpu_s": round(used.ru_utime + used.ru_stime, 3),
        "started_s": _STARTED_S,
        "max_fds": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "resident_bytes": None,
        "virtual_bytes": None,
        "open_fds": None,
        **process_facts.facts(),
    }
    with suppress(OSError, ValueError):
        pages = (_PROC / "statm").read_text().split()
        size = resource.getpagesize()
        status.update(virtual_bytes=int(pages[0]) * size, resident_bytes=int(pages[1]) * size)
        status["open_fds"] = len(os.listdir(_PROC / "fd")) - 1  # less the one that lists them
    return status


def raise_descriptor_limit() -> None:
    """Raises the soft limit of open file descriptors to the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ValueError, OSError) as e:  # macOS grants less than it says
        log.warning("the limit of open files stays at %d: %s", soft, e)


def _started_s() -> float:
    """When this process started, or if the system does not tell, when this module was loaded."""
    with suppress(OSError, ValueError, IndexError, StopIteration):
        after_name = (_PROC / "stat").read_text().rpartition(")")[2].split()
        boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
        return int(boot.split()[1]) + int(after_name[19]) / _TICK
    return _IMPORTED_S


_STARTED_S = _started_s()
