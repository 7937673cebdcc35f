"""CPU of a process tree, and runs of the load generator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TICK = os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(p) for p in (task / "children").read_text().split()]
    return found


def cpu_s(pid: int) -> float:
    """User and system seconds of a process, its threads, its living children and its reaped ones."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / TICK + sum(cpu_s(child) for child in children(pid))
    except OSError:
        return 0.0


class TreeCpu(threading.Thread):
    """Seconds of this process and of all that lives below it, also of what ended meanwhile (`cpu_s` loses those that
    were not waited for): it looks every 20 ms, which does not count. Nor does the child `without`."""

    def __init__(self, without: int = 0) -> None:
        super().__init__(daemon=True)
        self._pid = os.getpid()
        self._without = without
        self._seen: dict[int, float] = {}
        self._looking = 0.0  # seconds that the looks took
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(0.02):
            self._look(self._pid)
            self._looking = time.thread_time()

    def seconds(self) -> float:
        """So far, since it began to look: whatever went before is in it too, so take differences."""
        self._look(self._pid)
        return sum(self._seen.copy().values()) - self._looking

    def stop(self) -> None:
        self._done.set()
        self.join()

    def _look(self, pid: int) -> None:
        if pid == self._without:
            return
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            self._seen[pid] = sum(map(int, fields[11:13])) / TICK
            below = children(pid)
        except OSError:
            return
        for child in below:
            self._look(child)


def memory_mb(pid: int) -> float:
    """Resident memory of a process, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


class Program:
    """A program beside the gateway, until the end of the block or `stop`. If it `tells`, its first line is its URL."""

    def __init__(self, command: Sequence[str], *, tells: bool = True) -> None:
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.pid = self._process.pid
        self.url = self._process.stdout.readline().strip() if tells else ""

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends it."""
        self._process.terminate()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def bare_server(*options: str) -> Program:
    """A subscriber that costs little (`sink.py`)."""
    return Program([sys.executable, str(HERE / "sink.py"), *options])


def load(url: str, **options: Any) -> dict[str, Any]:
    """One run of the load generator, in a process of its own."""
    command = [sys.executable, str(HERE / "load.py"), url]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=150)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def measured(pid: int, url: str, **options: Any) -> dict[str, Any]:
    """One run, with the CPU microseconds per event of the process under load."""
    before = cpu_s(pid)
    result = load(url, **options)
    result["cpu_us"] = (cpu_s(pid) - before) * 1e6 / max(result["events"], 1)
    result["memory_mb"] = memory_mb(pid)
    return result
