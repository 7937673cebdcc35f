"""Text with parts from a request: `{x-github-event}` is a header field, `{/data/object/id}` a JSON pointer (RFC 6901)
into the body, `{sha256(body)}` the body's digest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

import msgspec

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Message

_PART = re.compile(r"\{([^{}]*)\}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
LONGEST = 4096
"""Characters that a part of a request may have in an attribute."""


DIGEST = "sha256(body)"


class Absent(Exception):
    """The request lacks a part; the text names it."""


class Request:
    """A message whose body is decoded once, and only if a template needs it."""

    __slots__ = ("_json", "message")

    def __init__(self, message: Message) -> None:
        self.message = message
        self._json: Any = self  # not decoded yet

    def json(self) -> Any:
        """The body. Raises `Refused` unless it is JSON."""
        if self._json is self:
            try:
                self._json = msgspec.json.decode(self.message.body or b"")
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
                raise Refused(f"the body is not JSON: {e}", title="Not a webhook of this kind") from None
        return self._json


Read = Callable[[Request], str]


def parse(text: str) -> tuple[str | Read, ...]:
    """The pieces of a template: text, and what reads a part of a request. Raises `ValueError`."""
    found = _PART.split(text)
    if any("{" in piece or "}" in piece for piece in found[::2]):
        raise ValueError("a brace has no partner: write {header-name} or {/json/pointer}")
    pieces: list[str | Read] = []
    for number, piece in enumerate(found):
        if number % 2:
            pieces.append(_pointer(piece) if piece[:1] == "/" else _digest if piece == DIGEST else _header(piece))
        elif piece:
            pieces.append(piece)
    return tuple(pieces)


def fill(pieces: tuple[str | Read, ...], request: Request) -> str:
    """The text of a template for a request. Raises `Absent`, or `Refused` if the body is needed and is not JSON."""
    return "".join([piece if isinstance(piece, str) else piece(request) for piece in pieces])


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
        found = request.json()
        for step in steps:
            if isinstance(found, dict):
                found = found.get(step)
            elif isinstance(found, list) and _INDEX.fullmatch(step) and int(step) < len(found):
                found = found[int(step)]
            else:
                found = None
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
