"""The constant part of a sink's requests, the same for both client engines."""

from __future__ import annotations

import base64
from urllib.parse import unquote, urlsplit

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Message

from .config import HttpSinkConfig
from .secrecy import shown_url

_HARMLESS = bytes(set(range(256)) - set(b"\r\n\0"))


class Target:
    """A sink's URL in parts. Requests go to `url`; `address` is the form without secrets; `headers` are sent with every
    request."""

    def __init__(self, options: HttpSinkConfig, wants_reply: bool) -> None:
        parts = urlsplit(options.url)
        self.tls = parts.scheme == "https"
        self.host = parts.hostname or ""
        self.port = parts.port or (443 if self.tls else 80)
        name = f"[{self.host}]" if ":" in self.host else self.host
        place = name if parts.port is None else f"{name}:{parts.port}"
        self.path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self.url = f"{parts.scheme}://{place}{self.path}"
        self.address = shown_url(options.shown("url") or self.url, hidden=options.hides("url"))
        headers = {"host": place, "user-agent": "tidegate"}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            headers["authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        if wants_reply:
            headers["prefer"] = "reply"
        headers |= {name.lower(): value for name, value in options.headers.items()}
        self.headers = [(name.encode(), value.encode()) for name, value in headers.items()]


_HIDDEN = b"****"
_SECRET = (b"authorization", b"proxy-authorization", b"cookie")


def preview(options: HttpSinkConfig, target: Target, message: Message) -> Message:
    """The request in a form without secrets. Raises `Refused` if it can't be written."""
    header_lines(message)
    secret = {name.lower().encode() for name in options.headers} if options.hides("headers") else set()
    fixed = [(n, _HIDDEN if n in _SECRET or n in secret else v) for n, v in target.headers]
    return Message([*fixed, *message.headers], message.body or b"", None, "POST", target.address)


class RequestWriter:
    """Writes each request as one piece of HTTP/1.1 bytes."""

    def __init__(self, target: Target) -> None:
        lines = b"".join([b"%s: %s\r\n" % header for header in target.headers])
        self._start = b"POST %s HTTP/1.1\r\n" % target.path.encode() + lines
        self.probe = b"OPTIONS %s HTTP/1.1\r\n" % target.path.encode() + lines + b"\r\n"

    def write(self, message: Message) -> bytes:
        body = message.body or b""
        return b"%s%scontent-length: %d\r\n\r\n%s" % (self._start, header_lines(message), len(body), body)


def header_lines(message: Message) -> bytes:
    """Raises `Refused` if a header contains a line break, which would begin another header or request."""
    headers = message.headers
    lines = b"\r\n".join([*map(b": ".join, headers), b""])
    if lines.translate(None, _HARMLESS) != b"\r\n" * len(headers):
        raise Refused("a header value contains a line break or NUL", rule="RFC 9110 section 5.5")
    return lines
