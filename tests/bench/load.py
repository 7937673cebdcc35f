"""A load generator for loopback: one thread, callbacks, varying ids. Prints one JSON line.

Closed loop (rate 0): each connection keeps one request in flight. Open loop: arrivals at a fixed rate, and latency is
counted from the intended arrival, so that a slow server can't hide its queue.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from urllib.parse import urlsplit

import uvloop

DATA = json.dumps(
    {
        "orderId": "ord-00012345",
        "customer": {"id": "cust-778812", "tier": "gold"},
        "amount": 129.95,
        "currency": "EUR",
        "items": [{"sku": "SKU-1001", "qty": 2}, {"sku": "SKU-2044", "qty": 1}],
        "placedAt": "2026-01-02T03:04:05Z",
        "note": "x" * 38,
    }
)
ID = "0123456789abcdef"


def request(url: str, mode: str, batch: int, header: str = "") -> tuple[bytes, int]:
    """The bytes of one request, every id of it being `ID`, and how many events it has."""
    parts = urlsplit(url)
    event = (
        f'{{"specversion":"1.0","id":"{ID}","source":"/bench","type":"com.example.order","partitionkey":"k-001",'
        f'"datacontenttype":"application/json","data":{DATA}}}'
    )
    head = f"POST {parts.path or '/'} HTTP/1.1\r\nhost: {parts.netloc}\r\n" + (f"{header}\r\n" if header else "")
    if mode == "binary":
        body, kind = DATA, "application/json"
        head += f"ce-specversion: 1.0\r\nce-id: {ID}\r\nce-source: /bench\r\nce-type: com.example.order\r\n"
        head += "ce-partitionkey: k-001\r\n"
    elif mode == "structured":
        body, kind = event, "application/cloudevents+json"
    else:
        body, kind = "[" + ",".join([event] * batch) + "]", "application/cloudevents-batch+json"
    head += f"content-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return (head + body).encode(), batch if mode == "batch" else 1


class Load:
    """One run; `connections` protocols share its counts."""

    def __init__(self, url: str, mode: str, batch: int, limit: int, header: str = "") -> None:
        template, self.events_each = request(url, mode, batch, header)
        self.parts = template.split(ID.encode())
        self.limit = limit
        self.sent = self.ok = self.bad = 0
        self.latencies: list[float] = []
        self.idle: list[Connection] = []
        self.due: list[float] = []
        self.open_loop = False
        self.end = 0.0

    def next_request(self) -> bytes:
        self.sent += 1
        return (b"%016x" % self.sent).join(self.parts)

    def more(self) -> bool:
        return time.perf_counter() < self.end and (not self.limit or self.sent < self.limit)


class Connection(asyncio.Protocol):
    def __init__(self, load: Load) -> None:
        self.load = load
        self.began = 0.0
        self.busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]

    def fire(self, began: float) -> None:
        self.began = began
        self.busy = True
        self.transport.write(self.load.next_request())

    def data_received(self, data: bytes) -> None:
        # the answers are short: they come whole
        load = self.load
        now = time.perf_counter()
        load.latencies.append(now - self.began)
        if data[9:10] == b"2":
            load.ok += 1
        else:
            load.bad += 1
        self.busy = False
        if load.open_loop:
            if load.due:
                self.fire(load.due.pop(0))
            else:
                load.idle.append(self)
        elif load.more():
            self.fire(now)


async def run(
    url: str, mode: str, rate: float, seconds: float, connections: int, batch: int, limit: int, header: str = ""
) -> dict[str, object]:
    loop = asyncio.get_running_loop()
    load = Load(url, mode, batch, limit, header)
    parts = urlsplit(url)
    assert parts.hostname == "127.0.0.1", "loopback only"
    links = [
        (await loop.create_connection(lambda: Connection(load), parts.hostname, parts.port))[1]
        for _ in range(connections)
    ]
    began = time.perf_counter()
    load.end = began + min(seconds, 120)
    load.open_loop = rate > 0
    if rate > 0:
        load.idle = list(links)
        arrivals = 0
        while load.more():
            due = began + arrivals / rate
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            arrivals += 1
            if load.idle:
                load.idle.pop().fire(due)
            else:
                load.due.append(due)
    else:
        for link in links:
            link.fire(time.perf_counter())
        while load.more():  # noqa: ASYNC110 - an event would cost the connections something
            await asyncio.sleep(0.02)
    took = time.perf_counter() - began
    done = load.ok
    for _ in range(300):
        if not any(link.busy for link in links):
            break
        await asyncio.sleep(0.01)
    ordered = sorted(load.latencies) or [0.0]
    return {
        "events": load.ok * load.events_each,
        "bad": load.bad,
        "seconds": took,
        "events_per_s": done * load.events_each / took,
        "p50_ms": ordered[len(ordered) // 2] * 1e3,
        "p99_ms": ordered[int(len(ordered) * 0.99)] * 1e3,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--mode", default="binary", choices=["binary", "structured", "batch"])
    parser.add_argument("--rate", type=float, default=0)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--limit", type=int, default=0, help="requests at the most; 0: as many as the time allows")
    parser.add_argument("--header", default="", help="a header field of each request, NAME: VALUE")
    a = parser.parse_args()
    print(json.dumps(uvloop.run(run(a.url, a.mode, a.rate, a.seconds, a.connections, a.batch, a.limit, a.header))))


if __name__ == "__main__":
    main()
