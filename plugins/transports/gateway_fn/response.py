"""Turns the event that a function returned into the HTTP response (Fn, "HTTP Response" and "Internal FDK errors")."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, NamedTuple

from gateway_core.contract.errors import NotDelivered, Overloaded, Refused, StorageError, TidegateError
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome

from .names import RESPONSE, content_type_of, extension, is_error, message_of

Headers = tuple[tuple[bytes, bytes], ...]

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NO_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
# connection headers (RFC 9110 section 7.6.1), the server's own, and the one that contentType sets
_IGNORED = frozenset(
    {
        *("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
        *("content-length", "date", "content-type"),
    }
)
_WITHOUT_BODY = frozenset({204, 205, 304})


class Response(NamedTuple):
    """A complete response to the caller."""

    status: int
    headers: Headers = ()
    body: bytes = b""


class InvalidResponse(TidegateError):
    """A function returned something that can't become an HTTP response."""


def response_of(event: Event) -> Response:
    """The response for a returned event. Raises `InvalidResponse`."""
    said = _said(event)
    status, headers = _status(said), tuple(_headers(said))
    if is_error(event):
        wanted = status if status is not None and status >= 500 else 502
        answer = problem(wanted, message_of(event))
        return answer._replace(headers=(*answer.headers, *headers))
    if status is None:
        status = 204 if event.data is None else 200
    if event.data is None or status in _WITHOUT_BODY:
        return Response(status, headers)
    content_type = content_type_of(event)
    if content_type is not None:
        headers = ((b"content-type", _value("contentType", content_type)), *headers)
    return Response(status, headers, event.data)


def _said(event: Event) -> dict[str, Any]:
    try:
        said = extension(event, RESPONSE)
    except ValueError as e:
        raise InvalidResponse(str(e)) from e
    if said is None:
        return {}
    if not isinstance(said, dict):
        raise InvalidResponse(f"{RESPONSE} is not an object")
    return said


def _status(said: dict[str, Any]) -> int | None:
    status = said.get("status")
    if status is None:
        return None
    if type(status) is not int or not 200 <= status <= 599:
        raise InvalidResponse(f"{RESPONSE}.status {status!r:.100} is not an HTTP response status (200 to 599)")
    return status


def _headers(said: dict[str, Any]) -> Iterator[tuple[bytes, bytes]]:
    headers = said.get("headers")
    if headers is None:
        return
    if not isinstance(headers, dict):
        raise InvalidResponse(f"{RESPONSE}.headers is not an object")
    for name, values in headers.items():
        if not _NAME.fullmatch(name):
            raise InvalidResponse(f"{RESPONSE}.headers has {name!r:.100}, which is not a header name")
        if name.lower() in _IGNORED:
            continue
        for value in [values] if isinstance(values, str) else values if isinstance(values, list) else [None]:
            yield name.lower().encode(), _value(name, value)


def _value(name: str, value: Any) -> bytes:
    if not isinstance(value, str) or _NO_VALUE.search(value):
        raise InvalidResponse(f"header {name} has a value that is invalid in HTTP: {value!r:.100}")
    return value.strip(" \t").encode(errors="replace")


# -- the gateway's own responses -----------------------------------------------------------------------------------


def problem(status: int, detail: str, headers: Headers = (), **more: str) -> Response:
    """A problem description (RFC 9457)."""
    try:
        title = HTTPStatus(status).phrase
    except ValueError:
        title = "Error"
    fields = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    body = json.dumps(fields | {name: value for name, value in more.items() if value}).encode()
    return Response(status, ((b"content-type", b"application/problem+json"), *headers), body)


def refused(error: Refused) -> Response:
    """The response to a request that can't become an event."""
    return problem(error.status, error.detail, tuple(error.headers), attribute=error.attribute, rule=error.rule)


def unpublished(error: BaseException) -> Response:
    """The response if the returned event could not be stored."""
    if isinstance(error, NotDelivered):
        return problem(error.status, f"the function's event was {error}")
    if isinstance(error, Refused):
        return refused(error)
    if isinstance(error, Overloaded | StorageError):
        return busy(f"the function's event was not accepted: {error}", error.retry_after_s)
    return busy("the gateway failed; see its log", None)


def busy(detail: str, retry_after_s: float | None = 1.0) -> Response:
    """The response to a caller that may retry."""
    wait = () if retry_after_s is None else ((b"retry-after", str(max(1, math.ceil(retry_after_s))).encode()),)
    return problem(503, detail, wait)


def failed(outcome: Outcome) -> Response:
    """The response if the function could not be called: 503 if it asked for a delay, or this machine could not call it;
    422 if it refused the call permanently, so that the caller does not retry; else 502."""
    detail = f"the function could not be called: {outcome.reason}"
    if outcome.local:
        return busy(detail)
    if outcome.code in (429, 503):
        return busy(detail, outcome.retry_after_s)
    if not outcome.retry and outcome.code is not None and 400 <= outcome.code < 500:
        return problem(422, detail)
    return problem(502, detail)


def nothing(outcome: Outcome) -> Response:
    """The response if the function accepted the event and returned none."""
    if outcome.code == 200:
        return problem(502, "the function responded 200 without an event")
    return Response(204)
