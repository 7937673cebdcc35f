"""Turns an HTTP request into the event that calls a function (Fn, "HTTP Request")."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from gateway_core.contract.event import Event
from gateway_core.contract.peer import Peer

from .convert import converted
from .names import DEADLINE, EXTENSIONS, HTTP_REQUEST, REQUEST, VERSION, rfc3339

_UNKNOWN = Peer("")
_BYTES = "application/octet-stream"
_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class Request:
    """A received request. `authority` is the requested host, `target` the path and query as received; header names are
    in lower case. `peer` is the client."""

    method: str
    scheme: str
    authority: bytes
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    peer: Peer = _UNKNOWN

    @property
    def path(self) -> str:
        return self.target.partition(b"?")[0].decode("latin-1")


def event_of(request: Request, base: str, version: str, now_ns: int, timeout_s: float) -> Event:
    """The `io.fnproject.httpRequest` event."""
    url = request_url(request, base)
    attributes: dict[str, Any] = {
        VERSION: "0.1",
        "eventType": HTTP_REQUEST,
        "eventTypeVersion": "1.0",
        "source": url,
        "eventID": str(uuid4()),
        "eventTime": rfc3339(now_ns),
        EXTENSIONS: {
            REQUEST: {"method": request.method, "headers": header_lists(request.headers), "requestURL": url},
            DEADLINE: rfc3339(now_ns + round(timeout_s * 1e9)),
        },
    }
    body = request.body or None
    if body is not None:
        # a body without a media type may be anything (RFC 9110 section 8.3)
        attributes["contentType"] = _content_type(request.headers) or _BYTES
    return converted(Event(attributes, body, received_ns=now_ns), version)


def request_url(request: Request, base: str) -> str:
    """The URL of the request: `base`, or scheme and host, then path and query. Characters that URIs don't allow are
    percent-encoded."""
    base = base or f"{request.scheme}://{quote(request.authority, safe=_HOST)}"
    return base + _BAD_ESCAPE.sub("%25", quote(request.target, safe=_TARGET))


_HOST = "-._~!$&'()*+,;=:[]%"
_TARGET = "-._~!$&'()*+,;=:@/?%"


def header_lists(headers: list[tuple[bytes, bytes]]) -> dict[str, list[str]]:
    """All values of each header, in order. HTTP engines pass names in lower case; here each word is capitalised, as in
    Fn's own gateway, because some function development kits look them up like that."""
    lists: dict[str, list[str]] = {}
    for name, value in headers:
        if name[:1] != b":":
            word = "-".join(part.capitalize() for part in name.decode("latin-1").split("-"))
            lists.setdefault(word, []).append(text(value))
    return lists


def text(value: bytes) -> str:
    """A header's value as UTF-8 if it is valid, else as Latin-1."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _content_type(headers: list[tuple[bytes, bytes]]) -> str:
    return next((text(value) for name, value in headers if name == b"content-type"), "")
