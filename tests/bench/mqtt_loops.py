"""What an event costs in the MQTT source and sink, beside loops written by hand with the same client library.

All cases run in this process and are interleaved in rounds; medians are shown. The plugin runs on uvloop like a
gateway; the loops are paho's own, in the main thread. A case's figure is the CPU time of this process (the server has
its own) per event. The intake answers at once: what a gateway does besides (storage, routing, delivery) is not in it.

    python tests/bench/mqtt_loops.py --rounds 5 --events 10000
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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import uvloop
from gateway_dev import servers
from gateway_testing.suites import Kit
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
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
IN_FLIGHT = 500
GOAL = "<= 1.5x the loop"
SETTINGS = "max_inflight_messages 1000\nautosave_on_changes false\nautosave_interval 0\npersistence false"


def event(n: int) -> Event:
    return Event({**ATTRIBUTES, "id": f"{n:08d}"}, DATA)


# -- loops written by hand ---------------------------------------------------------------------------------------------


def connected(port: int, client_id: str = "") -> Client:
    """A client that its caller drives; with a client id, with a session that stays."""
    client = Client(CallbackAPIVersion.VERSION2, client_id, protocol=MQTTProtocolVersion.MQTTv5, manual_ack=True)
    client.max_inflight_messages_set(IN_FLIGHT)
    properties: Any = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = 600 if client_id else 0
    properties.ReceiveMaximum = IN_FLIGHT
    client.connect("127.0.0.1", port, clean_start=not client_id, properties=properties)
    while not client.is_connected():
        client.loop(0.1)
    return client


def ended(client: Client) -> None:
    client.disconnect()
    client.loop(0.1)


def session(port: int, client_id: str, topic: str) -> None:
    """A session that subscribes, before what it is to get is published."""
    client, done = connected(port, client_id), []
    client.on_subscribe = lambda *_: done.append(1)
    client.subscribe(topic, 1)
    while not done:
        client.loop(0.1)
    ended(client)


def message(one: Event, mode: str) -> tuple[Any, bytes]:
    properties: Any = Properties(PacketTypes.PUBLISH)
    if mode == "binary":
        properties.ContentType = one.attributes["datacontenttype"]
        properties.UserProperty = [(n, v) for n, v in one.attributes.items() if n != "datacontenttype"]
        return properties, one.data or b""
    properties.ContentType = "application/cloudevents+json"
    return properties, json.dumps({**one.attributes, "data": json.loads(one.data or b"null")}).encode()


def publish(port: int, topic: str, events: Sequence[Event], mode: str) -> None:
    client, done = connected(port), [0]

    def acknowledged(*_: object) -> None:
        done[0] += 1

    client.on_publish = acknowledged
    for n, one in enumerate(events):
        properties, payload = message(one, mode)
        client.publish(topic, payload, 1, properties=properties)
        while n - done[0] >= IN_FLIGHT:
            client.loop(0.1)
    while done[0] < len(events):
        client.loop(0.1)
    ended(client)


def read(port: int, client_id: str, count: int) -> None:
    """Decodes and acknowledges."""
    seen = [0]

    def take(client: Client, data: object, message: MQTTMessage) -> None:
        properties: Any = message.properties
        if properties.ContentType.startswith("application/cloudevents+json"):
            attributes = json.loads(message.payload)
            found = attributes, json.dumps(attributes.pop("data")).encode()
        else:
            attributes = dict(properties.UserProperty)
            attributes["datacontenttype"] = properties.ContentType
            found = attributes, bytes(message.payload)
        assert found[0]["id"]
        client.ack(message.mid, message.qos)
        seen[0] += 1

    client = Client(CallbackAPIVersion.VERSION2, client_id, protocol=MQTTProtocolVersion.MQTTv5, manual_ack=True)
    client.on_message = take
    properties: Any = Properties(PacketTypes.CONNECT)
    properties.ReceiveMaximum = IN_FLIGHT
    client.connect("127.0.0.1", port, clean_start=False, properties=properties)
    while seen[0] < count:
        client.loop(0.1)
    ended(client)


# -- the plugin's components -------------------------------------------------------------------------------------------


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - costs less than an event for each answer
        await asyncio.sleep(0.002)


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


async def source(kit: Kit, port: int, client_id: str, topic: str, count: int) -> None:
    options = {"server": f"127.0.0.1:{port}", "topic": topic, "client_id": client_id, "receive_maximum": IN_FLIGHT}
    built, intake = kit.source("mqtt", options), Counting()
    async with anyio.create_task_group() as tasks:
        await built.start(intake, tasks)  # type: ignore[arg-type]
        await until(lambda: intake.count >= count)
        await built.stop()
        tasks.cancel_scope.cancel()


async def sink(kit: Kit, port: int, topic: str, events: Sequence[Event], mode: str) -> None:
    built = kit.sink("mqtt", {"server": f"127.0.0.1:{port}", "topic": topic, "codec": {"cloudevents": {"mode": mode}}})
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


def run(case: str, kit: Kit, port: int, count: int) -> dict[str, float]:
    """One run of a case: CPU microseconds an event, and events a second."""
    events = [event(n) for n in range(count)]
    topic = client_id = f"b-{uuid4().hex[:8]}"
    what, _, mode = case.partition(", ")
    if what in ("loop in", "source"):
        session(port, client_id, topic)
        publish(port, topic, events, mode)
    gc.collect()
    began, cpu = time.perf_counter(), time.process_time()
    match what:
        case "loop out":
            publish(port, topic, events, mode)
        case "loop in":
            read(port, client_id, count)
        case "sink":
            uvloop.run(sink(kit, port, topic, events, mode))
        case _:
            uvloop.run(source(kit, port, client_id, topic, count))
    cpu, took = time.process_time() - cpu, time.perf_counter() - began
    return {"cpu_us": cpu * 1e6 / count, "events_per_s": count / took}


BESIDE = {"sink": "loop out", "source": "loop in"}
CASES = [f"{what}, {mode}" for mode in ("binary", "structured") for what in ("loop out", "sink", "loop in", "source")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--json", default="")
    a = parser.parse_args()
    results: dict[str, list[dict[str, float]]] = {case: [] for case in CASES}
    with tempfile.TemporaryDirectory() as scratch, servers.mqtt(Path(scratch) / "server", settings=SETTINGS) as server:
        kit = Kit(Path(scratch))
        for case in CASES:  # what is imported at the first use does not count
            run(case, kit, server.port, 100)
        for _ in range(a.rounds):
            for case in CASES:
                results[case].append(run(case, kit, server.port, a.events))
    medians = {
        case: {key: statistics.median(r[key] for r in runs) for key in runs[0]} for case, runs in results.items()
    }
    table = Table("case", "CPU us/event", "events/s", "beside the loop", "goal")
    for case, row in medians.items():
        what, _, mode = case.partition(", ")
        other = BESIDE.get(what)
        ratio = f"{row['cpu_us'] / medians[f'{other}, {mode}']['cpu_us']:.2f}x" if other else ""
        table.add_row(case, f"{row['cpu_us']:.1f}", f"{row['events_per_s']:,.0f}", ratio, GOAL if other else "")
    (Console() if sys.stdout.isatty() else Console(width=120)).print(table)
    if a.json:
        Path(a.json).write_text(json.dumps(medians, indent=1) + "\n")


if __name__ == "__main__":
    main()
