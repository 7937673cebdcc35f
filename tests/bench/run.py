"""`make bench`: one table of what an event costs, beside the targets; the JSON goes to `bench.json`.

CPU figures are user and system time of the gateway's process per event: they hold better than rates on a noisy
machine. All cases are interleaved in rounds, and medians are shown. Nothing here asserts; `--quick` is for a look.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import kafka
import spark_paths
from gateway_log.routing import Router
from gateway_testing import GatewayProcess
from measure import HERE, bare_server, cpu_s, measured
from rich.console import Console
from rich.table import Table

from gateway_core.contract.event import Event
from gateway_core.contract.filters import attributes_filter

INGRESS = 'brokers: {default: {ingress: [http: {listen: "127.0.0.1:0"}]}}\n'

READ = "log to parquet, one Spark job"
TARGETS = {
    "ingress to log, binary": "<= 25 us, >= 25k/s",
    "ingress to log, structured": "<= 1.1x binary",
    "ingress to log, batch of 100": "<= 8 us",
    "ingress to log, 1,000/s": "p50 <= 0.5 ms, p99 <= 1.0 ms",
    "ingress to log to HTTP subscriber": "<= 63 us (0.5x Redpanda Connect)",
    "routing, 10,000 triggers": "<= 2x that of 10",
    READ: ">= 160k rows/s",
    **kafka.TARGETS,
    **spark_paths.TARGETS,
}


class Gateway:
    """A gateway under load, and the URL that is loaded."""

    def __init__(self, folder: Path, config: str) -> None:
        folder.mkdir()
        self.process = GatewayProcess(config, folder)
        self.process.start()
        self.url = self.process.ingress()

    def run(self, **options: Any) -> dict[str, Any]:
        return measured(self.process.pid, self.url, **options)

    def close(self) -> None:
        self.process.stop()


def delivery(gateway: Gateway, sink_url: str, seconds: float) -> dict[str, Any]:
    """Closed-loop load, then the wait until the subscriber has it all; CPU over both."""
    before, cpu, began = int(httpx.get(sink_url, verify=False).text), cpu_s(gateway.process.pid), time.perf_counter()
    result = gateway.run(mode="binary", seconds=seconds)
    while (arrived := int(httpx.get(sink_url, verify=False).text) - before) < result[
        "events"
    ] and time.perf_counter() - began < 120:
        time.sleep(0.02)
    took = time.perf_counter() - began
    spent = cpu_s(gateway.process.pid) - cpu
    return {**result, "events": arrived, "cpu_us": spent * 1e6 / max(arrived, 1), "events_per_s": arrived / took}


def routing(triggers: int) -> dict[str, Any]:
    """CPU per event of the router alone: each event matches one trigger of many."""
    router: Router[int] = Router()
    for n in range(triggers):
        router.add(str(n), attributes_filter({"type": f"com.example.kind{n}", "tenant": "a"}), n)
    events = [
        Event(
            {
                "specversion": "1.0",
                "id": "1",
                "source": "/b",
                "tenant": "a",
                "type": f"com.example.kind{n * 7919 % triggers}",
            }
        )
        for n in range(1000)
    ]
    rounds = 100
    began = time.process_time()
    for _ in range(rounds):
        for event in events:
            router.route(event)
    spent = time.process_time() - began
    count = rounds * len(events)
    return {"events": count, "cpu_us": spent * 1e6 / count, "events_per_s": count / spent}


def script(name: str, *arguments: object) -> dict[str, Any]:
    """What a script of this folder prints as its last line."""
    command = [sys.executable, str(HERE / name), *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=3600, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def median(runs: list[dict[str, Any]]) -> dict[str, Any]:
    keys = [k for k, v in runs[0].items() if isinstance(v, int | float)]
    return {k: statistics.median(r[k] for r in runs) for k in keys}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--quick", action="store_true", help="one short round, and no Spark")
    parser.add_argument("--spark-rows", type=int, default=1_000_000)
    parser.add_argument("--json", default="bench.json")
    parser.add_argument("--only", default="", help="only cases whose name holds this text")
    a = parser.parse_args()
    if a.quick:
        a.rounds, a.seconds, a.spark_rows = 1, 2, 0
    console = Console() if sys.stdout.isatty() else Console(width=150)
    with bare_server() as sink, bare_server() as floor, tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        to_log = Gateway(folder / "log", INGRESS)
        to_http = Gateway(folder / "http", INGRESS + f"triggers: {{all: {{subscriber: '{sink.url}'}}}}\n")
        cases: dict[str, Callable[[], dict[str, Any]]] = {
            "bare server on the same stack": lambda: measured(floor.pid, floor.url, seconds=a.seconds),
            "ingress to log, binary": lambda: to_log.run(mode="binary", seconds=a.seconds),
            "ingress to log, structured": lambda: to_log.run(mode="structured", seconds=a.seconds),
            "ingress to log, batch of 100": lambda: to_log.run(mode="batch", seconds=a.seconds),
            "ingress to log, 1,000/s": lambda: to_log.run(mode="binary", rate=1000, seconds=a.seconds),
            "ingress to log to HTTP subscriber": lambda: delivery(to_http, sink.url, a.seconds),
            **{f"routing, {n:,} triggers": (lambda n=n: routing(n)) for n in (1, 10, 100, 10_000)},
        }
        with_kafka = kafka.Kafka(folder / "kafka", a.seconds, sink.url)
        cases |= with_kafka.cases()
        cases = {name: case for name, case in cases.items() if a.only in name}
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in cases}
        try:
            for number in range(a.rounds):
                for name, case in cases.items():
                    console.print(f"[dim]round {number + 1}/{a.rounds}: {name}[/dim]", highlight=False)
                    runs[name].append(case())
            if a.spark_rows and a.only in READ:
                runs[READ] = [script("spark_table.py", a.spark_rows, folder / "spark")]
            if a.spark_rows and any(a.only in name for name in spark_paths.TARGETS):
                runs |= script("spark_paths.py", a.spark_rows, a.rounds, folder / "paths")
        finally:
            to_log.close()
            to_http.close()
            with_kafka.close()
    results = {name: median(r) for name, r in runs.items()}
    show(console, results)
    Path(a.json).write_text(json.dumps({"results": results, "runs": runs}, indent=1))


def show(console: Console, results: dict[str, dict[str, Any]]) -> None:
    table = Table(title="Tidegate: cost of an event (medians)")
    for column in ("case", "CPU us/event", "events/s", "p50 ms", "p99 ms", "memory MB"):
        table.add_column(column, justify="left" if column == "case" else "right")
    table.add_column("target")
    for name, r in results.items():
        cells = [
            f"{r[k]:,.{d}f}" if k in r else ""
            for k, d in (("cpu_us", 2), ("events_per_s", 0), ("p50_ms", 2), ("p99_ms", 2), ("memory_mb", 0))
        ]
        table.add_row(name, *cells, TARGETS.get(name, ""))
    console.print(table)


if __name__ == "__main__":
    main()
