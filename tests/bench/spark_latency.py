"""From an event's 2xx until it can be read in its Spark table, and the CPU of a query that has nothing to do.

    python tests/bench/spark_latency.py [--format delta] [--rate 50] [--seconds 30] [--interval 0.5]

One JSON line. An event can be read once the table's own log (`_spark_metadata`, `_delta_log`) has a commit with its
file; the moment is when a look at that folder, every 2 ms, first finds the commit: later than the truth, never earlier.
Spark is warm: events of the first seconds (`--warm`) do not count."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq
from gateway_testing.process import GatewayProcess
from measure import cpu_s

LOOK_S = 0.002
CONFIG = """
brokers: {{default: {{ingress: [http: {{listen: "127.0.0.1:0"}}]}}}}
triggers: {{table: {{subscriber: {{spark: {{path: {path}, format: {format}{more}}}}}}}}}
"""


class Watcher(threading.Thread):
    """Notes when each commit of a table is first seen."""

    def __init__(self, log: Path) -> None:
        super().__init__(daemon=True)
        self.seen: dict[Path, float] = {}
        self._log = log

    def run(self) -> None:
        while True:
            try:
                now = [p for p in self._log.iterdir() if p.name[0].isdigit() and p.suffix in ("", ".json", ".compact")]
            except FileNotFoundError:
                now = []
            at = time.time()
            for path in now:
                self.seen.setdefault(path, at)
            time.sleep(LOOK_S)


def files_of(commit: Path, table: Path) -> list[Path]:
    """The data files that a commit has added."""
    found = []
    for line in commit.read_text().splitlines():
        if not line.startswith("{"):
            continue
        entry = json.loads(line)
        if "add" in entry:
            found.append(table / unquote(entry["add"]["path"]))
        elif "action" in entry:
            found.append(Path(unquote(urlsplit(entry["path"]).path)))
    return found


def send(url: str, rate: float, seconds: float) -> dict[str, float]:
    """Sends one event at a time; gives when each had its 2xx."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
    accepted = {}
    began = time.time()
    for number in range(int(rate * seconds)):
        time.sleep(max(0.0, began + number / rate - time.time()))
        headers = {"ce-specversion": "1.0", "ce-id": str(number), "ce-source": "/bench", "ce-type": "o"}
        connection.request("POST", "/", b'{"n": 1}', {**headers, "content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 202
        accepted[str(number)] = time.time()
    return accepted


def processes(gateway: GatewayProcess) -> dict[str, int]:
    lock = gateway.data_dir / "spark/table/checkpoint.lock"
    holders = json.loads(lock.read_text())
    return {"driver": holders["driver"][0], "jvm": holders["jvm"][0]}


def idle(gateway: GatewayProcess, seconds: float) -> dict[str, float]:
    """CPU seconds per second of each process, of one that has nothing to do."""
    parts = processes(gateway)

    def look() -> dict[str, float]:
        whole, driver, jvm = cpu_s(gateway.pid), cpu_s(parts["driver"]), cpu_s(parts["jvm"])
        alone = sum(os_times(parts["jvm"]))
        return {"gateway": whole - driver, "driver": driver - jvm, "jvm": alone, "workers": jvm - alone}

    before, began = look(), time.monotonic()
    time.sleep(seconds)
    after, took = look(), time.monotonic() - began
    return {name: round((after[name] - before[name]) / took, 4) for name in after}


def os_times(pid: int) -> list[float]:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [int(f) / os.sysconf("SC_CLK_TCK") for f in fields[11:13]]


def measure(a: argparse.Namespace, folder: Path) -> dict[str, Any]:
    table = folder / "table"
    more = "" if a.interval is None else f", trigger_interval_s: {a.interval}"
    if a.conf:
        more += f", conf: {json.dumps(dict(c.split('=', 1) for c in a.conf))}"
    with GatewayProcess(CONFIG.format(path=table, format=a.format, more=more), folder) as gateway:
        gateway.wait_until(lambda: gateway.trigger("table")["ready"], 120, "Spark")
        watcher = Watcher(table / {"parquet": "_spark_metadata", "delta": "_delta_log"}[a.format])
        watcher.start()
        load = os.getloadavg()[0]
        accepted = send(gateway.ingress(), a.rate, a.warm + a.seconds)
        gateway.wait_until(lambda: gateway.trigger("table")["lag"] == 0, 120, "the table")
        reader = gateway.trigger("table")["reader"]
        result = {"load": [load, os.getloadavg()[0]], "batch_s": reader["batch_s"], "parts": reader["parts"]}
        result["idle_cpu"] = idle(gateway, a.idle) if a.idle else None
        gateway.stop()
    waits = []
    first = min(accepted.values()) + a.warm
    known: set[Path] = set()
    for commit, at in sorted(watcher.seen.items(), key=lambda item: item[1]):
        new = [file for file in files_of(commit, table) if file not in known]  # a compact one has those before it too
        known.update(new)
        for file in new:
            ids = pq.ParquetFile(file).read(columns=["id"]).column("id").to_pylist()
            waits += [at - accepted[id] for id in ids if accepted[id] >= first]
    waits.sort()
    p50, p99 = (round(waits[int(len(waits) * q)], 3) for q in (0.5, 0.99))
    return {
        "format": a.format,
        "events": len(waits),
        "p50_s": p50,
        "p99_s": p99,
        "max_s": round(waits[-1], 3),
        **result,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--format", default="parquet")
    parser.add_argument("--rate", type=float, default=50)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--warm", type=float, default=15)
    parser.add_argument("--interval", type=float)
    parser.add_argument("--idle", type=float, default=20)
    parser.add_argument("--conf", action="append", default=[])
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(a, Path(folder))), flush=True)


if __name__ == "__main__":
    main()
