"""Reads the events that servers got, independently of the product's codecs."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any
from urllib.parse import unquote

from .history import Arrived

BATCH = "application/cloudevents-batch+json"


def attributes_of_all(arrived: Arrived) -> list[dict[str, str]]:
    """The attributes of each event in a request, as text."""
    headers = dict(arrived.headers)
    kind = headers.get("content-type", "")
    if kind.startswith("application/cloudevents"):
        return [_attributes(found) for found in _listed(arrived)]
    attributes = {n[3:]: unquote(v) for n, v in headers.items() if n.startswith("ce-")}
    if kind:
        attributes["datacontenttype"] = kind
    return [attributes]


def attributes_of(arrived: Arrived) -> dict[str, str]:
    """The attributes of the first event in a request, as text."""
    return attributes_of_all(arrived)[0]


def data_of(arrived: Arrived, place: int = 0) -> bytes:
    """The data of an event in a request."""
    if dict(arrived.headers).get("content-type", "").startswith("application/cloudevents"):
        found = _listed(arrived)[place]
        if "data_base64" in found:
            return b64decode(found["data_base64"])
        data = found.get("data", "")
        return data.encode() if isinstance(data, str) else json.dumps(data).encode()
    return arrived.body


def _listed(arrived: Arrived) -> list[dict[str, Any]]:
    found = json.loads(arrived.body)
    return found if isinstance(found, list) else [found]


def _attributes(found: dict[str, Any]) -> dict[str, str]:
    kept = {n: v for n, v in found.items() if n != "data" and not n.startswith("data_")}
    return {n: v if isinstance(v, str) else json.dumps(v) for n, v in kept.items()}
