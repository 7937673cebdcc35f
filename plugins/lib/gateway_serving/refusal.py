"""Requests that the server refuses itself, and the answers to them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from email.utils import formatdate
from http import HTTPStatus

import h11

from .hosts import Hosts
from .limits import ListenerLimits

_ALLOW = ((b"allow", b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"),)


class RequestRefused(Exception):
    """The server refuses a request before the application sees it, and ends the connection."""

    def __init__(self, status: int, detail: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = headers


def check_head(request: h11.Request, limits: ListenerLimits) -> None:
    """Checks what h11 does not check. Raises `RequestRefused`."""
    headers = request.headers
    names = [name for name, _ in headers]
    if len(names) > limits.max_headers:
        raise RequestRefused(431, f"More than {limits.max_headers} header fields.")
    line = len(request.method) + len(request.target)
    if line + sum(len(name) + len(value) + 4 for name, value in headers) > limits.max_header_bytes:
        raise RequestRefused(
            431, f"The head is longer than {limits.max_header_bytes} bytes."
        )  # h11 counts what is incomplete
    if request.http_version not in (b"1.1", b"1.0"):
        raise RequestRefused(400, "This server speaks HTTP/1.1.")
    if b"transfer-encoding" in names and (b"content-length" in names or request.http_version == b"1.0"):
        raise RequestRefused(400, "Content-Length and Transfer-Encoding exclude each other (RFC 9112 section 6.1).")
    if request.method == b"CONNECT":
        raise RequestRefused(405, "CONNECT is not supported here.", _ALLOW)
    for name, value in headers:
        if name == b"expect" and value.lower() != b"100-continue":
            raise RequestRefused(417, "The only supported expectation is 100-continue.")


def check_host(headers: Sequence[tuple[bytes, bytes]], hosts: Hosts) -> None:
    """Checks the host name. Raises `RequestRefused`. Only programs leave it out (HTTP/1.0)."""
    for name, value in headers:
        if name == b"host" and (detail := hosts.refusal(value)):
            raise RequestRefused(421, detail)


def reason_phrase(status: int) -> bytes:
    try:
        return HTTPStatus(status).phrase.encode()
    except ValueError:
        return b""


def problem(bad: RequestRefused) -> bytes:
    """A complete response with a problem description (RFC 9457)."""
    fields = {
        "type": "about:blank",
        "title": HTTPStatus(bad.status).phrase,
        "status": bad.status,
        "detail": bad.detail,
    }
    body = json.dumps(fields).encode()
    lines = [
        b"HTTP/1.1 %d %s" % (bad.status, reason_phrase(bad.status)),
        b"date: " + formatdate(usegmt=True).encode(),
        b"content-type: application/problem+json",
        *(b"%s: %s" % header for header in bad.headers),
        b"content-length: %d" % len(body),
        b"connection: close",
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body
