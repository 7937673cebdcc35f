"""The servers of the transports, for `tidegate dev` and for tests.

    with servers.mqtt(folder) as server:
        ... server.url ...
        server.kill()
        server.start()  # same port, same data

Each listens on 127.0.0.1 only, has its own data folder, and ends with the process that started it. The program is the
one on PATH; else the one of an installed wheel; else Debian's package is unpacked without root. `Missing` says what was
tried.
"""

from __future__ import annotations

from .mosquitto import Mosquitto
from .nats_server import NatsServer
from .program import FoundProgram, Missing
from .rabbitmq import RabbitMq
from .redis_server import RedisServer
from .server import Server, Tls

mqtt = Mosquitto
nats = NatsServer
rabbitmq = RabbitMq
redis = RedisServer

ALL: dict[str, type[Server]] = {"mqtt": mqtt, "nats": nats, "rabbitmq": rabbitmq, "redis": redis}
"""The servers by the name of their transport."""

__all__ = ["ALL", "FoundProgram", "Missing", "Server", "Tls", "mqtt", "nats", "rabbitmq", "redis"]
