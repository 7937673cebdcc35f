"""Reads the events that servers got, independently of the product's codecs."""

from __future__ import annotations

import json
from base64 import b64decode
from urllib.parse import unquote

from .history import Arrived


def attributes_of(arrived: Arrived) -> dict[str, str]:
    """The attributes of the event in a request, as text."""
    headers = dict(arrived.headers)
    kind = headers.get("content-type", "")
    if kind.startswith("application/cloudevents"):
        found = json.loads(arrived.body)
        found = found[0] if isinstance(found, list) else found
        return {n: v if isinstance(v, str) else json.dumps(v) for n, v in found.items() if not n.startswith("data_")}
    attributes = {n[3:]: unquote(v) for n, v in headers.items() if n.startswith("ce-")}
    if kind:
        attributes["datacontenttype"] = kind
    return attributes


def data_of(arrived: Arrived) -> bytes:
    """The data of the event in a request."""
    if dict(arrived.headers).get("content-type", "").startswith("application/cloudevents"):
        found = json.loads(arrived.body)
        found = found[0] if isinstance(found, list) else found
        if "data_base64" in found:
            return b64decode(found["data_base64"])
        data = found.get("data", "")
        return data.encode() if isinstance(data, str) else json.dumps(data).encode()
    return arrived.body
