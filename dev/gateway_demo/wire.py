"""Events as HTTP/1.1 requests in the three content modes (CloudEvents HTTP protocol binding 1.0, section 3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from .flights import FlightEvent

BATCH = 100


@dataclass(frozen=True, slots=True)
class Request:
    """The bytes of a request, and its events."""

    raw: bytes
    events: tuple[FlightEvent, ...]


def requests(events: Iterable[FlightEvent], host: str, path: str) -> Iterator[Request]:
    """Turns events into requests: a third each in binary mode, in structured mode, and in batches of 100."""
    head = f"POST {path} HTTP/1.1\r\nhost: {host}\r\n".encode()
    batch: list[FlightEvent] = []
    for n, event in enumerate(events):
        if n % 3 == 0:
            yield _binary(head, event)
        elif n % 3 == 1:
            yield _structured(head, event)
        else:
            batch.append(event)
            if len(batch) == BATCH:
                yield _batch(head, batch)
                batch = []
    if batch:
        yield _batch(head, batch)


def _binary(head: bytes, event: FlightEvent) -> Request:
    lines = [f"ce-{k}: {v}" for k, v in event.attributes.items() if k != "datacontenttype"]
    return _request(head, event.attributes["datacontenttype"], event.data, (event,), lines)


def _structured(head: bytes, event: FlightEvent) -> Request:
    return _request(head, "application/cloudevents+json", _json(event), (event,))


def _batch(head: bytes, events: list[FlightEvent]) -> Request:
    body = b"[" + b",".join(map(_json, events)) + b"]"
    return _request(head, "application/cloudevents-batch+json", body, tuple(events))


def _json(event: FlightEvent) -> bytes:
    return msgspec.json.encode({**event.attributes, "data": msgspec.Raw(event.data)})


def _request(
    head: bytes, content_type: str, body: bytes, events: tuple[FlightEvent, ...], lines: Iterable[str] = ()
) -> Request:
    rest = "\r\n".join([f"content-type: {content_type}", f"content-length: {len(body)}", *lines, "", ""])
    return Request(head + rest.encode("latin-1") + body, events)
