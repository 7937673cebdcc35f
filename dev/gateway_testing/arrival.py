"""Decodes the event in a request independently, for tests that compare it with what was sent.

Source: CloudEvents HTTP binding 1.0.2, section 3. It shares no code with the codecs under test.
"""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from gateway_core.contract.event import text_of

from .subscriber import Received


@dataclass(frozen=True, slots=True)
class Arrival:
    """One delivery. `attributes` are percent-decoded text; `mode` is "binary" or "structured", or "" if the request is
    not a CloudEvent."""

    request: Received
    mode: str
    attributes: dict[str, str]
    data: bytes

    @property
    def time(self) -> float:
        return self.request.time


def read(request: Received) -> Arrival:
    """Decodes the event in a request."""
    kind = request.headers.get("content-type", "")
    if kind.lower().startswith("application/cloudevents"):
        try:
            return _structured(request, json.loads(request.body))
        except (ValueError, TypeError, AttributeError):
            return Arrival(request, "", {}, request.body)
    attributes = {}
    for name, value in request.headers.items():
        if name.startswith("ce-"):
            raw = value.encode("latin-1")  # http.server reads headers as Latin-1; senders may write UTF-8 unencoded
            attributes[name[3:]] = unquote(raw.decode(errors="replace"))
    if not attributes:
        return Arrival(request, "", {}, request.body)
    if kind:
        attributes["datacontenttype"] = kind
    return Arrival(request, "binary", attributes, request.body)


def _structured(request: Received, document: dict[str, Any]) -> Arrival:
    data = document.pop("data", None)
    coded = document.pop("data_base64", None)
    attributes = {name: text_of(value) for name, value in document.items() if value is not None}
    if coded is None and attributes.get("datacontentencoding") == "base64":
        coded = data
        del attributes["datacontentencoding"]
    if coded is not None:
        body = b64decode(coded)
    elif data is None:
        body = b""
    elif isinstance(data, str) and "json" not in attributes.get("datacontenttype", "json"):
        body = data.encode()
    else:
        body = json.dumps(data).encode()
    return Arrival(request, "structured", attributes, body)
