"""What an event costs in the Redis source and sink, beside loops written by hand with the same client library.

All cases run in this process, on uvloop like a gateway, and are interleaved in rounds; medians are shown. A case's
figure is the CPU time of this process (the server has its own) per event. The intake answers at once: what a gateway
does besides (storage, routing, delivery) is not in it. The loops do the least that is right: they read and write the
fields of the same binding, 500 entries at once, and acknowledge each read with one command.

    python tests/bench/redis_loops.py --rounds 5 --events 20000
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import uvloop
from gateway_dev import servers
from gateway_testing.suites import Kit
from loops import CASES, Figures, arguments, compare, event, measured, read_with, send_with
from redis.asyncio import Redis

from gateway_core.contract.event import Event

IN_FLIGHT = 2000
AT_ONCE = 500
STRUCTURED = b"application/cloudevents+json"


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


# -- the plugin's components -------------------------------------------------------------------------------------------


async def source(kit: Kit, options: dict[str, Any], count: int) -> None:
    await read_with(kit.source("redis", {**options, "group": "gateway", "start": "0"}), count)


async def sink(kit: Kit, options: dict[str, Any], events: Sequence[Event], mode: str) -> None:
    built = kit.sink("redis", {**options, "codec": {"cloudevents": {"mode": mode}}})
    await send_with(built, events, IN_FLIGHT)


# -- runs --------------------------------------------------------------------------------------------------------------


async def run(case: str, kit: Kit, port: int, count: int) -> Figures:
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
    with measured(count) as figures:
        await work
    await redis.delete(stream)
    await redis.aclose()
    return figures


def main() -> None:
    a = arguments(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as scratch, servers.redis(Path(scratch) / "server") as server:
        kit = Kit(Path(scratch))
        compare(a, CASES, lambda case, count: uvloop.run(run(case, kit, server.port, count)))


if __name__ == "__main__":
    main()
