"""Turns what a scenario sends into messages."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from gateway_core.contract.event import Message

from .model import MessageConfig, SendConfig

STRUCTURED = (b"content-type", b"application/cloudevents+json")
_OLDEST = ("cloudEventsVersion", "eventType", "eventID")


def messages(send: SendConfig, number: int, folder: Path) -> Iterator[Message]:
    """The messages of one entry; `number` is that of its first event in the scenario, from 1. Raises `OSError` and
    `CommandError` if its file can't be read."""
    key = None if send.key is None else send.key.encode()
    if send.message is not None:
        for _ in range(send.count):
            yield _raw(send.message, key)
    elif send.file is not None:
        for _ in range(send.count):
            for text in _texts(folder / send.file):
                yield Message([STRUCTURED], text, key)
    else:
        assert send.event is not None
        for n in range(1, send.count + 1):
            event = _numbered(send.event, n) if send.count > 1 else send.event
            yield Message([STRUCTURED], event_text(event, str(number + n - 1)), key)


def _texts(file: Path) -> Iterator[bytes]:
    from gateway_cloudevents.event_files import from_file

    yield from from_file(file)


def _raw(config: MessageConfig, key: bytes | None) -> Message:
    headers = [(name.lower().encode(), value.encode()) for name, value in config.headers.items()]
    body = config.body
    data = None if body is None else body.encode() if isinstance(body, str) else msgspec.json.encode(body)
    return Message(headers, data, config.key.encode() if config.key is not None else key, "POST")


def event_text(event: Mapping[str, Any], id: str) -> bytes:
    """A scenario's event as structured JSON: required attributes are filled in, and null removes one."""
    members = dict(event)
    if not any(name in members for name in _OLDEST):
        members = {"specversion": "1.0", "id": id, "source": "/tests", "type": "test", **members}
    data = members.pop("data", None)
    members = {name: value for name, value in members.items() if value is not None}
    if data is not None:
        _set_data(members, data)
    return msgspec.json.encode(members)


def _set_data(members: dict[str, Any], data: Any) -> None:
    name = "contentType" if "cloudEventsVersion" in members else "datacontenttype"
    if not isinstance(data, str):
        members.setdefault(name, "application/json")
        members["data"] = data
    elif "json" in str(members.setdefault(name, "text/plain")):
        members["data_base64"] = b64encode(data.encode()).decode()  # the text is already JSON
    else:
        members["data"] = data


def _numbered(value: Any, n: int) -> Any:
    if isinstance(value, str):
        return value.replace("{n}", str(n))
    if isinstance(value, dict):
        return {k: _numbered(v, n) for k, v in value.items()}
    if isinstance(value, list):
        return [_numbered(v, n) for v in value]
    return value
