"""Events for `tidegate send`: from JSON text or from flags."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import typer
from gateway_cloudevents import event_json
from gateway_cloudevents.jsonformat import JsonFormat
from gateway_json import json_text

from gateway_core.contract.cli.common import CommandError
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event

_format = JsonFormat()


def from_file(file: Path) -> Iterator[bytes]:
    """The events of a file (`-`: standard input), each as JSON text. Raises `CommandError` naming the line."""
    if str(file) == "-":
        yield from read(sys.stdin.buffer, "standard input")
        return
    try:
        with file.open("rb") as f:
            yield from read(f, str(file))
    except OSError as e:
        raise CommandError(f"can't read {file}: {e.strerror}") from e


def read(source: BinaryIO, name: str) -> Iterator[bytes]:
    """Reads events: one per line, in an array, or a single event over many lines. Lines are read as they arrive."""
    first, number = b"", 0
    while not first:
        line = source.readline()
        number += 1
        if not line:
            return
        first = line.removeprefix(json_text.BOM).strip()
    if _is_object(first):
        yield first
        for line in source:
            number += 1
            if text := line.strip():
                if not _is_object(text):
                    raise CommandError(f"{name}:{number}: not a JSON object")
                yield text
        return
    whole = (line.removeprefix(json_text.BOM) + source.read()).strip()
    if _is_object(whole):
        yield whole
        return
    try:
        texts = json_text.elements(whole)
    except ValueError as e:
        why = "" if whole.startswith(b"{") else f": {e}"
        raise CommandError(f"{name}: expected one event per line, an array, or a single event{why}") from e
    for i, text in enumerate(texts):
        if not _is_object(text):
            raise CommandError(f"{name}: element {i} of the array is not a JSON object")
        yield text


def _is_object(text: bytes) -> bool:
    try:
        event_json.members(text)
    except ValueError:
        return False
    return True


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
