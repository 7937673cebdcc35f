"""What the fault matrix has to know of a transport: one adapter each, in `tests/faults/adapters/NAME.py`.

An adapter module has a constant `ADAPTER`, a class; each run of the matrix makes one of it. It runs

    sender -> server -> [proxy] -> gateway's source -> log -> gateway's sink -> [proxy] -> server -> collector

with the adapter's sender and collector, which use the transport's client library and not the gateway. The server has
two users: `gateway` comes through the proxy, `tests` does not.
"""

from __future__ import annotations

import base64
import importlib
import json
import pkgutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote

from tests.faults import adapters
from tests.ledger import body_of

KEYS = 17


class FaultServer(Protocol):
    """What the lab does with a server; `gateway_dev.servers.Server` has it."""

    port: int

    def start(self) -> object:
        """Starts it with its data; returns when it takes connections."""

    def kill(self) -> None:
        """kill -9; nothing if it never started."""

    def saved(self) -> bool:
        """As in `gateway_dev.servers.Server`."""

    def set_users(self, users: Mapping[str, str], /) -> None:
        """From now on only these may log in."""

    def tail(self) -> str:
        """The end of its log."""


@dataclass(frozen=True, slots=True)
class Place:
    """How to reach the server: directly as `tests`, or through the proxy as `gateway`."""

    port: int
    user: str
    password: str
    host: str = "127.0.0.1"
    server: FaultServer | None = field(default=None, repr=False, compare=False)
    """The server itself, for what no client can do; directly only."""

    def url(self, scheme: str) -> str:
        """An address with user and password."""
        return f"{scheme}://{quote(self.user, '')}:{quote(self.password, '')}@{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Arrived:
    """An event at the remote side of the gateway's sink: its attributes with `specversion`, and its data."""

    attributes: Mapping[str, str]
    body: bytes


class Adapter(Protocol):
    """A transport in the fault matrix. Methods that talk to the server may raise any exception while it is down, and
    are called again; they get a connection of their own each time."""

    name: str
    """The transport, as in a config."""
    server: str
    """The server, as in `tests.faults.lab.SERVERS`."""
    server_settings: str
    """More lines for the server's config."""
    ordered: bool
    """Whether source and sink promise the order of each key."""
    ordered_workers: bool
    """The same for several workers."""

    def prepare(self, at: Place) -> None:
        """Creates what source and sink need (streams, queues), before the gateway starts. What is sent from then on has
        to reach the source, even if that connects later."""

    def source(self, at: Place) -> str:
        """The ingress, as one line of YAML. Messages that are no events have to go to the dead letter."""

    def sink(self, at: Place) -> str:
        """The trigger's subscriber, as one line of YAML: somewhere else than where the source reads."""

    def send(self, at: Place, numbers: Sequence[int], acknowledged: Callable[[int], None]) -> None:
        """Sends events (`structured` or `attributes_of` and `body_of`), in this order, to where the source reads;
        calls `acknowledged` for each once the server has acknowledged it. Returns when all are."""

    def poison(self, at: Place) -> None:
        """Sends a message that is no event."""

    def collect(self, at: Place, arrived: Callable[[Arrived], None], ended: threading.Event) -> None:
        """Reads what the sink wrote, until `ended`. Called again after an error: it resumes where it was, and must miss
        nothing. What it sees twice counts as a duplicate."""

    def evict(self, at: Place) -> None:
        """Makes the server throw out the gateway's consumer, as an operator or a second consumer would."""

    def fill(self, at: Place, full: bool) -> bool:
        """Makes the server take no more messages, or take them again. False if that is no state of this server."""


def attributes_of(number: int) -> dict[str, str]:
    """The attributes of the numbered event."""
    return {
        "specversion": "1.0",
        "id": str(number),
        "source": "/faults",
        "type": "faults.test",
        "partitionkey": key_of(number),
        "datacontenttype": "application/octet-stream",
        "note": f'Grüße {number} 100%20 "quoted"',
    }


def key_of(number: int) -> str:
    """The key of the numbered event."""
    return f"key-{number % KEYS}"


def structured(number: int) -> bytes:
    """The numbered event in structured mode, as JSON."""
    data = base64.b64encode(body_of(number)).decode()
    return json.dumps({**attributes_of(number), "data_base64": data}).encode()


def read_structured(message: bytes) -> Arrived:
    """An event in structured mode, as JSON."""
    event = json.loads(message)
    data = base64.b64decode(event.pop("data_base64", ""))
    return Arrived(event, data)


def all_adapters() -> dict[str, type[Adapter]]:
    """The adapters by the name of their transport."""
    found: list[type[Adapter]] = [
        importlib.import_module(f"tests.faults.adapters.{module.name}").ADAPTER
        for module in pkgutil.iter_modules(adapters.__path__)
    ]
    return {adapter.name: adapter for adapter in found}
