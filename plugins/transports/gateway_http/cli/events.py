"""Events for `tidegate send`: from JSON text or from flags."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer
from gateway_cloudevents import event_json
from gateway_cloudevents.jsonformat import JsonFormat
from gateway_json import json_text

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event

_format = JsonFormat()


def plain(text: bytes) -> bytes:
    """The text unchanged, or without the members that exist only in our own files."""
    own = event_json.OWN & event_json.members(text).keys()
    return event_json.structured(event_json.load(text)) if own else text


def event_of(text: bytes) -> Event:
    """The event of the text: as an ingress reads it, or else as it is."""
    if not event_json.OWN & event_json.members(text).keys():
        with suppress(Refused):
            return _format.decode(text)
    return event_json.load(text)


def from_flags(attributes: Mapping[str, str | None], data: str | None, extensions: Sequence[str]) -> Event:
    """One event from the flags; `specversion`, `id` and `time` are filled in. Raises `BadParameter`."""
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": str(uuid.uuid4()),
        "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    event.update((name, value) for name, value in attributes.items() if value is not None)
    for extension in extensions:
        name, equals, value = extension.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{extension!r}: write NAME=VALUE", param_hint="--ext")
        event[name] = value
    if data is None:
        return Event(event)
    content = _content(data)
    if "datacontenttype" not in event and not data.startswith("@"):
        _not_nearly_json(content)
    event.setdefault("datacontenttype", "application/json" if _is_json(content) else "text/plain")
    return Event(event, content)


def _not_nearly_json(content: bytes) -> None:
    """Rejects data that begins like JSON but is not valid: the shell removed a quote, or a bracket is missing."""
    if content.lstrip()[:1] not in (b"{", b"["):
        return
    try:
        json_text.checked(content)
    except ValueError as e:
        hint = "fix it, or pass --content-type text/plain if it is text"
        raise typer.BadParameter(f"it begins like JSON but is not valid: {e}; {hint}", param_hint="--data") from e


def _content(data: str) -> bytes:
    if not data.startswith("@"):
        return data.encode()
    try:
        return Path(data[1:]).read_bytes()
    except OSError as e:
        raise typer.BadParameter(f"can't read {data[1:]}: {e.strerror}", param_hint="--data") from e


def _is_json(content: bytes) -> bool:
    try:
        json_text.checked(content)
    except ValueError:
        return False
    return True
