"""What an event costs in the NATS source, sink and channel, beside loops written by hand with the same client library.

All cases run in this process, on uvloop like a gateway, and are interleaved in rounds; medians are shown. A case's
figure is the CPU time of this process (the server has its own) per event. The intake and the subscription answer at
once: what a gateway does besides (storage, routing, delivery) is not in it.

    python tests/bench/nats_loops.py --rounds 5 --events 20000
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote
from uuid import uuid4

import anyio
import nats
import uvloop
from gateway_dev import servers
from gateway_testing.suites import Kit
from loops import CASES, Figures, arguments, beside, compare, event, measured, read_with, send_with, until
from nats.js import JetStreamContext

from gateway_core.contract.event import Event
from gateway_core.contract.filters import match_all

IN_FLIGHT = 2000
FETCHED = 500


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


# -- the plugin's components -------------------------------------------------------------------------------------------


class Subscribed:
    """A subscription that takes everything at once."""

    def __init__(self) -> None:
        self.count = 0
        self.feed: Any = None

    def offer(self, one: Event) -> bool:
        self.count += 1
        self.feed.ack(one.position)
        return True

    def withdraw(self, partition: int) -> Sequence[int]:
        return ()


async def source(kit: Kit, url: str, name: str, count: int) -> None:
    options = {"servers": url, "stream": name, "subject": f"{name}.in", "consumer": f"s-{uuid4().hex}"}
    await read_with(kit.source("nats", {**options, "start": "earliest"}), count)


async def sink(kit: Kit, url: str, name: str, events: Sequence[Event], mode: str) -> None:
    options = {"servers": url, "subject": f"{name}.in", "codec": {"cloudevents": {"mode": mode}}}
    built = kit.sink("nats", options)
    await send_with(built, events, IN_FLIGHT)


async def channel(kit: Kit, url: str, events: Sequence[Event], reads: bool) -> None:
    name = f"c-{uuid4().hex[:8]}"
    built: Any = kit.channel("jetstream", {"servers": url, "stream": name, "subject": name})
    subscription, ended = Subscribed(), 0

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
            await until(lambda: subscription.count >= len(events))
        await built.stop()
        tasks.cancel_scope.cancel()


# -- runs --------------------------------------------------------------------------------------------------------------


async def run(case: str, kit: Kit, url: str, count: int) -> Figures:
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
        work = read(js, name, count) if what == "loop in" else source(kit, url, name, count)
    else:
        work = channel(kit, url, events, reads=case == "channel append and deliver")
    with measured(count) as figures:
        await work
    await js.delete_stream(name)
    await nc.close()
    return figures


def beside_or_append(case: str) -> str:
    """The loop that a case is compared with."""
    return "loop out, binary" if case == "channel append" else beside(case)


def main() -> None:
    a = arguments(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as scratch, servers.nats(Path(scratch) / "server") as server:
        kit = Kit(Path(scratch))
        compare(
            a,
            [*CASES, "channel append", "channel append and deliver"],
            lambda case, count: uvloop.run(run(case, kit, server.url, count)),
            beside_or_append,
        )


if __name__ == "__main__":
    main()
