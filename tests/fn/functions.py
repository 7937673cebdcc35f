"""What functions of the tests answer, and how the tests call and look."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
from gateway_testing import Received

from tests import web

STRUCTURED = {"content-type": "application/cloudevents+json"}
Answer = tuple[int, Mapping[str, str], bytes]


def returned(**members: Any) -> Answer:
    """The answer of a function that returns an event under Fn's names."""
    return 200, STRUCTURED, json.dumps({"cloudEventsVersion": "0.1", **members}).encode()


def returned_1_0(**members: Any) -> Answer:
    """The answer of a function that returns an event of 1.0."""
    return 200, STRUCTURED, json.dumps({"specversion": "1.0", **members}).encode()


def with_response(said: Any, **members: Any) -> Answer:
    """The answer of a function that says how the HTTP response shall be."""
    return returned(extensions={"ioFnProjectHttpResp": said}, **members)


def failing(message: str, **members: Any) -> Answer:
    """The answer of a function that failed."""
    data = {"message": message}
    return returned(eventType="io.fnproject.fnError", contentType="application/json", data=data, **members)


def event_in(received: Received) -> dict[str, Any]:
    """The structured event of a request."""
    event: dict[str, Any] = json.loads(received.body)
    return event


def letters(folder: Path) -> list[dict[str, Any]]:
    """The events in a gateway's dead-letter file."""
    file = folder / "data" / "dead-letter" / "default.jsonl"
    return [json.loads(line)["event"] for line in file.read_text().splitlines()] if file.exists() else []


def call(url: str, method: str = "GET", **more: Any) -> httpx.Response:
    return web.request(method, url, timeout=30, verify=False, **more)
