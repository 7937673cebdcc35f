"""Text with parts from a request: `{x-github-event}` is a header field, `{/data/object/id}` a JSON pointer (RFC 6901)
into the body, `{sha256(body)}` the body's digest. The body is JSON, or a form: then its field `payload` is the JSON, as
GitHub sends it unless told otherwise, or its fields are the members."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, quote

import msgspec
from gateway_json import json_text
from msgspec import Raw

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Message

_PART = re.compile(r"\{([^{}]*)\}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_FORM = b"application/x-www-form-urlencoded"
_IN_PATH = "-._~!$&'()*+,;=:@/"
_IN_URI = _IN_PATH + "?#[]%"
_NO_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
LONGEST = 4096
"""Characters that a part of a request may have in an attribute."""

_any = msgspec.json.Decoder().decode

DIGEST = "sha256(body)"


class Absent(Exception):
    """The request lacks a part; the text names it."""


class Request:
    """A message whose body is decoded once, and only if a template needs it."""

    __slots__ = ("_read", "_value", "message")

    def __init__(self, message: Message) -> None:
        self.message = message
        self._value: Any = None
        self._read = False

    def find(self, steps: list[str]) -> Any:
        """The value at these steps into the body; None if there is none. Raises `Refused` unless the body is JSON."""
        if not self._read:
            self._value = self._decoded()
            self._read = True
        found = self._value
        for step in steps:
            if isinstance(found, Raw):
                found = _inside(bytes(found), step)
            elif isinstance(found, dict):
                found = found.get(step)
            elif isinstance(found, list) and _INDEX.fullmatch(step) and int(step) < len(found):
                found = found[int(step)]
            else:
                return None
        return json_text.scalar(found) if isinstance(found, Raw) else found

    def _decoded(self) -> Any:
        body = self.message.body or b""
        kind = self.message.header(b"content-type") or b""
        if kind.partition(b";")[0].strip().lower() == _FORM:
            fields = _fields(body)
            if "payload" not in fields:
                return fields
            body = fields["payload"].encode()
        try:
            return _any(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as e:
            try:
                return Raw(json_text.checked(body))  # its parts are read one by one
            except ValueError:
                raise Refused(f"the body is not JSON: {e}", title="Not a webhook of this kind") from None


def _inside(text: bytes, step: str) -> Raw | None:
    found: bytes | None = None
    if text[:1] == b"{":
        found = json_text.members(text).get(step)
    elif text[:1] == b"[" and _INDEX.fullmatch(step):
        elements = json_text.elements(text)
        found = elements[int(step)] if int(step) < len(elements) else None
    return None if found is None else Raw(found)


def _fields(body: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=1000))
    except ValueError as e:
        raise Refused(f"the body is not a form: {e}", title="Not a webhook of this kind") from None


Read = Callable[[Request], str]


def parse(text: str, *, uri: bool = False) -> tuple[str | Read, ...]:
    """The pieces of a template: text, and what reads a part of a request. In that of a `uri` parts are percent-encoded:
    the one with which it begins may be a URI itself. Raises `ValueError`."""
    found = _PART.split(text)
    if any("{" in piece or "}" in piece for piece in found[::2]):
        raise ValueError("a brace has no partner: write {header-name} or {/json/pointer}")
    pieces: list[str | Read] = []
    for number, piece in enumerate(found):
        if number % 2:
            read = _pointer(piece) if piece[:1] == "/" else _digest if piece == DIGEST else _header(piece)
            pieces.append(_encoded(read, begins=not pieces) if uri else read)
        elif piece:
            pieces.append(piece)
    return tuple(pieces)


def fill(pieces: tuple[str | Read, ...], request: Request) -> str:
    """The text of a template for a request. Raises `Absent`, or `Refused` if the body is needed and is not JSON."""
    return "".join([piece if isinstance(piece, str) else piece(request) for piece in pieces])


def _encoded(read: Read, *, begins: bool) -> Read:
    safe = _IN_URI if begins else _IN_PATH

    def encoded(request: Request) -> str:
        text = quote(read(request), safe, errors="replace")
        return _NO_ESCAPE.sub("%25", text) if begins else text

    return encoded


def _digest(request: Request) -> str:
    return hashlib.sha256(request.message.body or b"").hexdigest()


def _header(name: str) -> Read:
    if not _HEADER.fullmatch(name):
        raise ValueError(f"{{{name}}} is neither a header field nor a JSON pointer: write {{x-name}} or {{/a/b}}")
    wanted = name.lower().encode()

    def read(request: Request) -> str:
        value = request.message.header(wanted)
        if not value:
            raise Absent(f"the header field {name}")
        try:
            return _short(value.decode(), name)
        except UnicodeDecodeError:
            raise Refused(f"the header field {name} is not text in UTF-8") from None

    return read


def _pointer(pointer: str) -> Read:
    if re.search("~(?![01])", pointer):
        raise ValueError(f"{{{pointer}}} is no JSON pointer: ~ is written ~0, and / in a name ~1")
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/")]

    def read(request: Request) -> str:
        found = request.find(steps)
        if found is True or found is False:
            return "true" if found else "false"
        if isinstance(found, str | int) and found != "":
            return _short(str(found), pointer)
        raise Absent(f"{pointer} in the body")

    return read


def _short(text: str, name: str) -> str:
    if len(text) > LONGEST:
        raise Refused(f"{name} has more than {LONGEST} characters")
    return text
