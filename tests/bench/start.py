"""What Tidegate costs beside events: starts, commands, memory, and a gateway with nothing to do.

Each round runs some commands, starts a gateway (HTTP ingress, log, HTTP subscriber), sends it an event as soon as it
listens, lets it idle, and sends it many events. Medians are shown. CPU seconds are user and system time of the process:
they hold on a busy machine, wall times do not. Wake-ups are the voluntary context switches of all threads.

    python tests/bench/start.py --rounds 7 --idle 10 --events 50000
    python tests/bench/start.py --rounds 3 --idle 1 --events 0 --backlog 1000000
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

from gateway_testing import GatewayProcess
from measure import bare_server, cpu_s, load, memory_mb
from rich.console import Console
from rich.table import Table

COMMANDS = {"tidegate --help": ["--help"], "tidegate version": ["version"], "tidegate check": ["check"]}
TARGETS = {
    "start to first 2xx": "<= 0.4 s",
    "tidegate --help": "<= 0.15 s",
    "memory when started": "<= 45 MB",
    "memory after events": "<= 70 MB",
}
EVENT = (
    b"POST / HTTP/1.1\r\nhost: localhost\r\nce-specversion: 1.0\r\nce-id: 1\r\nce-source: /bench\r\nce-type: bench\r\n"
    b"content-type: application/json\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}"
)

Figures = dict[str, list[float]]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Gateway(GatewayProcess):
    """A gateway on a port that is known before it starts."""

    def __init__(self, folder: Path, subscriber: str) -> None:
        folder.mkdir()
        self.port = free_port()
        ingress = f'brokers: {{default: {{ingress: [http: {{listen: "127.0.0.1:{self.port}"}}]}}}}\n'
        super().__init__(f"{ingress}triggers: {{all: {{subscriber: '{subscriber}'}}}}\n", folder)

    def first_2xx(self) -> tuple[float, float]:
        """Starts it; wall and CPU seconds until an event is accepted."""
        began = time.perf_counter()
        starting = threading.Thread(target=self.start)
        starting.start()
        while not self._accepts():
            time.sleep(0.005)
        took = time.perf_counter() - began, cpu_s(self.pid)
        starting.join()
        return took

    def _accepts(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port)) as connection:
                connection.sendall(EVENT)
                return connection.recv(1000).split()[1:2] == [b"202"]
        except ConnectionError:
            return False


def command(words: list[str], folder: Path) -> tuple[float, float]:
    """Wall and CPU seconds of `tidegate WORDS`."""
    began = time.perf_counter()
    arguments = [sys.executable, "-m", "gateway_core.cli", *words]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return time.perf_counter() - began, used.ru_utime + used.ru_stime


def wakeups(pid: int) -> int:
    """How often its threads have given up the processor by themselves."""
    lines = [line for f in Path(f"/proc/{pid}/task").glob("*/status") for line in f.read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary"))


def run_ns(pid: int) -> int:
    """How long its threads have run, in nanoseconds."""
    return sum(int(f.read_text().split()[0]) for f in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def one_round(folder: Path, subscriber: str, idle_s: float, events: int, figures: Figures) -> None:
    gateway = Gateway(folder, subscriber)
    for name, words in COMMANDS.items():
        for what, value in zip((", wall s", ", CPU s"), command(words, folder), strict=True):
            figures[name + what].append(value)
    try:
        wall, cpu = gateway.first_2xx()
        figures["start to first 2xx, wall s"].append(wall)
        figures["start to first 2xx, CPU s"].append(cpu)
        figures["memory when started, MB"].append(memory_mb(gateway.pid))
        time.sleep(2)  # what a start leaves to be done
        before = wakeups(gateway.pid), run_ns(gateway.pid)
        time.sleep(idle_s)
        figures["idle, wake-ups per s"].append((wakeups(gateway.pid) - before[0]) / idle_s)
        figures["idle, CPU ms per s"].append((run_ns(gateway.pid) - before[1]) / idle_s / 1e6)
        sent = 0
        while sent < events:
            sent += load(gateway.ingress(), seconds=2)["events"]
        figures["memory after events, MB"].append(memory_mb(gateway.pid))
    finally:
        gateway.stop()


def with_backlog(folder: Path, events: int, figures: Figures) -> None:
    """Starts a gateway that was killed with events which its subscriber refuses."""
    gateway = Gateway(folder, f"http://127.0.0.1:{free_port()}/")
    try:
        gateway.start()
        sent = 0
        while sent < events:
            sent += load(gateway.ingress(), mode="batch", seconds=5)["events"]
        gateway.kill()
        wall, cpu = gateway.first_2xx()
        figures["start with a backlog, wall s"].append(wall)
        figures["start with a backlog, CPU s"].append(cpu)
        figures["memory with a backlog, MB"].append(memory_mb(gateway.pid))
    finally:
        gateway.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--idle", type=float, default=10, help="seconds")
    parser.add_argument("--events", type=int, default=50_000, help="at least so many; 0: no load")
    parser.add_argument("--backlog", type=int, default=0, help="also a start with at least so many events that wait")
    a = parser.parse_args()
    figures: Figures = defaultdict(list)
    with bare_server() as sink, tempfile.TemporaryDirectory() as scratch:
        for n in range(a.rounds):
            one_round(Path(scratch, str(n)), sink.url, a.idle, a.events, figures)
            if a.backlog:
                with_backlog(Path(scratch, f"{n}-backlog"), a.backlog, figures)
    table = Table("what", "median", "from", "to", "goal", title=f"{a.rounds} rounds")
    for name, values in figures.items():
        shown = [f"{of(values):.3g}" for of in (statistics.median, min, max)]
        table.add_row(name, *shown, TARGETS.get(name.partition(",")[0], ""))
    (Console() if sys.stdout.isatty() else Console(width=110)).print(table)


if __name__ == "__main__":
    main()
