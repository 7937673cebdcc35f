"""Two sides, the same work in turn: this tree beside a floor in Go, another revision, or another interpreter.

    python tests/bench/compare.py --with go                             # make bench PEERS=1
    python tests/bench/compare.py --with HEAD~20                        # make bench COMPARE=HEAD~20
    python tests/bench/compare.py --this .venv-compiled/bin/python --with .venv/bin/python      # compiled beside pure

Every measurement has a process of its own, warmed up before; both sides take turns at going first. Ratios are those of
a round, this tree divided by the other; the median is shown with its range: below 1 this tree costs less. Machines are
noisy: look at ratios, not at the figures beside them. Go has no log and no bridge from HTTP to HTTP; its HTTP to Kafka
stands in for HTTP to log and to HTTP, and its Kafka to HTTP for log to HTTP.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from gateway_java.kafka import KafkaBroker
from measure import bare_server, cpu_s, load, measured, memory_mb
from rich.console import Console
from rich.table import Table
from sides import Floor, Gateway, Side, Started, side

MODES = {"binary": "binary", "structured": "structured", "batch of 100": "batch"}
WARM_S = 1.5
LIMIT_S = 300


class Bench:
    """The cases, and what they need: a broker, a subscriber, a topic full of events."""

    def __init__(self, folder: Path, seconds: float, events: int, subscriber: Started) -> None:
        self._folder = folder
        self._seconds = seconds
        self._events = events
        self._subscriber = subscriber
        self._number = 0
        self._full = ""
        self._client = httpx.Client(verify=False, trust_env=False)
        self._broker = KafkaBroker(folder / "broker", properties={"num.partitions": "4"})
        self._broker.start()

    def close(self) -> None:
        self._client.close()
        self._broker.stop()

    def cases(self) -> dict[str, Callable[[Side], dict[str, Any]]]:
        """Each measures a side once."""
        found: dict[str, Callable[[Side], dict[str, Any]]] = {}
        for name, mode in MODES.items():
            found[f"HTTP to Kafka, {name}"] = lambda s, m=mode: self._into(s, mode=m)
        found["HTTP to Kafka, 1,000/s"] = lambda s: self._into(s, mode="binary", rate=1000)
        found["Kafka to HTTP"] = self._out
        found["HTTP to HTTP"] = lambda s: self._into(s, "http", mode="binary")
        found["HTTP to log, binary"] = lambda s: self._into(s, "log", mode="binary")
        found["HTTP to log, batch of 100"] = lambda s: self._into(s, "log", mode="batch")
        found["log to HTTP"] = self._out_of_log
        return found

    def _place(self) -> Path:
        self._number += 1
        return self._folder / f"run-{self._number}"

    def _into(self, side: Side, to: str = "kafka", **options: Any) -> dict[str, Any]:
        if to == "log" and isinstance(side, Gateway):
            started: Started = side.into_log(self._place())
        elif to == "http" and isinstance(side, Gateway):
            started = side.into_http(self._place(), self._subscriber.url)
        else:
            started = side.into_kafka(self._place(), self._broker.bootstrap, "into")
        try:
            load(started.url, mode=options["mode"], seconds=WARM_S)
            return measured(started.pid, started.url, seconds=self._seconds, **options)
        finally:
            started.stop()

    def _out(self, side: Side) -> dict[str, Any]:
        if not self._full:
            self._full = "full"
            filling = Gateway("").into_kafka(self._place(), self._broker.bootstrap, self._full)
            try:
                load(filling.url, mode="batch", seconds=120, limit=self._events // 100)
            finally:
                filling.stop()
        before, place = self._count(), self._place()
        options = self._broker.bootstrap, self._full, place.name, self._subscriber.url
        started = side.out_of_kafka(place, *options)
        try:
            return self._delivered(started, before)
        finally:
            started.stop()

    def _out_of_log(self, side: Side) -> dict[str, Any]:
        """What a paused trigger left in the log is delivered."""
        if not isinstance(side, Gateway):
            return self._out(side)
        started = side.into_log(self._place(), self._subscriber.url)
        try:
            _order(started, "pause")
            load(started.url, mode="batch", seconds=120, limit=self._events // 100)
            before = self._count()
            _order(started, "resume")
            return self._delivered(started, before)
        finally:
            started.stop()

    def _count(self) -> int:
        return int(self._client.get(self._subscriber.url).text)

    def _delivered(self, started: Started, before: int) -> dict[str, Any]:
        """What delivering costs, from the second tenth on."""
        limit = time.monotonic() + LIMIT_S
        count, cpu, began = 0, 0.0, 0.0
        while (now := self._count() - before) < self._events // 100 * 100:
            if time.monotonic() > limit:
                raise SystemExit(f"{now} of {self._events} events arrived within {LIMIT_S} s.")
            if not began and now >= self._events // 10:
                count, cpu, began = now, cpu_s(started.pid), time.perf_counter()
            time.sleep(0.02)
        count = now - count
        spent, took = cpu_s(started.pid) - cpu, time.perf_counter() - began
        rates = {"cpu_us": spent * 1e6 / count, "events_per_s": count / took}
        return {"events": count, **rates, "memory_mb": memory_mb(started.pid)}


def _order(gateway: Any, what: str) -> None:
    url = f"{gateway.admin_url}/api/v1/triggers/all/{what}"
    httpx.post(url, headers=gateway.admin_headers, verify=False, timeout=60).raise_for_status()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--with", dest="other", default="go", help="go, a revision, or the path of an interpreter")
    parser.add_argument("--this", default=sys.executable, help="the interpreter of this side")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument(
        "--events", type=int, default=200_000, help="how many are delivered, where delivery is measured"
    )
    parser.add_argument(
        "--only", default=[""], nargs="+", metavar="TEXT", help="only cases whose name holds one of these texts"
    )
    parser.add_argument("--json", default="compare.json")
    a = parser.parse_args()
    console = Console() if sys.stdout.isatty() else Console(width=150)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        sides = Gateway("this tree", python=os.path.abspath(a.this)), side(a.other, folder)
        subscriber = sides[1].sink() if isinstance(sides[1], Floor) else bare_server()
        bench = Bench(folder, a.seconds, a.events, subscriber)
        try:
            runs = _rounds(bench, sides, a.rounds, a.only, console)
        finally:
            bench.close()
            subscriber.stop()
    show(console, runs, a.this, sides[1].name, a.rounds)
    Path(a.json).write_text(json.dumps({"other": a.other, "machine": machine(), "runs": runs}, indent=1))


Runs = dict[str, list[tuple[dict[str, Any], dict[str, Any]]]]


def _rounds(bench: Bench, sides: tuple[Side, Side], rounds: int, only: list[str], console: Console) -> Runs:
    cases = {name: case for name, case in bench.cases().items() if any(text in name for text in only)}
    if not cases:
        raise SystemExit(f"No case has {' or '.join(only)} in its name; there are: {', '.join(bench.cases())}.")
    runs: Runs = {name: [] for name in cases}
    for number in range(rounds):
        for name, case in cases.items():
            console.print(f"[dim]round {number + 1}/{rounds}: {name}[/dim]", highlight=False)
            found = {s.name: case(s) for s in (sides if number % 2 == 0 else sides[::-1])}
            runs[name].append((found[sides[0].name], found[sides[1].name]))
    return runs


def machine() -> str:
    """Where this runs. An interpreter that was built without profile-guided optimization costs up to a fifth more."""
    pgo = "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
    cores = len(os.sched_getaffinity(0))
    python = f"Python {platform.python_version()} {'with' if pgo else 'without'} PGO"
    return f"{platform.system()} {platform.machine()}, {cores} cores, {python}, {time.strftime('%Y-%m-%d')}"


def show(console: Console, runs: Runs, this: str, other: str, rounds: int) -> None:
    """Prints the table."""
    mine = "This tree" if os.path.abspath(this) == sys.executable else this
    table = Table(title=f"{mine} beside {other}: medians of {rounds} rounds", caption=machine())
    for column in ("case", "CPU us/event", "ratio (range)", "events/s", "ratio", "p50 ms", "ratio", "p99 ms", "ratio"):
        table.add_column(column, justify="left" if column == "case" else "right")
    for name, pairs in runs.items():
        cells: list[str] = []
        for key, digits in (("cpu_us", 1), ("events_per_s", 0), ("p50_ms", 2), ("p99_ms", 2)):
            if key not in pairs[0][0] or key not in pairs[0][1]:
                cells += ["", ""]
                continue
            mine, theirs = (statistics.median(pair[n][key] for pair in pairs) for n in (0, 1))
            ratios = [a[key] / b[key] for a, b in pairs]
            spread = f" ({min(ratios):.2f} to {max(ratios):.2f})" if key == "cpu_us" else ""
            cells += [f"{mine:,.{digits}f} / {theirs:,.{digits}f}", f"{statistics.median(ratios):.2f}{spread}"]
        table.add_row(name, *cells)
    console.print(table)


if __name__ == "__main__":
    main()
