"""What an open console costs the event's path: CPU per event of a gateway at a fixed rate, with a page open, beside a
gateway that nobody has looked at.

One gateway for each page: closed in the first half, open in the second, since some of what a page needs goes on for
minutes after it is closed. Two processes that do the same differ by up to a tenth for as long as they live, so each is
compared with itself. They take turns with the load in many short windows, beside a gateway that nobody ever looks at:
what is slower in the second half for all of them does not count.

    python tests/bench/console_cost.py --rounds 12 --seconds 2
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
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from gateway_testing import GatewayProcess
from gateway_testing.subscriber import Subscriber
from measure import load
from rich.console import Console
from rich.table import Table

CONFIG = """
brokers: {default: {ingress: [http: {listen: "127.0.0.1:0"}]}}
triggers:
  none: {broker: default, filters: [exact: {type: none}], subscriber: "%s"}
  table: {broker: default, filters: [exact: {type: none}], subscriber: {spark: {path: table, runs: submitted}}}
"""
CLOSED = "nobody looks"
PAGES = {
    CLOSED: "",
    "overview": "/console/live/overview",
    "live tap": "/console/live/tap",
    "triggers": "/console/live/triggers",
    "trigger": "/console/live/triggers/none",
    "event": "/console/live/events?id=watched&source=/bench",
    "dead letters": "/console/live/dead-letters",
    "tables": "/console/live/tables",
    "catalogue": "/console/live/catalogue",
    "other pages": "/console/live/present",
}
GOAL = "<= 1.03x"


def cpu_us(pid: int) -> float:
    """CPU microseconds of all threads of a process."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1000


class Reader:
    """Reads a stream as that many browsers would, and counts the bytes."""

    def __init__(self) -> None:
        self.read = 0

    def open(self, gateway: GatewayProcess, path: str, count: int) -> None:
        parts = urlsplit(gateway.admin_url)
        token = gateway.admin_headers["authorization"]
        ask = f"GET {path} HTTP/1.1\r\nhost: {parts.netloc}\r\nauthorization: {token}\r\n\r\n"
        for _ in range(count if path else 0):
            opened = socket.create_connection((str(parts.hostname), int(parts.port or 0)))
            opened.sendall(ask.encode())
            assert opened.recv(12) == b"HTTP/1.1 200", path
            threading.Thread(target=self._drain, args=[opened], daemon=True).start()

    def _drain(self, opened: socket.socket) -> None:
        while part := opened.recv(1 << 16):
            self.read += len(part)


@contextmanager
def gateways(pages: list[str]) -> Iterator[dict[str, tuple[GatewayProcess, Reader]]]:
    """One gateway for each page, with nothing open."""
    with ExitStack() as stack:
        remote = stack.enter_context(Subscriber(default=202))
        found = {}
        for page in pages:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            gateway = stack.enter_context(GatewayProcess(CONFIG % remote.url, folder))
            event = {"specversion": "1.0", "id": "watched", "source": "/bench", "type": "watched"}
            media = {"content-type": "application/cloudevents+json"}
            httpx.post(gateway.ingress(), content=json.dumps(event), headers=media).raise_for_status()
            found[page] = (gateway, Reader())
        yield found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rate", type=int, default=10_000, help="events per second")
    parser.add_argument("--mode", default="batch", choices=["binary", "structured", "batch"])
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--readers", type=int, default=1)
    parser.add_argument("--pages", default="", help="names of pages, by commas; default: all")
    parser.add_argument("--json", default="")
    a = parser.parse_args()
    per_s = a.rate / (a.batch if a.mode == "batch" else 1)
    names = [CLOSED, *(each for each in PAGES if each != CLOSED and each in (a.pages.split(",") if a.pages else PAGES))]
    spent: dict[str, list[float]] = {name: [] for name in names}  # the closed half, then the open one
    rates: dict[str, list[float]] = {name: [] for name in names}
    sizes: dict[str, list[float]] = {name: [] for name in names}
    with gateways(names) as found:
        for number in [-1, *range(a.rounds), -2, *range(a.rounds)]:  # those below 0 warm up
            if number == -2:
                for name, (gateway, reader) in found.items():
                    reader.open(gateway, PAGES[name], a.readers)
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                gateway, reader = found[name]
                before, read = cpu_us(gateway.pid), reader.read
                done = load(gateway.ingress(), mode=a.mode, batch=a.batch, rate=per_s, seconds=a.seconds, connections=8)
                assert done["bad"] == 0, done
                if number >= 0:
                    spent[name].append((cpu_us(gateway.pid) - before) / done["events"])
                    rates[name].append(done["events_per_s"])
                    sizes[name].append((reader.read - read) / done["seconds"] / 1000)
    table = Table("page", "closed: CPU us/event", "open", "events/s", "kB/s read", "open/closed", "goal")
    for name in names:
        cells = [f"{statistics.median(half):.2f}" for half in (spent[name][: a.rounds], spent[name][a.rounds :])]
        cells += [f"{statistics.median(rates[name]):,.0f}", f"{statistics.median(sizes[name][a.rounds :]):.1f}"]
        beside = [each / base for each, base in zip(spent[name], spent[CLOSED], strict=True)]
        cost = statistics.median(beside[a.rounds :]) / statistics.median(beside[: a.rounds])
        table.add_row(name, *cells, f"{cost:.3f}x", "" if name == CLOSED else GOAL)
    (Console() if sys.stdout.isatty() else Console(width=120)).print(table)
    if a.json:
        Path(a.json).write_text(json.dumps({"cpu_us": spent, "events_per_s": rates}, indent=1) + "\n")


if __name__ == "__main__":
    main()
