"""The MQTT side of `tidegate demo --mqtt`: sensors that publish, and somebody who listens for alarms."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Sequence
from typing import Any, Self

from paho.mqtt.client import Client, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from . import sensors
from .flights import FlightEvent
from .processes import DemoError

LIMIT_S = 120.0
ALARMS = "alarms/#"


class Station:
    """All the sensors, with one connection: publishes readings in binary mode of the CloudEvents MQTT binding, and
    knows which the server has acknowledged."""

    def __init__(self, port: int) -> None:
        self.acknowledged: dict[str, FlightEvent] = {}
        self._waiting: dict[int, FlightEvent] = {}
        self._early: set[int] = set()  # acknowledged before `publish` returned
        self._lock = threading.Lock()
        self._client = _connected(port)
        self._client.on_publish = self._on_publish

    def publish(self, event: FlightEvent) -> None:
        """Publishes one reading, with QoS 1."""
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        attributes = dict(event.attributes)
        properties.ContentType = attributes.pop("datacontenttype")
        properties.UserProperty = list(attributes.items())
        sent = self._client.publish(sensors.topic(event), event.data, qos=1, properties=properties)
        with self._lock:
            if sent.mid in self._early:
                self._early.discard(sent.mid)
                self.acknowledged[event.id] = event
            else:
                self._waiting[sent.mid] = event

    @property
    def open(self) -> int:
        """How many readings the server has not acknowledged yet."""
        return len(self._waiting)

    def _on_publish(self, client: Client, userdata: Any, mid: int, code: Any, properties: Any) -> None:
        with self._lock:
            event = self._waiting.pop(mid, None)
            if event is None:
                self._early.add(mid)
            else:
                self.acknowledged[event.id] = event

    def __enter__(self) -> Self:
        self._client.loop_start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()


class Listener:
    """Subscribes to the alarms that the gateway publishes: `received` has the SHA-256 of each event's data."""

    def __init__(self, port: int) -> None:
        self.received: dict[str, str] = {}
        self._client = _connected(port)
        self._client.on_message = self._on_message
        self._subscribed = threading.Event()
        self._client.on_subscribe = lambda *_: self._subscribed.set()

    def wait(self, ids: Sequence[str]) -> None:
        """Returns when these have arrived, or no more come."""
        end = time.monotonic() + LIMIT_S
        while not self.received.keys() >= set(ids) and time.monotonic() < end:
            time.sleep(0.05)

    def _on_message(self, client: Client, userdata: Any, message: Any) -> None:
        attributes = dict(message.properties.UserProperty)
        self.received[attributes["id"]] = hashlib.sha256(message.payload).hexdigest()

    def __enter__(self) -> Self:
        self._client.loop_start()
        self._client.subscribe(ALARMS, qos=1)
        if not self._subscribed.wait(LIMIT_S):
            raise DemoError("the MQTT server does not answer")
        return self

    def __exit__(self, *exception: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def _connected(port: int) -> Client:
    client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTv5)
    client.max_inflight_messages_set(1000)
    try:
        client.connect("127.0.0.1", port)
    except OSError as e:
        raise DemoError(f"the MQTT server takes no connection: {e}") from e
    return client
