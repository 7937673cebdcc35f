"""How pages show an event: its attributes, and its data as JSON, text or bytes.

An event may say anything, so what is shown is bounded, and templates escape it.
"""

from __future__ import annotations

import json
import shlex
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway_api.roles import Role

from .config import HIDDEN, HideConfig

MOST_DATA = 64 * 1024
_LINE = 16
_MOST_BYTES = 4096
_FIRST = ("specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema")


@dataclass(frozen=True, slots=True)
class DataView:
    """The data as text. `kind` is "JSON", "text", "bytes", "none" or "hidden"; `size` is in bytes; `cut` is true if
    `text` is only the start."""

    kind: str
    text: str = ""
    size: int = 0
    cut: bool = False


@dataclass(frozen=True, slots=True)
class EventView:
    """An event as a reader may see it: its attributes, those of the specification first, and its data."""

    attributes: list[tuple[str, str]]
    data: DataView

    def attribute(self, name: str) -> str:
        """The value of an attribute as the reader sees it, "" if the event has none."""
        return next((value for known, value in self.attributes if known == name), "")


def view(event: Mapping[str, Any], hides: HideConfig, role: Role | None) -> EventView:
    """The view of an event in CloudEvents JSON (JSON Event Format section 3)."""
    own = {name: value for name, value in event.items() if name not in ("data", "data_base64")}
    names = [*(name for name in _FIRST if name in own), *sorted(own.keys() - set(_FIRST))]
    shown = [(name, HIDDEN if hides.hides_attribute(name, role) else _text(own[name])) for name in names]
    if hides.hides_data(role):
        return EventView(shown, DataView("hidden", HIDDEN))
    return EventView(shown, data_view(event))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def data_view(event: Mapping[str, Any]) -> DataView:
    """The data of an event in CloudEvents JSON."""
    if "data_base64" in event:
        try:
            raw = b64decode(event["data_base64"])
        except (ValueError, TypeError):
            return _cut("text", str(event["data_base64"]))
        return bytes_view(raw)
    if "data" not in event:
        return DataView("none")
    data = event["data"]
    if isinstance(data, str):
        return bytes_view(data.encode("utf-8", "surrogatepass"))
    return _cut("JSON", json.dumps(data, indent=2, ensure_ascii=False))


def bytes_view(raw: bytes) -> DataView:
    """Bytes as JSON if they are, else as text, else in hexadecimal."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        shown = raw[:_MOST_BYTES]
        return DataView("bytes", hex_dump(shown), len(raw), len(shown) < len(raw))
    if text.lstrip()[:1] in ("{", "[") and len(raw) <= MOST_DATA:
        try:
            return _cut("JSON", json.dumps(json.loads(text), indent=2, ensure_ascii=False))
        except (ValueError, RecursionError):
            pass
    return _cut("text", text)


def _cut(kind: str, text: str) -> DataView:
    size = len(text.encode("utf-8", "surrogatepass"))
    return DataView(kind, text[:MOST_DATA], size, len(text) > MOST_DATA)


def hex_dump(raw: bytes) -> str:
    """Bytes in lines of sixteen: the offset, the bytes, and what is printable ASCII of them."""
    lines = []
    for start in range(0, len(raw), _LINE):
        part = raw[start : start + _LINE]
        plain = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {part.hex(' '):<{3 * _LINE}} {plain}")
    return "\n".join(lines)


def as_curl(event: Mapping[str, Any], url: str) -> str:
    """A command that sends the event again with curl, in structured mode."""
    body = json.dumps(dict(event), ensure_ascii=False)
    return f"curl -X POST {shlex.quote(url)} -H 'content-type: application/cloudevents+json' -d {shlex.quote(body)}"


def as_send(event: Mapping[str, Any], url: str) -> str:
    """A command that sends the event again with `tidegate send`, which reads events from lines of JSON."""
    body = json.dumps(dict(event), ensure_ascii=False)
    return f"printf '%s\\n' {shlex.quote(body)} | tidegate send {shlex.quote(url)} -"
