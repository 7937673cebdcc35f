"""What a replay costs live deliveries of the same trigger: the time from sending an event until its subscriber has it.

    .venv/bin/python tests/bench/replay_live.py --rounds 3

Events come at a fixed rate, beside no replay, one with a limited rate, and one without (the default). The cases are
interleaved; medians of the rounds are shown, in milliseconds, and the median of their ratios to "no replay" of the same
round. Sender and subscriber are this process, the gateway is another one. Nothing here asserts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httptools
import httpx
import uvloop
from gateway_testing import GatewayProcess

ACCEPTED = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
CONFIG = """
brokers: {{default: {{ingress: [http: {{listen: "127.0.0.1:0"}}], channel: log}}}}
triggers: {{t: {{subscriber: "{url}"}}}}
"""
CASES: dict[str, float | None] = {"no replay": None, "--rate 500": 500, "no limit": 0}
CONNECTIONS = 8
BATCH = 500


class Sink(asyncio.Protocol):
    """Takes all; of events that say when they were sent, it notes how long that took."""

    latencies: list[float] = []
    others = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_message_begin(self) -> None:
        self.sent = b""

    def on_header(self, name: bytes, value: bytes) -> None:
        if name == b"ce-sent":
            self.sent = value

    def on_message_complete(self) -> None:
        if self.sent:
            Sink.latencies.append(time.perf_counter() - float(self.sent))
        else:
            Sink.others += 1
        self.transport.write(ACCEPTED)


async def live(url: str, rate: float, seconds: float) -> None:
    """Sends events at this rate, whatever becomes of those before."""
    host, _, port = url.removeprefix("http://").rstrip("/").partition(":")
    idle: asyncio.Queue[Any] = asyncio.Queue()
    opened = [await asyncio.open_connection(host, int(port.partition("/")[0])) for _ in range(CONNECTIONS)]
    for connection in opened:
        idle.put_nowait(connection)
    tasks = set()

    async def send(number: int, due: float) -> None:
        reader, writer = connection = await idle.get()
        head = f"POST / HTTP/1.1\r\nhost: {host}\r\nce-specversion: 1.0\r\nce-id: live-{number}\r\nce-source: /s\r\n"
        writer.write(f"{head}ce-type: t\r\nce-sent: {due}\r\ncontent-length: 2\r\n\r\n{{}}".encode())
        try:
            answer = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as e:
            answer = e.partial
        if not answer.startswith(b"HTTP/1.1 202"):
            raise SystemExit(answer.decode())
        idle.put_nowait(connection)

    begin = time.perf_counter()
    for number in range(int(rate * seconds)):
        due = begin + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        task = asyncio.create_task(send(number, due))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    for _, writer in opened:
        writer.close()


async def past(client: httpx.AsyncClient, url: str, count: int) -> None:
    """Stores events to replay."""
    headers = {"content-type": "application/cloudevents-batch+json"}
    for first in range(0, count, BATCH):
        batch = [
            {"specversion": "1.0", "id": f"{n}", "source": "/s", "type": "t", "data": {"n": n}}
            for n in range(first, first + BATCH)
        ]
        (await client.post(url, content=json.dumps(batch), headers=headers)).raise_for_status()
    while Sink.others < count:  # noqa: ASYNC110
        await asyncio.sleep(0.05)


async def measured(
    gateway: GatewayProcess, client: httpx.AsyncClient, rate: float | None, until: str, a: argparse.Namespace
) -> dict[str, float]:
    Sink.latencies, Sink.others, job = [], 0, ""
    began = time.perf_counter()
    jobs = f"{gateway.admin_url}/api/v1/event-replays"
    if rate is not None:
        asked = {"trigger": "t", "from": "1h", "to": until, "rate": rate}
        answer = await client.post(jobs, json=asked, headers=gateway.admin_headers)
        job = answer.raise_for_status().json()["id"]
        while not Sink.others:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        began, Sink.others = time.perf_counter(), 0
    await live(gateway.ingress(), a.rate, a.seconds)
    replayed = Sink.others / (time.perf_counter() - began)
    if job:
        await client.post(f"{jobs}/{job}/cancel", headers=gateway.admin_headers)
        while True:
            shown = await client.get(f"{jobs}/{job}", headers=gateway.admin_headers)
            if shown.json()["ended"] is not None:
                break
            await asyncio.sleep(0.05)
    while len(Sink.latencies) < int(a.rate * a.seconds):  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    found = sorted(Sink.latencies)
    return {"p50": found[len(found) // 2] * 1e3, "p99": found[len(found) * 99 // 100] * 1e3, "replayed/s": replayed}


async def run(a: argparse.Namespace) -> None:
    server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    found: dict[str, list[dict[str, float]]] = {case: [] for case in CASES}
    with tempfile.TemporaryDirectory() as folder, GatewayProcess(CONFIG.format(url=url), Path(folder)) as gateway:
        async with httpx.AsyncClient(verify=False, timeout=60) as client:
            await past(client, gateway.ingress(), a.past)
            until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            await live(gateway.ingress(), a.rate, 1.0)
            for _ in range(a.rounds):
                for case, rate in CASES.items():
                    found[case].append(await measured(gateway, client, rate, until, a))
    print(f"{a.rate:g} live events per second, {a.seconds:g} s each, {a.rounds} rounds")
    for case, rounds in found.items():
        p99 = statistics.median(a["p99"] / b["p99"] for a, b in zip(rounds, found["no replay"], strict=True))
        middle = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
        print(
            f"{case:12}", *(f"{name} {value:.2f}" for name, value in middle.items()), f"p99 ratio {p99:.2f}", sep="  "
        )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rate", type=float, default=200.0, help="live events per second")
    parser.add_argument("--past", type=int, default=40_000, help="events to replay")
    uvloop.run(run(parser.parse_args(arguments)))


if __name__ == "__main__":
    main()
