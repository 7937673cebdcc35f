"""The official JavaScript SDK writes messages for MQTT that the source reads, and reads what the sink writes.

The SDK makes messages and leaves their transport to an MQTT client; paho is that client here. The other SDKs have no
MQTT binding that can be had: the Go SDK's is in no release of its module.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from gateway_dev.servers import Server
from gateway_testing import GatewayProcess
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.sdk.test_sdks import CASES, JSON_TYPE, Case, attributes_of, canonical, data_of, talk

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.xdist_group("sdk"), pytest.mark.timeout(600)]

WAIT_S = 60


def events(mode: str) -> dict[str, Case]:
    """The cases, by event id."""
    ids = {f"{mode}/{name}": case for name, case in CASES.items()}
    return {
        id: {**case, "attributes": {"id": id, "source": "/sdk", "type": "t", **case["attributes"]}}
        for id, case in ids.items()
    }


@contextmanager
def connected(server: Server) -> Iterator[Client]:
    """A connected client of MQTT 5."""
    client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
    ready = threading.Event()
    client.on_connect = lambda *_: ready.set()
    client.connect("127.0.0.1", server.port)
    client.loop_start()
    assert ready.wait(WAIT_S)
    try:
        yield client
    finally:
        client.disconnect()
        client.loop_stop()


class Inbox:
    """What comes to a topic, in the form in which the SDK's program reads it."""

    def __init__(self, client: Client, topic: str) -> None:
        self.messages: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        subscribed = threading.Event()
        client.on_subscribe = lambda *_: subscribed.set()
        client.message_callback_add(topic, self._take)
        client.subscribe(topic, qos=1)
        assert subscribed.wait(WAIT_S)

    def _take(self, client: Client, userdata: object, message: MQTTMessage) -> None:
        properties: Any = message.properties
        told = {
            "type": getattr(properties, "ContentType", None),
            "properties": getattr(properties, "UserProperty", []),
            "payload": base64.b64encode(message.payload).decode(),
        }
        with self._changed:
            self.messages.append(told)
            self._changed.notify_all()

    def wait(self, count: int) -> list[dict[str, Any]]:
        """The messages, once there are so many."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.messages) >= count, WAIT_S), len(self.messages)
        return self.messages


def publish(client: Client, topic: str, message: dict[str, Any]) -> None:
    """Publishes what the SDK wrote, and waits for the acknowledgement."""
    properties = Properties(PacketTypes.PUBLISH)
    if message["type"] is not None:
        properties.ContentType = message["type"]
    if message["properties"]:
        properties.UserProperty = [tuple(pair) for pair in message["properties"]]
    client.publish(topic, base64.b64decode(message["payload"]), qos=1, properties=properties).wait_for_publish(WAIT_S)


@pytest.mark.spec("MQ-23")
@pytest.mark.parametrize(
    ("mode", "out"),
    [
        ("binary", "structured"),
        *(
            pytest.param(*modes, marks=pytest.mark.area(name="sdk"))
            for modes in (("binary", "binary"), ("structured", "binary"), ("structured", "structured"))
        ),
    ],
)
def test_the_javascript_sdk_reads_over_mqtt_what_it_wrote(
    mqtt_server: Server, tmp_path: Path, mode: str, out: str
) -> None:
    written = events(mode)
    base = f"sdk/{mode}/{out}"
    config = f"""
bridges:
  echo:
    source: {{mqtt: {{url: "{mqtt_server.url}/{base}/in", client_id: "{base}/source"}}}}
    sink: {{mqtt: {{url: "{mqtt_server.url}/{base}/out", codec: {{cloudevents: {{mode: {out}}}}}}}}}
    dead_letter: {{file: {{path: dead.jsonl}}}}
"""
    with connected(mqtt_server) as client, GatewayProcess(config, tmp_path):
        inbox = Inbox(client, f"{base}/out")
        for message in talk("javascript", "mqtt-write", mode, given=list(written.values())):
            publish(client, f"{base}/in", message)
        received = talk("javascript", "mqtt-read", given=inbox.wait(len(written)))
    found = {event["attributes"]["id"]: event for event in received}
    assert found.keys() == written.keys()
    for id, event in written.items():
        own = event["attributes"]
        assert found[id]["attributes"]["specversion"] == "1.0"
        wanted = {name: canonical(name, value) for name, value in own.items()}
        if out == "binary":
            wanted.pop("datacontenttype", None)  # the SDK does not look at the property Content Type
        assert attributes_of(found[id], event, False) == wanted, id
        type = own.get("datacontenttype", "")
        if out == "binary" and type == JSON_TYPE:  # it leaves JSON to its user
            found[id]["data"] = json.loads(found[id]["data"])
        assert data_of(found[id], type) == data_of(event, type), id
