"""What the operating system knows about this process."""

from __future__ import annotations

import logging
import os
import resource
import time
from contextlib import suppress
from pathlib import Path

from gateway_serving import process_facts

from gateway_core.contract.status import ProcessStatus

_IMPORTED_S = time.time()
_TICK = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc/self")
_MOST_DESCRIPTORS = 1 << 20

log = logging.getLogger("tidegate.descriptors")


def process_status(worker: int) -> ProcessStatus:
    """This process, the worker of this number."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    resident = virtual = open_fds = None
    with suppress(OSError, ValueError):
        pages = (_PROC / "statm").read_text().split()
        size = resource.getpagesize()
        virtual, resident = int(pages[0]) * size, int(pages[1]) * size
        open_fds = len(os.listdir(_PROC / "fd")) - 1  # less the one that lists them
    return ProcessStatus(
        worker=worker,
        pid=os.getpid(),
        cpu_s=round(used.ru_utime + used.ru_stime, 3),
        started_s=_STARTED_S,
        max_fds=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        resident_bytes=resident,
        virtual_bytes=virtual,
        open_fds=open_fds,
        details=dict(process_facts.facts()),
    )


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
