"""What many triggers cost: the CPU and memory of a start, what pages of the admin API hold up, and the CPU per event.

One gateway for each number of triggers; they run side by side and take turns. Each trigger wants events of a type of
its own; the events of the load go to the first one, and the others stay idle. A page is asked while the gateway's loop
turns without a pause: the longest turn, in CPU time of its thread, is how long everything else had to wait.

    python tests/bench/many_triggers.py --triggers 10 1000 10000 --rounds 5
"""

from __future__ import annotations

import argparse
import html
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
from gateway_testing import GatewayProcess
from measure import HERE, bare_server, cpu_s, measured, memory_mb
from rich.console import Console
from rich.table import Table

PAGES = (
    "/metrics",
    "/status",
    "/status?limit=500",
    "/api/v1/triggers",
    "/api/v1/triggers?limit=500",
    "/api/v1/triggers/t0",
    "/console",
    "/console/triggers",
    "/console/triggers/t0",
    "/console/catalogue",
    "/console/config",
)
LIVE = ("/console/live/overview", "/console/live/triggers")
LIVE_S = 4.0
WARM_TYPE = "com.example.order"


def config(count: int, sink: str) -> str:
    """The config of a gateway with so many triggers."""
    lines = ['brokers: {default: {ingress: [http: {listen: "127.0.0.1:0"}]}}', "triggers:"]
    for n in range(count):
        wanted = WARM_TYPE if n == 0 else f"com.example.other.{n}"
        lines.append(f'  t{n}: {{filters: [exact: {{type: {wanted}}}], subscriber: "{sink}"}}')
    return "\n".join(lines) + "\n"


class Served(GatewayProcess):
    """A gateway that measures its loop."""

    def _begin(self, command: Sequence[str], env: Any, log: Any) -> subprocess.Popen[bytes]:
        own = [sys.executable, str(HERE / "turns.py"), *command[command.index("run") :]]
        pipe = subprocess.PIPE
        return subprocess.Popen(own, stdin=pipe, stdout=pipe, stderr=log, env=env, cwd=self.folder)

    def say(self, word: str) -> float:
        """What the process answers (`turns.py`)."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(word.encode() + b"\n")
        self._process.stdin.flush()
        assert self._process.stdout is not None
        while not (line := self._process.stdout.readline()).startswith(b"turn "):
            assert line, self.log()
        return float(line.split()[1])


def looked_at(gateway: Served, client: httpx.Client, path: str) -> tuple[float, int, int]:
    """The longest turn in ms while a page is asked (or a live one read for a while), its bytes, and the status."""
    if live := path in LIVE:  # as the page asks for it
        page = client.get(path.replace("/live", "").replace("/overview", "")).text
        path = html.unescape(re.findall(r'sse-connect="([^"]+)"', page)[0])
    gateway.say("begin")
    size = 0
    if live:
        with client.stream("GET", path) as answer:
            end = time.monotonic() + LIVE_S
            for part in answer.iter_bytes():
                size += len(part)
                if time.monotonic() > end:
                    break
    else:
        answer = client.get(path)
        size = len(answer.content)
    return gateway.say("end"), size, answer.status_code


def started(stack: ExitStack, count: int, sink: str) -> tuple[Served, float, float]:
    """A gateway with so many triggers, the CPU seconds of its start, and its resident MB."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    gateway = stack.enter_context(Served(config(count, sink), folder, {"TIDEGATE_LOG_LEVEL": "error"}))
    return gateway, cpu_s(gateway.pid), memory_mb(gateway.pid)


def table(title: str, counts: Sequence[int], rows: dict[str, list[str]]) -> None:
    shown = Table(title, *(f"{count:,}" for count in counts))
    for name, cells in rows.items():
        shown.add_row(name, *cells)
    (Console() if sys.stdout.isatty() else Console(width=120)).print(shown)


def starts(counts: Sequence[int], rounds: int, sink: str) -> dict[str, list[str]]:
    found: dict[int, list[tuple[float, float]]] = {count: [] for count in counts}
    for _ in range(rounds):
        for count in counts:
            with ExitStack() as stack:
                found[count].append(started(stack, count, sink)[1:])
    return {
        "start, CPU s": [f"{statistics.median(cpu for cpu, _ in found[count]):.2f}" for count in counts],
        "after it, MB": [f"{statistics.median(mb for _, mb in found[count]):.0f}" for count in counts],
    }


def pages(gateways: dict[int, Served], asked: Sequence[str], rounds: int) -> None:
    holds: dict[str, list[str]] = {path: [] for path in asked}
    sizes: dict[str, list[str]] = {path: [] for path in asked}
    for gateway in gateways.values():
        once = {**gateway.admin_headers, "connection": "close"}
        with httpx.Client(base_url=gateway.admin_url, headers=once, timeout=300) as client:
            for path in asked:
                found = [looked_at(gateway, client, path) for _ in range(rounds + 1)][1:]
                holds[path].append(f"{statistics.median(ms for ms, *_ in found):.1f}")
                status = found[-1][2]
                sizes[path].append(f"{found[-1][1]:,}" if status == 200 else f"({status})")
    table("longest turn of the loop, CPU ms", list(gateways), holds)
    table("bytes", list(gateways), sizes)


def behind(gateway: Served) -> int:
    """The lag of the trigger that gets the events."""
    counts = gateway.admin("/api/v1/triggers/t0").json()["status"]["counts"]
    return int(counts["lag"])


def events(gateways: dict[int, Served], rounds: int, limit: int) -> dict[str, list[str]]:
    """CPU per event of each, and beside the first, in turns."""
    found: dict[int, list[float]] = {count: [] for count in gateways}
    for n in range(rounds + 1):
        for count, gateway in gateways.items():
            result = measured(gateway.pid, gateway.ingress(), limit=limit, seconds=60)
            gateway.wait_until(lambda gateway=gateway: not behind(gateway))  # type: ignore[misc]
            assert not result["bad"], result
            if n:
                found[count].append(result["cpu_us"])
    first = found[next(iter(gateways))]
    ratios = {c: statistics.median(a / b for a, b in zip(all_, first, strict=True)) for c, all_ in found.items()}
    return {
        "CPU us/event": [f"{statistics.median(all_):.1f}" for all_ in found.values()],
        "beside the first": [f"{ratio:.2f}x" for ratio in ratios.values()],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triggers", type=int, nargs="+", default=[10, 1000, 10_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--only", choices=["start", "pages", "events"], nargs="+", default=["start", "pages", "events"])
    parser.add_argument("--pages", nargs="+", default=[*PAGES, *LIVE])
    given = parser.parse_args()
    with ExitStack() as stack:
        sink = stack.enter_context(bare_server()).url
        if "start" in given.only:
            table("triggers", given.triggers, starts(given.triggers, given.rounds, sink))
        if {"pages", "events"} & {*given.only}:
            gateways = {count: started(stack, count, sink)[0] for count in given.triggers}
            if "events" in given.only:
                table("triggers", given.triggers, events(gateways, given.rounds, given.events))
            if "pages" in given.only:
                pages(gateways, given.pages, given.rounds)


if __name__ == "__main__":
    main()
