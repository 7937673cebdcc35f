"""What a console costs the event's path: CPU per event of a gateway at a fixed rate, while nobody looks, while somebody
looks at the overview, and while somebody watches the live page.

One gateway, loaded over HTTP at `--rate` in rounds that take turns, so that other work on the machine meets all cases.
Of each case the median counts; the other ratio is the median of those of each round.

    python tests/bench/console_cost.py --rounds 9 --seconds 4
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from gateway_testing import GatewayProcess
from gateway_testing.subscriber import Subscriber
from measure import load
from rich.console import Console
from rich.table import Table

CONFIG = """
brokers: {default: {ingress: [http: {listen: "127.0.0.1:0"}]}}
triggers:
  none: {broker: default, filters: [exact: {type: none}], subscriber: "%s"}
"""
CASES = {"closed": "", "overview": "/console/live/overview", "live tap": "/console/live/tap"}
GOALS = {"overview": "<= 1.03x", "live tap": "<= 1.03x"}


def cpu_us(pid: int) -> float:
    """CPU microseconds of all threads of a process."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1000


@contextmanager
def reader(gateway: GatewayProcess, path: str, count: int) -> Iterator[list[int]]:
    """Reads a stream as that many browsers would, and counts the bytes."""
    read = [0]
    if not path:
        yield read
        return
    parts = urlsplit(gateway.admin_url)
    token = gateway.admin_headers["authorization"]
    ask = f"GET {path} HTTP/1.1\r\nhost: {parts.netloc}\r\nauthorization: {token}\r\n\r\n"
    sockets = [socket.create_connection((str(parts.hostname), int(parts.port or 0))) for _ in range(count)]

    def drain(each: socket.socket) -> None:
        while part := each.recv(1 << 16):
            read[0] += len(part)

    for each in sockets:
        each.sendall(ask.encode())
        assert each.recv(12) == b"HTTP/1.1 200", path
    threads = [threading.Thread(target=drain, args=[each], daemon=True) for each in sockets]
    for thread in threads:
        thread.start()
    try:
        yield read
    finally:
        for each in sockets:
            each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in threads:
            thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rate", type=int, default=10_000, help="events per second")
    parser.add_argument("--mode", default="batch", choices=["binary", "structured", "batch"])
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--readers", type=int, default=1)
    parser.add_argument("--json", default="")
    a = parser.parse_args()
    per_s = a.rate / (a.batch if a.mode == "batch" else 1)
    spent: dict[str, list[float]] = {name: [] for name in CASES}
    rates: dict[str, list[float]] = {name: [] for name in CASES}
    sizes: dict[str, list[float]] = {name: [] for name in CASES}
    with (
        tempfile.TemporaryDirectory() as scratch,
        Subscriber(default=202) as remote,
        GatewayProcess(CONFIG % remote.url, Path(scratch)) as gateway,
    ):
        load(gateway.ingress(), mode=a.mode, batch=a.batch, rate=per_s, seconds=2, connections=16)
        names = list(CASES)
        for number in range(a.rounds):
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                with reader(gateway, CASES[name], a.readers) as read:
                    before = cpu_us(gateway.pid)
                    done = load(
                        gateway.ingress(), mode=a.mode, batch=a.batch, rate=per_s, seconds=a.seconds, connections=16
                    )
                    assert done["bad"] == 0, done
                    spent[name].append((cpu_us(gateway.pid) - before) / done["events"])
                rates[name].append(done["events_per_s"])
                sizes[name].append(read[0] / done["seconds"] / 1000)
    table = Table("page", "CPU us/event", "events/s", "kB/s read", "beside closed", "round by round", "goal")
    closed = statistics.median(spent["closed"])
    for name in CASES:
        paired = statistics.median(each / base for each, base in zip(spent[name], spent["closed"], strict=True))
        median = statistics.median(spent[name])
        cells = [f"{median:.2f}", f"{statistics.median(rates[name]):,.0f}", f"{statistics.median(sizes[name]):.1f}"]
        table.add_row(name, *cells, f"{median / closed:.3f}x", f"{paired:.3f}x", GOALS.get(name, ""))
    (Console() if sys.stdout.isatty() else Console(width=120)).print(table)
    if a.json:
        Path(a.json).write_text(json.dumps({"cpu_us": spent, "events_per_s": rates}, indent=1) + "\n")


if __name__ == "__main__":
    main()
