"""The world's message queues: what their servers have in common. They outlive the gateway's processes, and keep what is
published while it is down."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .history import Published
from .mqtt_server import MqttServer
from .nats_server import NatsServer
from .queue_plan import MQTT, NATS

if TYPE_CHECKING:
    from .plan import Config, Event, Fault
    from .world import World


def payload(event: Event) -> bytes:
    """An event in structured mode."""
    document = {**event.attributes, **({"data": event.data.decode()} if event.size else {})}
    return json.dumps(document).encode()


class Queues:
    """The MQTT server and the NATS server of a run."""

    def __init__(self, world: World) -> None:
        self._world = world
        found = [config.queues for config in world.plan.configs if config.queues is not None]
        self.topics = list(dict.fromkeys(topic for queues in found for topic in queues.topics))
        self.mqtt = MqttServer(world)
        self.nats = NatsServer(world)
        self._subscribed: set[str] = set()

    def publish(self, number: int) -> None:
        """A client publishes `Plan.sends[number]`. Servers have it at once: this client is never cut off."""
        send = self._world.plan.sends[number]
        for event in send.events:
            if send.mode == NATS:
                self.nats.publish("in.x", payload(event))
                self._add(NATS, "in.x", event.id, number)
            elif self.topics:
                topic = self.topics[send.connection % len(self.topics)]
                self._subscribed |= self.mqtt.filters
                self.mqtt.publish(topic, payload(event))
                if topic in self._subscribed:  # what nobody had subscribed to is nowhere
                    self._add(MQTT, topic, event.id, number)

    def _add(self, server: str, topic: str, id: str, send: int) -> None:
        self._world.add(Published(self._world.scheduler.now, server, topic, id, send))

    def begin(self, fault: Fault) -> str:
        """A fault of a server begins. Returns its effect, as `history.Happened` has it."""
        server = self.nats if fault.target == NATS else self.mqtt
        match fault.kind:
            case "queue-consumer":
                return "" if self.nats.delete_consumers() else "nothing"
            case "queue-vanish":
                server.stall(self._world.end_of(fault))
            case _:
                server.cut()
        return ""

    def resting(self, config: Config) -> str:
        """What the gateway has still to fetch or to acknowledge, "" if nothing."""
        queues = config.queues
        if queues is None:
            return ""
        waiting = self.mqtt.waiting(queues.topics)
        return waiting or (self.nats.waiting() if queues.subject else "")
