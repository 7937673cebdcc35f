"""The event: what Tidegate carries from a source to its sinks.

Source: CloudEvents 1.0.2, `spec.md` (context attributes, event data) and `formats/json-format.md` section 3.1 (data).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .identity import Identity

PARTITION_BITS = 48
"""A position is `partition << 48 | number in the partition`; the log calls its partitions shards."""
_NUMBERS = (1 << PARTITION_BITS) - 1

# 1.0 attributes travel as str, int or bool; a 0.1 extension may also be a JSON object.
AttributeValue = str | int | bool | Mapping[str, Any]


def position_of(partition: int, number: int) -> int:
    """The position of an event: one number over all partitions."""
    return partition << PARTITION_BITS | number


def split_position(position: int) -> tuple[int, int]:
    """The partition of a position, and the number in it."""
    return position >> PARTITION_BITS, position & _NUMBERS


class Event:
    """One CloudEvent with the facts of its transport. It is parsed once and never changed afterwards.

    `attributes`  every context attribute by its wire name, `specversion` and extensions included. Values are what the
                  wire had: text for headers; in JSON also whole numbers, booleans and, for 0.1, objects.
    `data`        the payload's bytes as they came, or None if the event has no data (empty data is b"").
    `json_data`   True if `data` is the raw text of a JSON value although `datacontenttype` does not say so (a JSON
                  event without `datacontenttype`: json-format.md section 3.1).
    `key`         the record key that the transport had (Kafka), else None. A key mapper may override it on the way out.
    `received_ns` Unix time in nanoseconds at which a source took the event; 0 if no source set it.
    `position`    where the channel keeps the event, see `PARTITION_BITS`; set by the channel. A source that reads from
                  partitions sets it before, others leave it 0.
    `trace`       the trace context that travels beside the event (`gateway_core.contract.tracing`); None without
                  tracing.
    `duplicate`   True if the channel had an event with the same key (`deduplicate` of a broker), and did not store
                  this one again; `position` is then that of the first. Set by the channel.
    `identity`    who sent it, from its ingress to the channel, which does not store it; None if the source does not
                  know, and later.
    `key_headers` the values of the headers that a source was told of (`TellsHeaders`), None for each that the request
                  lacks; from its ingress to the channel, like `identity`.

    Equality compares attributes, data and key: the event, not where it is.
    """

    __slots__ = (
        *("attributes", "data", "duplicate", "identity", "json_data", "key", "key_headers", "position", "received_ns"),
        "trace",
    )

    def __init__(
        self,
        attributes: dict[str, Any],
        data: bytes | None = None,
        json_data: bool = False,
        key: bytes | None = None,
        received_ns: int = 0,
        position: int = 0,
        trace: str | None = None,
    ) -> None:
        self.attributes = attributes
        self.data = data
        self.json_data = json_data
        self.key = key
        self.received_ns = received_ns
        self.position = position
        self.trace = trace
        self.identity: Identity | None = None
        self.key_headers: tuple[str | None, ...] | None = None
        self.duplicate = False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Event):
            return NotImplemented
        return (self.attributes, self.data, self.key) == (other.attributes, other.data, other.key)

    __hash__ = None  # type: ignore[assignment]  # attributes are a dict

    def __repr__(self) -> str:
        size = "no data" if self.data is None else f"{len(self.data)} bytes"
        return f"<Event {self.attributes.get('type')!r} id={self.attributes.get('id')!r} {size}>"

    def with_attributes(self, **changes: AttributeValue) -> Event:
        """A copy of this event with these attributes set over its own (used for dead letters)."""
        attributes = {**self.attributes, **changes}
        return Event(attributes, self.data, self.json_data, self.key, self.received_ns, self.position, self.trace)

    def with_trace(self, trace: str | None) -> Event:
        """A copy of this event with another trace context beside it."""
        return Event(self.attributes, self.data, self.json_data, self.key, self.received_ns, self.position, trace)


def text_of(value: AttributeValue) -> str:
    """An attribute's value as the string that headers carry (CloudEvents 1.0.2 spec.md, "Type System": Boolean is
    `true` or `false`, Integer is decimal). A 0.1 object has no such form; it is written as compact JSON.
    """
    if type(value) is str:
        return value
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int):
        return str(value)
    import msgspec  # only 0.1 objects come here

    return msgspec.json.encode(value).decode()


def id_of(event: Event) -> str | None:
    """The event's id; CloudEvents 0.1 calls it `eventID`."""
    attributes = event.attributes
    return attributes.get("id") or attributes.get("eventID")


class Message:
    """What a transport carries, before a codec reads an event from it and after a codec wrote one into it.

    `headers` are (name, value) pairs in the order they came. HTTP names are lower-case; Kafka names are as written.
    `body` is None if the transport can tell "no body" from an empty one (Kafka's null value), else bytes.
    `key` is the record key, for transports that have one. `method` and `url` are those of an HTTP request, else "".
    `peer` is what an ingress knows of the client, None if nothing asks for it.
    """

    __slots__ = ("body", "headers", "key", "method", "peer", "url")

    def __init__(
        self,
        headers: list[tuple[bytes, bytes]],
        body: bytes | None = None,
        key: bytes | None = None,
        method: str = "",
        url: str = "",
    ) -> None:
        self.headers = headers
        self.body = body
        self.key = key
        self.method = method
        self.url = url
        self.peer: Any = None

    def header(self, name: bytes) -> bytes | None:
        """The first value of a header, by its lower-case name; None if it is absent."""
        for n, v in self.headers:
            if n == name or n.lower() == name:
                return v
        return None
