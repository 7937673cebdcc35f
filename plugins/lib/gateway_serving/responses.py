"""The responses of the ingress, for both server engines.

Sources: RFC 9457 (problem details), RFC 9110 (status codes), Knative data plane contract, CloudEvents HTTP webhooks 4.
"""

from __future__ import annotations

import json
import logging
import math
from email.utils import formatdate
from http import HTTPStatus
from typing import NamedTuple

from gateway_core.contract.errors import NotDelivered, Overloaded, Refused, StorageError
from gateway_core.contract.shortage import may_pass
from gateway_serving.unexpected import log_unexpected

log = logging.getLogger(__name__)

Headers = tuple[tuple[bytes, bytes], ...]
_ALLOW = b"POST, OPTIONS"
_LONGEST_METHOD = 20  # characters of it in a response


class Response(NamedTuple):
    """A complete response, for either engine to write."""

    status: int
    headers: Headers = ()
    body: bytes = b""


ACCEPTED = Response(202)


class Answered(Exception):
    """A request that holds no event and gets an answer of its own."""

    def __init__(self, response: Response) -> None:
        super().__init__("answered")
        self.response = response


def problem(
    status: int,
    detail: str,
    *,
    title: str = "",
    attribute: str = "",
    rule: str = "",
    headers: Headers = (),
    sink_status: int | None = None,
) -> Response:
    """A problem description (RFC 9457). `attribute` and `rule` (for refused events) and `sinkStatus` (for events that a
    bridge's sink refused) are extension members."""
    fields: dict[str, str | int] = {"type": "about:blank", "title": title or HTTPStatus(status).phrase}
    fields |= {"status": status, "detail": detail}
    if sink_status is not None:
        fields["sinkStatus"] = sink_status
    if attribute:
        fields["attribute"] = attribute
    if rule:
        fields["rule"] = rule
    body = json.dumps(fields).encode()
    return Response(status, ((b"content-type", b"application/problem+json"), *headers), body)


def for_error(error: BaseException | None) -> Response:
    """The response for an input's result; None means accepted."""
    if error is None:
        return ACCEPTED
    if isinstance(error, Answered):
        return error.response
    if isinstance(error, Refused):
        return problem(
            error.status,
            error.detail,
            title=error.title,
            attribute=error.attribute,
            rule=error.rule,
            headers=tuple(error.headers),
        )
    if isinstance(error, NotDelivered):  # a 4xx that senders don't retry (RFC 9110 section 15.5.21)
        return problem(error.status, str(error), title="Not delivered", sink_status=error.code)
    if isinstance(error, Overloaded | StorageError):
        wait = str(max(1, math.ceil(error.retry_after_s))).encode()
        return problem(503, str(error), headers=((b"retry-after", wait),))
    log_once(error)
    if may_pass(error):
        return problem(503, "The gateway is short of resources.", headers=((b"retry-after", b"1"),))
    return problem(500, "The gateway failed; the event was not accepted.")


def log_once(error: BaseException) -> None:
    """Counts an unexpected error, and logs it without data from the sender."""
    log_unexpected(log, "taking an event", error)


def options_answer(permission: Headers = ()) -> Response:
    """`Allow`, and the permission that a webhook sender gets (CloudEvents HTTP webhooks 4.2)."""
    return Response(200, ((b"allow", _ALLOW), *permission))


def not_allowed(method: bytes) -> Response:
    """405, with the allowed methods."""
    name = method[:_LONGEST_METHOD].decode("latin-1")
    return problem(405, f"{name} is not supported here: send events with POST", headers=((b"allow", _ALLOW),))


NOT_FOUND = problem(404, "There is no ingress at this path.")


def too_large(limit: int) -> Response:
    return problem(413, f"The body is longer than {limit} bytes.")


def date_now() -> bytes:
    """The `Date` header line (RFC 9110 section 6.6.1)."""
    return b"date: " + formatdate(usegmt=True).encode() + b"\r\n"


def wire(response: Response, date: bytes, *, close: bool = False, head: bool = False) -> bytes:
    """A response as HTTP/1.1 bytes. `head` leaves the body out (RFC 9110 section 9.3.2)."""
    status, headers, body = response
    lines = [b"HTTP/1.1 %d %s\r\n" % (status, HTTPStatus(status).phrase.encode()), date]
    lines += [b"%s: %s\r\n" % header for header in headers]
    lines.append(b"content-length: %d\r\n" % len(body))
    if close:
        lines.append(b"connection: close\r\n")
    lines.append(b"\r\n")
    if not head:
        lines.append(body)
    return b"".join(lines)
