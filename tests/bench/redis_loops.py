"""What an event costs in the Redis source and sink, beside loops written by hand with the same client library.

All cases run in this process, on uvloop like a gateway, and are interleaved in rounds; medians are shown. A case's
figure is the CPU time of this process (the server has its own) per event. The intake answers at once: what a gateway
does besides (storage, routing, delivery) is not in it. The loops do the least that is right: they read and write the
fields of the same binding, 500 entries at once, and acknowledge each read with one command.

    python tests/bench/redis_loops.py --rounds 5 --events 20000
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import uvloop
from gateway_dev import servers
from gateway_testing.suites import Kit
from redis.asyncio import Redis
from rich.console import Console
from rich.table import Table

from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome

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
AT_ONCE = 500
GOAL = "<= 1.5x the loop"
STRUCTURED = b"application/cloudevents+json"


def event(n: int) -> Event:
    return Event({**ATTRIBUTES, "id": f"{n:08d}"}, DATA)


# -- loops written by hand ---------------------------------------------------------------------------------------------


def fields(one: Event, mode: str) -> dict[Any, Any]:
    if mode == "structured":
        body = json.dumps({**one.attributes, "data": json.loads(one.data or b"null")})
        return {b"content-type": STRUCTURED, b"data": body}
    found: dict[Any, Any] = {f"ce_{name}": value for name, value in one.attributes.items() if name != "datacontenttype"}
    found["content-type"] = one.attributes["datacontenttype"]
    found["data"] = one.data
    return found


async def add(redis: Redis, stream: str, events: Sequence[Event], mode: str) -> None:
    """Pipelined."""
    for n in range(0, len(events), AT_ONCE):
        pipeline = redis.pipeline(transaction=False)
        for one in events[n : n + AT_ONCE]:
            pipeline.xadd(stream, fields(one, mode))
        await pipeline.execute()


async def read(redis: Redis, stream: str, count: int) -> None:
    """Reads, decodes and acknowledges."""
    await redis.xgroup_create(stream, "loop", "0")
    seen = 0
    while seen < count:
        answer: Any = await redis.xreadgroup("loop", "me", {stream: ">"}, AT_ONCE, block=2000)
        ids = []
        for id, found in answer[0][1]:
            if found[b"content-type"] == STRUCTURED:
                attributes = json.loads(found[b"data"])
                event = attributes, json.dumps(attributes.pop("data")).encode()
            else:
                text = {name.decode(): value.decode() for name, value in found.items() if name.startswith(b"ce_")}
                event = {name[3:]: value for name, value in text.items()}, found[b"data"]
            assert event[0]["id"]
            ids.append(id)
        await redis.xack(stream, "loop", *ids)
        seen += len(ids)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - costs less than an event for each answer
        await anyio.sleep(0.002)


# -- the plugin's components -------------------------------------------------------------------------------------------


class Counting:
    """An intake that takes everything at once."""

    stores = True

    def __init__(self) -> None:
        self.count = 0

    def accept(self, events: Sequence[Event], done: Callable[[BaseException | None], None]) -> None:
        self.count += len(events)
        done(None)

    def withdraw(self, partition: int) -> Sequence[int]:
        return ()


async def source(kit: Kit, options: dict[str, Any], count: int) -> None:
    built: Any = kit.source("redis", {**options, "group": "gateway", "start": "0"})
    intake = Counting()
    async with anyio.create_task_group() as tasks:
        await built.start(intake, tasks)
        await until(lambda: intake.count >= count)
        await built.stop()
        tasks.cancel_scope.cancel()


async def sink(kit: Kit, options: dict[str, Any], events: Sequence[Event], mode: str) -> None:
    built = kit.sink("redis", {**options, "codec": {"cloudevents": {"mode": mode}}})
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


# -- runs --------------------------------------------------------------------------------------------------------------


async def run(case: str, kit: Kit, port: int, count: int) -> dict[str, float]:
    """One run of a case: CPU microseconds an event, and events a second."""
    events = [event(n) for n in range(count)]
    stream = f"b-{uuid4().hex[:8]}"
    redis = Redis(port=port, protocol=2)
    options = {"servers": f"127.0.0.1:{port}", "stream": stream}
    what, _, mode = case.partition(", ")
    work: Coroutine[Any, Any, None]
    if what in ("loop out", "sink"):
        work = add(redis, stream, events, mode) if what == "loop out" else sink(kit, options, events, mode)
    else:
        await add(redis, stream, events, mode)
        work = read(redis, stream, count) if what == "loop in" else source(kit, options, count)
    gc.collect()
    began, cpu = time.perf_counter(), time.process_time()
    await work
    cpu, took = time.process_time() - cpu, time.perf_counter() - began
    await redis.delete(stream)
    await redis.aclose()
    return {"cpu_us": cpu * 1e6 / count, "events_per_s": count / took}


CASES = [f"{what}, {mode}" for mode in ("binary", "structured") for what in ("loop out", "sink", "loop in", "source")]
BESIDE = {"sink": "loop out", "source": "loop in"}


def beside(case: str) -> str:
    """The loop that a case is compared with."""
    what, _, mode = case.partition(", ")
    return f"{BESIDE[what]}, {mode}" if what in BESIDE else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--json", default="")
    a = parser.parse_args()
    results: dict[str, list[dict[str, float]]] = {case: [] for case in CASES}
    with tempfile.TemporaryDirectory() as scratch, servers.redis(Path(scratch) / "server") as server:
        kit = Kit(Path(scratch))
        for case in CASES:  # what is imported at the first use does not count
            uvloop.run(run(case, kit, server.port, 100))
        for _ in range(a.rounds):
            for case in CASES:
                results[case].append(uvloop.run(run(case, kit, server.port, a.events)))
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
