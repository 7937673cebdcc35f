"""What a bad subscriber or other work costs a sender: its latency at a fixed rate, and what an event costs then.

    .venv/bin/python tests/bench/neighbours.py --rounds 5

Three triggers with HTTP subscribers follow the log. In some cases the third one's subscriber or dead letter fails,
which begins before the load does; in the others, something else goes on during the load. Each run has a gateway of its
own; the cases are interleaved, and medians are shown, with the median of their ratios to "all well" of the same round.
Latency is counted from the intended arrival of an event. CPU and context switches are those of the gateway's process
and its children. With perf on the PATH (and the right to trace syscalls), one more run of each case counts them.
Nothing here asserts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import httpx
from gateway_testing import GatewayProcess
from measure import bare_server, cpu_s, load
from rich.console import Console
from rich.table import Table

from tests.repeated import repeated

WELL = "all well"
Beside = Callable[[GatewayProcess], AbstractContextManager[None]]


@dataclass(frozen=True)
class Case:
    """The third trigger's subscriber and delivery policy, the dead letter, and what goes on beside the load."""

    third: str = "good"
    dead_letter: str = "file"
    delivery: str = "{}"
    beside: Beside = nullcontext


def scrape(gateway: GatewayProcess) -> AbstractContextManager[None]:
    """Once a second, metrics and status, with a client that costs little."""
    requests = [Request(gateway.admin_url + path, headers=gateway.admin_headers) for path in ("/metrics", "/status")]

    def ask() -> None:
        for request in requests:
            with urlopen(request) as answer:
                answer.read()

    return repeated(ask, 1.0)


def add(gateway: GatewayProcess, trigger: str) -> None:
    """Adds a trigger by a reload."""
    with gateway.config.open("a") as config:
        config.write(f"  {trigger}\n")
    os.kill(gateway.pid, signal.SIGHUP)


@contextmanager
def reload(gateway: GatewayProcess) -> Iterator[None]:
    """One, a second after the load began."""
    trigger = f"fourth: {{subscriber: {{file: {{path: '{gateway.folder}/fourth.jsonl'}}}}}}"
    timer = threading.Timer(1.0, add, (gateway, trigger))
    timer.start()
    yield
    timer.join()


@contextmanager
def table(gateway: GatewayProcess) -> Iterator[None]:
    """A Spark table is added, whose driver and first batches start during the load."""
    add(gateway, "table: {subscriber: {spark: {path: table}}}")
    yield


@contextmanager
def backlog(gateway: GatewayProcess) -> Iterator[None]:
    """The third trigger was paused for a while, and catches up during the load."""

    def change(what: str) -> None:
        url = f"{gateway.admin_url}/api/v1/triggers/third/{what}"
        httpx.post(url, headers=gateway.admin_headers, timeout=60).raise_for_status()

    change("pause")
    load(gateway.ingress(), mode="batch", seconds=30, limit=BACKLOG // 100)
    gateway.wait_until(lambda: gateway.drained("first", "second"))
    change("resume")
    yield


CASES = {
    WELL: Case(),
    "one refuses connections": Case("refuses"),
    "one never answers": Case("hangs"),
    "one answers 500": Case("fails"),
    "one refuses, slow dead letter": Case("refuses", "slow"),
    "a scrape each second": Case(beside=scrape),
    "a reload": Case(beside=reload),
    "a backlog drains": Case(beside=backlog),
    "the same, 3,000 a second": Case(delivery="{rate_per_s: 3000}", beside=backlog),
    "a Spark query starts": Case(beside=table),
}
BACKLOG = 50_000
SUBSCRIBERS = {"good": [], "hangs": ["--wait", "3600"], "fails": ["--status", "500"], "slow": ["--wait", "0.2"]}
ALIASES = {
    "syncs": ("fsync", "fdatasync"),
    "file writes": ("pwrite64",),
    "socket and pipe writes": ("write", "sendto", "sendmsg"),
    "reads": ("read", "recvfrom", "recvmsg"),
    "epoll": ("epoll_wait", "epoll_pwait"),
    "futex": ("futex",),
    "connects": ("connect",),
}
"""Syscalls that are counted together."""
WAIT_S = 2.0
"""Load before the measured one: the trouble has begun by then, and the first dead letters are written."""

Figures = dict[str, float]


def config(urls: dict[str, str], case: Case) -> str:
    to = case.dead_letter
    letters = "file: {path: letters.jsonl}" if to == "file" else f"http: {{url: '{urls[to]}'}}"
    return f"""
brokers:
  default:
    ingress: [http: {{listen: "127.0.0.1:0"}}]
    delivery: {{retry: 2, timeout_s: 2}}
    dead_letter: {{{letters}}}
triggers:
  first: {{subscriber: '{urls["good"]}'}}
  second: {{subscriber: '{urls["good"]}'}}
  third: {{subscriber: '{urls[case.third]}', delivery: {case.delivery}}}
"""


def switches(pid: int) -> int:
    """Context switches of all threads so far."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if "ctxt_switches" in line:
                total += int(line.split()[1])
    return total


@contextmanager
def subscribers() -> Iterator[dict[str, str]]:
    """Their URLs by name."""
    refusing = socket.socket()
    refusing.bind(("127.0.0.1", 0))  # nothing listens
    urls = {"refuses": f"http://127.0.0.1:{refusing.getsockname()[1]}/"}
    with refusing, ExitStack() as stack:
        for name, options in SUBSCRIBERS.items():
            urls[name] = stack.enter_context(bare_server(*options)).url
        yield urls


def count_calls(pid: int, run: Callable[[], float]) -> Figures:
    """The syscalls of a process per event, counted with perf. `run` returns the number of events."""
    names = [name for pair in ALIASES.values() for name in pair]
    command = ["perf", "stat", "-x", ",", "-e", ",".join(f"syscalls:sys_enter_{n}" for n in names), "-p", str(pid)]
    counter = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(0.5)
    events = max(run(), 1)
    counter.send_signal(signal.SIGINT)
    _, text = counter.communicate(timeout=30)
    found: dict[str, int] = {}
    for line in text.splitlines():
        fields = line.split(",")
        if len(fields) > 2 and fields[0].isdigit():
            found[fields[2].removeprefix("syscalls:sys_enter_")] = int(fields[0])
    return {name: sum(found.get(n, 0) for n in pair) / events for name, pair in ALIASES.items()}


def play(case: str, urls: dict[str, str], rate: float, seconds: float, *, trace: bool = False) -> Figures:
    """One run with a new gateway."""
    chosen = CASES[case]
    with tempfile.TemporaryDirectory() as scratch:
        gateway = GatewayProcess(config(urls, chosen), Path(scratch))
        with gateway:
            pid, url = gateway.pid, gateway.ingress()
            load(url, rate=rate, seconds=WAIT_S)
            figures: Figures = {}
            with chosen.beside(gateway):
                if trace:
                    return count_calls(pid, lambda: float(load(url, rate=rate, seconds=seconds)["events"]))
                cpu, switched = cpu_s(pid), switches(pid)
                result: dict[str, Any] = load(url, rate=rate, seconds=seconds)
            count = max(result["events"], 1)
            figures["p50_ms"], figures["p99_ms"] = result["p50_ms"], result["p99_ms"]
            figures["cpu_us"] = (cpu_s(pid) - cpu) * 1e6 / count
            figures["switches"] = (switches(pid) - switched) / count
            figures["letters"] = gateway.trigger("third")["dead_lettered"]
            figures["refused"] = float(result["bad"])
            return figures


def show(runs: dict[str, list[Figures]], traced: dict[str, Figures], console: Console) -> None:
    table = Table("case", "p50 ms", "", "p99 ms", "", "CPU us/event", "switches/event", "syncs/event", "dead letters")
    for case, figures in runs.items():

        def middle(key: str, figures: Sequence[Figures] = figures) -> float:
            return statistics.median(f[key] for f in figures)

        def ratio(key: str, figures: Sequence[Figures] = figures) -> str:
            beside = zip(figures, runs.get(WELL, figures), strict=True)
            return f"{statistics.median(f[key] / w[key] for f, w in beside):.2f}x"

        table.add_row(
            *(case, f"{middle('p50_ms'):.2f}", ratio("p50_ms"), f"{middle('p99_ms'):.1f}", ratio("p99_ms")),
            *(f"{middle('cpu_us'):.0f}", f"{middle('switches'):.1f}"),
            f"{traced[case]['syncs']:.2f}" if case in traced else "",
            f"{middle('letters'):,.0f}",
        )
    console.print(table)
    if traced:
        calls = Table("calls per event", *traced)
        for name in ALIASES:
            calls.add_row(name, *(f"{t[name]:.2f}" for t in traced.values()))
        console.print(calls)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rate", type=float, default=2000, help="events a second")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--only", default="", help="only cases whose name holds this text, and the first")
    parser.add_argument("--no-trace", action="store_true", help="counts no syscalls")
    parser.add_argument("--json", default="")
    a = parser.parse_args()
    console = Console() if sys.stdout.isatty() else Console(width=150)
    cases = [case for case in CASES if a.only in case or case == WELL]
    runs: dict[str, list[Figures]] = {case: [] for case in cases}
    traced: dict[str, Figures] = {}
    with subscribers() as urls:
        for number in range(a.rounds):
            for case in cases:
                runs[case].append(play(case, urls, a.rate, a.seconds))
                console.print(f"[dim]{number + 1}/{a.rounds} {case}: {runs[case][-1]}[/dim]", highlight=False)
        if not a.no_trace and shutil.which("perf"):
            traced = {case: play(case, urls, a.rate, min(a.seconds, 3.0), trace=True) for case in cases}
    if a.rounds:
        show(runs, traced, console)
    if a.json:
        Path(a.json).write_text(json.dumps({"runs": runs, "calls": traced}, indent=1) + "\n")


if __name__ == "__main__":
    main()
