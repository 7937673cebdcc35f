"""What an event costs in the MQTT source and sink, beside loops written by hand with the same client library.

All cases run in this process and are interleaved in rounds; medians are shown. The plugin runs on uvloop like a
gateway; the loops are paho's own, in the main thread. A case's figure is the CPU time of this process (the server has
its own) per event. The intake answers at once: what a gateway does besides (storage, routing, delivery) is not in it.

    python tests/bench/mqtt_loops.py --rounds 5 --events 10000
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import uvloop
from gateway_dev import servers
from gateway_testing.suites import Kit
from loops import CASES, Figures, arguments, compare, event, measured, read_with, send_with
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from gateway_core.contract.event import Event

IN_FLIGHT = 500
SETTINGS = "max_inflight_messages 1000\nautosave_on_changes false\nautosave_interval 0\npersistence false"


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


async def source(kit: Kit, port: int, client_id: str, topic: str, count: int) -> None:
    options = {"server": f"127.0.0.1:{port}", "topic": topic, "client_id": client_id, "receive_maximum": IN_FLIGHT}
    await read_with(kit.source("mqtt", options), count)


async def sink(kit: Kit, port: int, topic: str, events: Sequence[Event], mode: str) -> None:
    built = kit.sink("mqtt", {"server": f"127.0.0.1:{port}", "topic": topic, "codec": {"cloudevents": {"mode": mode}}})
    await send_with(built, events, IN_FLIGHT)


# -- runs --------------------------------------------------------------------------------------------------------------


def run(case: str, kit: Kit, port: int, count: int) -> Figures:
    """One run of a case: CPU microseconds an event, and events a second."""
    events = [event(n) for n in range(count)]
    topic = client_id = f"b-{uuid4().hex[:8]}"
    what, _, mode = case.partition(", ")
    if what in ("loop in", "source"):
        session(port, client_id, topic)
        publish(port, topic, events, mode)
    with measured(count) as figures:
        match what:
            case "loop out":
                publish(port, topic, events, mode)
            case "loop in":
                read(port, client_id, count)
            case "sink":
                uvloop.run(sink(kit, port, topic, events, mode))
            case _:
                uvloop.run(source(kit, port, client_id, topic, count))
    return figures


def main() -> None:
    a = arguments(__doc__, events=10_000).parse_args()
    with tempfile.TemporaryDirectory() as scratch, servers.mqtt(Path(scratch) / "server", settings=SETTINGS) as server:
        kit = Kit(Path(scratch))
        compare(a, CASES, lambda case, count: run(case, kit, server.port, count))


if __name__ == "__main__":
    main()
