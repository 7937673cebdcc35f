"""The events of a soak: every one follows from its route and its number, so that nothing has to be remembered."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache

import msgspec

NEVER = 97
"""The subscriber rejects every event whose number is a multiple of this: it belongs into the dead letter."""
_PATTERN = random.Random(1).randbytes(65_536)
_KEYS = 211
_KINDS = {0: "table", 1: "proxied"}


@dataclass(frozen=True, slots=True)
class Route:
    """A way from a sender to the subscriber. `gateway` is the one that is killed (`storm`) or the one that is not
    (`steady`), `broker` the broker in its config, `sends` how the sender reaches it."""

    name: str
    gateway: str
    broker: str
    sends: str
    share: float


ROUTES = (
    Route("log", "storm", "log", "http", 0.4),
    Route("tls", "storm", "log", "https", 0.1),
    Route("topic", "storm", "log", "kafka", 0.2),
    Route("kafka", "storm", "kafka", "http", 0.15),
    Route("steady", "steady", "own", "http", 0.15),
)
"""`share` is each route's part of the load."""


@cache
def kind_of(remainder: int) -> str:
    """What the filters of triggers ask for, by the number modulo 5: a fifth of the events go into tables, a fifth also
    to a subscriber behind a proxy that cuts connections."""
    return _KINDS.get(remainder, "plain")


def body_of(number: int) -> bytes:
    """Raw bytes of many sizes, the number at the end."""
    start = number * 31 % 65_000
    return _PATTERN[start : start + number % 257] + b"%d" % number


def attributes_of(route: str, number: int) -> dict[str, str]:
    """All attributes of an event."""
    return {
        "specversion": "1.0",
        "id": str(number),
        "source": f"/soak/{route}",
        "type": "soak.test",
        "datacontenttype": "application/octet-stream",
        "partitionkey": f"key-{number % _KEYS}",
        "kind": kind_of(number % 5),
        "note": f'Grüße {number % 7} 100%20 "q"',
    }


def batch(route: str, numbers: range) -> bytes:
    """Events as JSON."""
    return msgspec.json.encode([{**attributes_of(route, n), "data_base64": body_of(n)} for n in numbers])


def read_source(source: str) -> str:
    """The route in an event's `source`. Raises `ValueError`."""
    if not source.startswith("/soak/"):
        raise ValueError(f"no event of the soak: {source!r}")
    return source.removeprefix("/soak/")
