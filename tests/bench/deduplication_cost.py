"""What `deduplicate` costs the event's path: CPU per event of HTTP -> log, with and without it, in turns.

Two gateways without triggers, alike but for `deduplicate`. Each window sends new events to one of them, as single
requests or in batches, over several connections.

    python tests/bench/deduplication_cost.py --rounds 12 --events 3000 --batch 1

`--workers 2` has two workers in each gateway, and counts the CPU of all its processes.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import tempfile
import threading
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from console_cost import cpu_us
from gateway_testing import GatewayProcess

CONFIG = """
brokers: {default: {ingress: [http: {listen: "127.0.0.1:%d"}]%s}}
"""
SIDES = {"without": "", "with": ", deduplicate: {window: 7d}"}
ATTRIBUTES = {
    "specversion": "1.0",
    "source": "/shop/orders",
    "type": "com.example.order.placed",
    "time": "2026-01-31T08:00:00.123456Z",
    "subject": "customer/4711",
}
DATA = {"order": 17, "lines": [{"sku": "a-1", "count": 2}] * 4}


def used_us(gateway: GatewayProcess) -> float:
    """CPU microseconds of all processes of a gateway."""
    children = Path(f"/proc/{gateway.pid}/task/{gateway.pid}/children").read_text().split()
    return sum(cpu_us(pid) for pid in (gateway.pid, *map(int, children)))


def _port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def _send(url: str, bodies: list[bytes], media: str) -> None:
    to = urlsplit(url)
    connection = HTTPConnection(str(to.hostname), to.port)
    for body in bodies:
        connection.request("POST", to.path, body, {"content-type": media})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 202
    connection.close()


def send_all(url: str, first: int, count: int, batch: int, connections: int) -> None:
    """Sends new events, whose ids begin with the number `first`."""
    events = [{**ATTRIBUTES, "id": f"{n:09d}", "data": DATA} for n in range(first, first + count)]
    media = "application/cloudevents-batch+json" if batch > 1 else "application/cloudevents+json"
    parts = [events[n : n + batch] for n in range(0, count, batch)]
    bodies = [json.dumps(part if batch > 1 else part[0]).encode() for part in parts]
    senders = [threading.Thread(target=_send, args=(url, bodies[n::connections], media)) for n in range(connections)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()


def window(gateway: GatewayProcess, first: int, count: int, batch: int, connections: int) -> float:
    """CPU microseconds for each of `count` events."""
    before = used_us(gateway)
    send_all(gateway.ingress(), first, count, batch, connections)
    return (used_us(gateway) - before) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--events", type=int, default=3000)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--batch", type=int, action="append", help="events in a request; default: 1, then 100")
    parser.add_argument("--workers", type=int, default=1)
    a = parser.parse_args()
    with ExitStack() as stack:
        found = {
            side: stack.enter_context(
                GatewayProcess(
                    CONFIG % (_port(), more),
                    Path(stack.enter_context(tempfile.TemporaryDirectory())),
                    None,
                    "--workers",
                    str(a.workers),
                )
            )
            for side, more in SIDES.items()
        }
        number = 0
        for batch in a.batch or (1, 100):
            spent: dict[str, list[float]] = {side: [] for side in SIDES}
            for turn in range(-1, a.rounds):
                for side in list(SIDES)[:: 1 if turn % 2 else -1]:
                    count = a.events * (1 if batch == 1 else 4)
                    used = window(found[side], number, count, batch, a.connections)
                    number += count
                    if turn >= 0:
                        spent[side].append(used)
            without, with_ = (statistics.median(spent[side]) for side in ("without", "with"))
            what = "single" if batch == 1 else f"batches of {batch}"
            print(f"{what}: {without:.2f} us without, {with_:.2f} us with: {with_ / without:.3f}x")


if __name__ == "__main__":
    main()
