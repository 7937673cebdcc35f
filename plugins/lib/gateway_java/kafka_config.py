"""The settings of a local Kafka broker: listeners, users, and its `server.properties`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

PLAIN = "PLAINTEXT"
_CONTROLLER = "CONTROLLER"

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]


@dataclass(frozen=True, slots=True)
class Listener:
    """An additional listener of the broker. `name` has letters, digits and `_`; `properties` are the broker's settings
    of this listener without the prefix `listener.name.NAME.` (`sasl.enabled.mechanisms`, `ssl.keystore.key`, …); `port`
    0 is a free one."""

    name: str
    protocol: Protocol
    port: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScramUser:
    """A user that is created when the storage is formatted. Kafka's format command splits at commas, so name and
    password can't have any."""

    name: str
    password: str
    mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"

    def argument(self) -> str:
        """The argument for Kafka's format command."""
        return f"{self.mechanism}=[name={self.name},password={self.password}]"


def server_properties(
    data: Path, controller: int, plain: int, listeners: Iterable[tuple[Listener, int]], more: Mapping[str, str]
) -> dict[str, str]:
    """All settings of a broker that is its own controller. `controller` and `plain` are ports; each listener comes with
    its port; `more` overrides all others."""
    all_listeners = [(PLAIN, PLAIN, plain), *((one.name, one.protocol, port) for one, port in listeners)]
    addresses = ",".join(f"{name}://127.0.0.1:{port}" for name, _, port in all_listeners)
    protocols = ",".join(f"{name}:{protocol}" for name, protocol, _ in all_listeners)
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.listener.names": _CONTROLLER,
        "listeners": f"{addresses},{_CONTROLLER}://127.0.0.1:{controller}",
        "advertised.listeners": addresses,
        "inter.broker.listener.name": PLAIN,
        "listener.security.protocol.map": f"{protocols},{_CONTROLLER}:PLAINTEXT",
        "log.dirs": str(data),
        "default.replication.factor": "1",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "4",
        # after a crash, the controller considers the old broker alive, and rejects the new one, until this has passed
        "broker.session.timeout.ms": "1500",
        "broker.heartbeat.interval.ms": "300",
        # a group's first member need not wait for others
        "group.initial.rebalance.delay.ms": "0",
        # the cleaner reserves 128 MB by default
        "log.cleaner.dedupe.buffer.size": str(8 << 20),
    }
    for listener, _ in listeners:
        prefix = f"listener.name.{listener.name.lower()}."
        settings |= {prefix + key: value for key, value in listener.properties.items()}
    return {**settings, **more}


def written(settings: Mapping[str, str]) -> str:
    """The settings as a `.properties` file (java.util.Properties.load)."""
    return "".join(f"{_escaped(key, ' =:#!')}={_escaped(value)}\n" for key, value in settings.items())


def _escaped(text: str, special: str = "") -> str:
    out = "".join(_char(c, special) for c in text)
    return "\\" + out if out.startswith(" ") else out


def _char(c: str, special: str) -> str:
    named = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    if c in named:
        return named[c]
    if c in special:
        return "\\" + c
    if " " <= c <= "~":
        return c
    units = c.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
