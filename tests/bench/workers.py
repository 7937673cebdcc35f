"""What more workers bring: events a second, CPU per event and memory of a gateway with 1, 2, 4 and 8 workers.

    python tests/bench/workers.py --share 0.1            # each worker gets a tenth of a core: a model of more cores
    python tests/bench/workers.py --share 0 --workers 1 2

More workers than cores say nothing, unless each gets a fixed share of a core. So every worker gets a CPU quota
(cgroups; needs root on Linux), small enough that the load generator, the broker and all workers together leave a core
idle. The rate should then grow like the number of workers, and CPU per event should stay what it is with one: what the
workers share would show. It can't show what real cores share: caches and memory bandwidth.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from gateway_java.kafka import KafkaBroker
from gateway_testing import GatewayProcess
from measure import children, cpu_s, load, measured, memory_mb
from rich.console import Console
from rich.table import Table
from sides import INTO_KAFKA, INTO_LOG

GROUPS = Path("/sys/fs/cgroup/cpu")
PERIOD_US = 20_000
WARM_S = 2.0


@contextmanager
def quota(name: str, share: float, pid: int) -> Iterator[None]:
    """Gives a process this share of a core, until it has ended."""
    group = GROUPS / name
    group.mkdir()
    try:
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(round(PERIOD_US * share)))
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for _ in range(100):
            if not (group / "cgroup.procs").read_text():
                break
            time.sleep(0.1)
        group.rmdir()


def run(workers: int, share: float, config: str, options: dict[str, Any]) -> dict[str, Any]:
    """One run of a gateway."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as quotas:
        with socket.create_server(("127.0.0.1", 0)) as free:
            config = config.replace("127.0.0.1:0", f"127.0.0.1:{free.getsockname()[1]}")
        with GatewayProcess(config, Path(folder), None, "--workers", str(workers)) as gateway:
            gateway.wait_until(lambda: len(gateway.status()["processes"]) == workers)
            pids = children(gateway.pid) if workers > 1 else [gateway.pid]
            if share:
                for n, pid in enumerate(pids):
                    quotas.enter_context(quota(f"tidegate-{os.getpid()}-{n}", share, pid))
            url = gateway.ingress("default" if "brokers" in config else "b")
            load(url, **{**options, "seconds": WARM_S})
            before = [cpu_s(pid) for pid in pids]
            result = measured(gateway.pid, url, **options)
            spent = [cpu_s(pid) - b for pid, b in zip(pids, before, strict=True)]
            result["balance"] = min(spent) / max(spent)
            result["memory_mb"] = sum(memory_mb(pid) for pid in {gateway.pid, *pids})
            return result


def _table(found: dict[tuple[str, int], list[dict[str, Any]]], fewest: int) -> Table:
    """Medians, and their ratios to those of the fewest workers."""
    table = Table("", "workers", "events/s", "ratio", "CPU us/event", "ratio", "least busy / busiest", "MB")

    def middle(case: str, workers: int, key: str) -> float:
        return statistics.median(result[key] for result in found[case, workers])

    for case, workers in found:
        rate, cpu_us = middle(case, workers, "events_per_s"), middle(case, workers, "cpu_us")
        table.add_row(
            *(case, str(workers), f"{rate:,.0f}", f"{rate / middle(case, fewest, 'events_per_s'):.2f}"),
            *(f"{cpu_us:.1f}", f"{cpu_us / middle(case, fewest, 'cpu_us'):.2f}"),
            *(f"{middle(case, workers, 'balance'):.2f}", f"{middle(case, workers, 'memory_mb'):.0f}"),
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--share", type=float, default=0.1, help="of a core, for each worker; 0: no quota")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=32, help="for each worker: fewer make smaller groups")
    args = parser.parse_args()
    if args.share and not os.access(GROUPS, os.W_OK):
        raise SystemExit(f"No CPU quotas can be set in {GROUPS}; --share 0 measures without them.")
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        broker = KafkaBroker(Path(folder) / "broker", properties={"num.partitions": "16"})
        broker.start()
        try:
            cases = {"HTTP to log": INTO_LOG, "HTTP to Kafka": INTO_KAFKA % (broker.bootstrap, "into")}
            for _ in range(args.rounds):
                for name, config in cases.items():
                    for workers in args.workers:
                        options = {"seconds": args.seconds, "mode": "binary", "connections": args.connections * workers}
                        found.setdefault((name, workers), []).append(run(workers, args.share, config, options))
        finally:
            broker.stop()
    Console(width=130).print(_table(found, args.workers[0]))


if __name__ == "__main__":
    main()
