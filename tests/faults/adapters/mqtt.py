"""MQTT: messages at `in/#` go through the gateway to `out/#`."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.faults.adapter import Arrived, Place, key_of, read_structured, structured

LIMIT_S = 10.0
_SESSION_S = 3600
_GATEWAY = "gateway-of-the-faults"


class Mqtt:
    """The sessions of the collector and the gateway are there before the first event, so that nothing passes them by.
    Mosquitto writes them every second, and is killed after that."""

    name = "mqtt"
    server = "mqtt"
    server_settings = ""
    ordered = True
    ordered_workers = False  # a shared subscription spreads the events of a key

    def prepare(self, at: Place) -> None:
        for client_id, topic in ((_GATEWAY, "in/#"), ("collector", "out/#")):
            with _client(at, client_id) as client:
                _subscribe(client, topic)

    def source(self, at: Place) -> str:
        return f'mqtt: {{{_server(at)}, topic: "in/#", client_id: {_GATEWAY}, keep_alive_s: 5}}'

    def sink(self, at: Place) -> str:
        codec = "codec: {cloudevents: {mode: structured}}"
        return f'{{mqtt: {{{_server(at)}, topic: "out/{{partitionkey}}", keep_alive_s: 5, {codec}}}}}'

    def send(self, at: Place, numbers: Sequence[int], acknowledged: Callable[[int], None]) -> None:
        with _client(at, "sender") as client:
            sent = [(number, _publish(client, f"in/{key_of(number)}", structured(number))) for number in numbers]
            for number, message in sent:
                message.wait_for_publish(LIMIT_S)
                if not message.is_published() or not client.is_connected():
                    raise TimeoutError(f"no PUBACK for {number}")
                acknowledged(number)

    def poison(self, at: Place) -> None:
        with _client(at, "poisoner") as client:
            _publish(client, "in/poison", b'{"specversion": "1.0"').wait_for_publish(LIMIT_S)

    def collect(self, at: Place, arrived: Callable[[Arrived], None], ended: threading.Event) -> None:
        def take(client: Client, data: object, message: MQTTMessage) -> None:
            arrived(read_structured(bytes(message.payload)))
            client.ack(message.mid, message.qos)

        with _client(at, "collector", take) as client:
            _subscribe(client, "out/#")
            while not ended.wait(0.1):
                if not client.is_connected():
                    raise ConnectionError("the collector's connection is lost")

    def evict(self, at: Place) -> None:
        """Another client takes over the session of the gateway's source, and leaves it as it is."""
        with _client(at, _GATEWAY):
            pass

    def fill(self, at: Place, full: bool) -> bool:
        return False


def _server(at: Place) -> str:
    return f'server: "{at.host}:{at.port}", username: {at.user}, password: {at.password}'


@contextlib.contextmanager
def _client(
    at: Place, client_id: str, take: Callable[[Client, object, MQTTMessage], None] | None = None
) -> Iterator[Client]:
    """A connected client that never reconnects; its session stays at the server."""
    client = Client(
        CallbackAPIVersion.VERSION2,
        client_id,
        protocol=MQTTProtocolVersion.MQTTv5,
        reconnect_on_failure=False,
        manual_ack=True,
    )
    client.username_pw_set(at.user, at.password)
    client.on_message = take
    answered = threading.Event()
    client.on_connect = client.on_disconnect = lambda *_: answered.set()
    properties: Any = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = _SESSION_S if client_id in (_GATEWAY, "collector") else 0
    client.connect(at.host, at.port, clean_start=False, properties=properties)
    client.loop_start()
    try:
        if not answered.wait(LIMIT_S) or not client.is_connected():
            raise ConnectionError("the server does not take the connection")
        yield client
    finally:
        client.disconnect()
        client.loop_stop()


def _publish(client: Client, topic: str, payload: bytes, retain: bool = False) -> Any:
    properties: Any = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.ContentType = "application/cloudevents+json"
    message = client.publish(topic, payload, 1, retain, properties)
    if message.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
        raise ConnectionError(f"not sent: {message.rc}")
    return message


def _subscribe(client: Client, topic: str) -> None:
    done = threading.Event()
    client.on_subscribe = lambda *_: done.set()
    client.subscribe(topic, 1)
    if not done.wait(LIMIT_S):
        raise TimeoutError("no SUBACK")


ADAPTER = Mqtt
