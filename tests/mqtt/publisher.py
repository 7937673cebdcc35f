"""A publisher and a subscriber that use paho as anyone would."""

from __future__ import annotations

import threading
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from gateway_core.contract.event import Event, Message

PATIENCE_S = 60.0


class _Client:
    def __init__(self, port: int, version: int = paho.MQTTv5, **login: Any) -> None:
        self._port = port
        self._ready = threading.Event()
        self.client = paho.Client(CallbackAPIVersion.VERSION2, protocol=version)  # type: ignore[arg-type]
        if login:
            self.client.username_pw_set(login["username"], login.get("password"))
        self.client.on_connect = self._connected

    def __enter__(self) -> Any:
        self.client.connect("127.0.0.1", self._port)
        self.client.loop_start()
        assert self._ready.wait(PATIENCE_S)
        return self

    def __exit__(self, *error: object) -> None:
        self.client.disconnect()
        self.client.loop_stop()

    def _connected(self, *said: Any) -> None:
        self._ready.set()


class Publisher(_Client):
    """Publishes messages as they are."""

    def publish(self, topic: str, message: Message, qos: int = 1, retain: bool = False, wait: bool = True) -> None:
        properties: Any = None
        if self.client.protocol == paho.MQTTv5:
            properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
            for name, value in message.headers:
                if name == b"content-type":
                    properties.ContentType = value.decode()
                else:
                    properties.UserProperty = (name.decode(), value.decode())
        info = self.client.publish(topic, message.body, qos, retain, properties)
        if wait:
            info.wait_for_publish(PATIENCE_S)


class Subscriber(_Client):
    """Notes what is published to a topic."""

    def __init__(self, port: int, topic: str, version: int = paho.MQTTv5, **login: Any) -> None:
        super().__init__(port, version, **login)
        self._topic = topic
        self.messages: list[paho.MQTTMessage] = []
        self.client.on_message = lambda client, data, message: self.messages.append(message)
        self.client.on_subscribe = lambda *said: self._ready.set()

    def _connected(self, *said: Any) -> None:
        self.client.subscribe(self._topic, 2)

    def events(self) -> list[Event]:
        return [event_of(message) for message in list(self.messages)]


def event_of(message: paho.MQTTMessage) -> Event:
    """As the MQTT binding says, section 3.1: binary mode."""
    properties: Any = message.properties
    attributes: dict[str, Any] = dict(getattr(properties, "UserProperty", []))
    if (content_type := getattr(properties, "ContentType", None)) is not None:
        attributes["datacontenttype"] = content_type
    return Event(attributes, bytes(message.payload))
