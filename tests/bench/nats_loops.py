"""What an event costs in the NATS source, sink and channel, beside loops written by hand with the same client library.

All cases run in this process, on uvloop like a gateway, and are interleaved in rounds; medians are shown. A case's
figure is the CPU time of this process (the server has its own) per event. The intake and the subscription answer at
once: what a gateway does besides (storage, routing, delivery) is not in it.

    python tests/bench/nats_loops.py --rounds 5 --events 20000
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote
from uuid import uuid4

import anyio
import nats
import uvloop
from gateway_dev import servers
from gateway_testing.suites import Kit
from nats.js import JetStreamContext
from rich.console import Console
from rich.table import Table

from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome
from gateway_core.pipeline.filters import match_all

DATA = json.dumps({"order": 17, "lines": [{"sku": "a-1", "count": 2}] * 4}).encode()
ATTRIBUTES = {
    "specversion": "1.0",
    "source": "/shop/orders",
    "type": "com.example.order.placed",
    "time": "2026-01-31T08:00:00.123456Z",
    "subject": "customer/4711",
    "datacontenttype": "application/json",
}
IN_FLIGHT = 2000
FETCHED = 500
GOAL = "<= 1.5x the loop"


def event(n: int) -> Event:
    return Event({**ATTRIBUTES, "id": f"{n:08d}"}, DATA)


# -- loops written by hand ---------------------------------------------------------------------------------------------


def message(one: Event, mode: str) -> tuple[dict[str, str], bytes]:
    attributes = one.attributes
    if mode == "binary":
        headers = {f"ce-{name}": quote(value, safe="/:;=,+.-_") for name, value in attributes.items()}
        headers["Nats-Msg-Id"] = f"{attributes['source']} {attributes['id']}"
        return headers, one.data or b""
    body = {**attributes, "data": json.loads(one.data or b"null")}
    headers = {
        "Content-Type": "application/cloudevents+json",
        "Nats-Msg-Id": f"{attributes['source']} {attributes['id']}",
    }
    return headers, json.dumps(body).encode()


async def publish(js: JetStreamContext, subject: str, events: Sequence[Event], mode: str) -> None:
    """Pipelined, as nats-py has it."""
    waiting: list[asyncio.Future[Any]] = []
    for one in events:
        headers, data = message(one, mode)
        waiting.append(await js.publish_async(subject, data, headers=headers))
        if len(waiting) == IN_FLIGHT:
            await asyncio.gather(*waiting)
            waiting.clear()
    await asyncio.gather(*waiting)


async def read(js: JetStreamContext, name: str, count: int) -> None:
    """Fetches, decodes and acknowledges."""
    subscription = await js.pull_subscribe(f"{name}.in", f"loop-{uuid4().hex}", stream=name)
    seen = 0
    while seen < count:
        for msg in await subscription.fetch(FETCHED, timeout=30):
            headers = msg.headers or {}
            attributes: dict[str, Any]
            if "ce-specversion" in headers:
                attributes = {key[3:]: unquote(value) for key, value in headers.items() if key.startswith("ce-")}
                found = attributes, msg.data
            else:
                attributes = json.loads(msg.data)
                found = attributes, json.dumps(attributes.pop("data")).encode()
            assert found[0]["id"]
            await msg.ack()
            seen += 1
    await js._nc.flush()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - costs less than an event for each answer
        await asyncio.sleep(0.002)


# -- the plugin's components -------------------------------------------------------------------------------------------


class Counting:
    """An intake, and a subscription, that takes everything at once."""

    stores = True

    def __init__(self) -> None:
        self.count = 0
        self.feed: Any = None

    def accept(self, events: Sequence[Event], done: Callable[[BaseException | None], None]) -> None:
        self.count += len(events)
        done(None)

    def withdraw(self, partition: int) -> Sequence[int]:
        return ()

    def offer(self, one: Event) -> bool:
        self.count += 1
        self.feed.ack(one.position)
        return True

    async def until(self, count: int) -> None:
        await until(lambda: self.count >= count)


async def source(kit: Kit, url: str, name: str, count: int) -> Callable[[], Coroutine[Any, Any, None]]:
    options = {"servers": url, "stream": name, "subject": f"{name}.in", "consumer": f"s-{uuid4().hex}"}
    built, intake = kit.source("nats", {**options, "start": "earliest"}), Counting()

    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            await built.start(intake, tasks)  # type: ignore[arg-type]
            await intake.until(count)
            await built.stop()
            tasks.cancel_scope.cancel()

    return run


async def sink(kit: Kit, url: str, name: str, events: Sequence[Event], mode: str) -> None:
    options = {"servers": url, "subject": f"{name}.in", "codec": {"cloudevents": {"mode": mode}}}
    built = kit.sink("nats", options)
    ended = 0

    def done(outcome: Outcome) -> None:
        nonlocal ended
        assert outcome.delivered, outcome
        ended += 1

    async with anyio.create_task_group() as tasks:
        await built.start(tasks)
        for n, one in enumerate(events):
            built.send(one, 30, done)
            if n - ended >= IN_FLIGHT:
                await until(lambda: n - ended < IN_FLIGHT // 2)  # noqa: B023
        await until(lambda: ended == len(events))
        await built.stop()
        tasks.cancel_scope.cancel()


async def channel(kit: Kit, url: str, events: Sequence[Event], reads: bool) -> None:
    name = f"c-{uuid4().hex[:8]}"
    built: Any = kit.channel("jetstream", {"servers": url, "stream": name, "subject": name})
    subscription, ended = Counting(), 0

    def done(error: BaseException | None) -> None:
        nonlocal ended
        assert error is None, error
        ended += 1

    async with anyio.create_task_group() as tasks:
        await built.start(tasks)
        if reads:
            subscription.feed = built.attach("all", match_all(), subscription)
        await built.open()
        for n, one in enumerate(events):
            built.append((one,), done)
            if n - ended >= IN_FLIGHT:
                await until(lambda: n - ended < IN_FLIGHT // 2)  # noqa: B023
        await until(lambda: ended == len(events))
        if reads:
            await subscription.until(len(events))
        await built.stop()
        tasks.cancel_scope.cancel()


# -- runs --------------------------------------------------------------------------------------------------------------


async def run(case: str, kit: Kit, url: str, count: int) -> dict[str, float]:
    """One run of a case: CPU microseconds an event, and events a second."""
    events = [event(n) for n in range(count)]
    name = f"b-{uuid4().hex[:8]}"
    nc = await nats.connect(url)
    js = nc.jetstream(timeout=30)
    await js.add_stream(name=name, subjects=[f"{name}.in"])
    what, _, mode = case.partition(", ")
    work: Coroutine[Any, Any, None]
    if what in ("loop out", "sink"):
        work = publish(js, f"{name}.in", events, mode) if what == "loop out" else sink(kit, url, name, events, mode)
    elif what in ("loop in", "source"):
        await publish(js, f"{name}.in", events, mode)
        work = read(js, name, count) if what == "loop in" else (await source(kit, url, name, count))()
    else:
        work = channel(kit, url, events, reads=case == "channel append and deliver")
    gc.collect()
    began, cpu = time.perf_counter(), time.process_time()
    await work
    cpu, took = time.process_time() - cpu, time.perf_counter() - began
    await js.delete_stream(name)
    await nc.close()
    return {"cpu_us": cpu * 1e6 / count, "events_per_s": count / took}


CASES = [
    *(f"{what}, {mode}" for mode in ("binary", "structured") for what in ("loop out", "sink", "loop in", "source")),
    "channel append",
    "channel append and deliver",
]
BESIDE = {"sink": "loop out", "source": "loop in"}


def beside(case: str) -> str:
    """The loop that a case is compared with."""
    what, _, mode = case.partition(", ")
    return {"channel append": "loop out, binary"}.get(case) or (f"{BESIDE[what]}, {mode}" if what in BESIDE else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--json", default="")
    a = parser.parse_args()
    results: dict[str, list[dict[str, float]]] = {case: [] for case in CASES}
    with tempfile.TemporaryDirectory() as scratch, servers.nats(Path(scratch) / "server") as server:
        kit = Kit(Path(scratch))
        for case in CASES:  # what is imported at the first use does not count
            uvloop.run(run(case, kit, server.url, 100))
        for _ in range(a.rounds):
            for case in CASES:
                results[case].append(uvloop.run(run(case, kit, server.url, a.events)))
    medians = {
        case: {key: statistics.median(r[key] for r in runs) for key in runs[0]} for case, runs in results.items()
    }
    table = Table("case", "CPU us/event", "events/s", "beside the loop", "goal")
    for case, row in medians.items():
        other = beside(case)
        ratio = f"{row['cpu_us'] / medians[other]['cpu_us']:.2f}x" if other else ""
        table.add_row(case, f"{row['cpu_us']:.1f}", f"{row['events_per_s']:,.0f}", ratio, GOAL if other else "")
    (Console() if sys.stdout.isatty() else Console(width=120)).print(table)
    if a.json:
        Path(a.json).write_text(json.dumps(medians, indent=1) + "\n")


if __name__ == "__main__":
    main()
