"""What a response means for a delivery: the table for both client engines.

Sources: Knative data plane contract ("Event Delivery", "Event Acknowledgement and Delivery Retry"); RFC 9110 section
10.2.3 (Retry-After).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Protocol

from gateway_options.secrecy import without
from gateway_serving.content_coding import decoded
from gateway_transport.http_retries import is_retried, retry_after_s

from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Message
from gateway_core.contract.interfaces import Codec, Outcome
from gateway_core.contract.one_line import one_line

log = logging.getLogger(__name__)

Headers = list[tuple[bytes, bytes]]

KEEP_BYTES = 64 * 1024  # of a body that is not a reply
REPLY_BYTES = 1024 * 1024  # the longest reply
_DELIVERED = {status: Outcome(True, code=status) for status in range(200, 300)}


def unanswered(reason: str, reached: bool = False) -> Outcome:
    """An attempt without a response, or without a valid HTTP response. `reached`: the request was written to a
    connection that the server has just accepted."""
    return Outcome(False, retry=True, reason=reason, reached=reached)


class Classifier(Protocol):
    """What a connection asks of a response."""

    def body_limit(self, status: int) -> int:
        """How much of a body is kept."""

    def classify(self, status: int, headers: Headers, body: bytes, truncated: bool = False) -> Outcome:
        """The outcome of a final response. Header names are in lower case; `truncated` is true if the body was
        longer."""


class ResponseClassifier:
    """Turns responses into outcomes, for one sink. `codec` decodes replies if the sink `wants_reply`. Outcomes have
    nothing of the `secrets`, whatever the subscriber repeats."""

    def __init__(
        self,
        codec: Codec,
        wants_reply: bool,
        address: str,
        now_s: Callable[[], float] = time.time,
        secrets: Sequence[bytes] = (),
    ) -> None:
        self._secrets = secrets
        self._codec = codec
        self._wants_reply = wants_reply
        self._address = address
        self._now_s = now_s
        self._told = False

    def body_limit(self, status: int) -> int:
        """How much of a body `settle` can use."""
        return REPLY_BYTES if status == 200 and self._wants_reply else KEEP_BYTES

    def classify(self, status: int, headers: Headers, body: bytes, truncated: bool = False) -> Outcome:
        """The outcome of a final response. Header names are in lower case; `truncated` is true if the body was
        longer."""
        if 200 <= status < 300:
            if status == 200 and _claims_event(headers):
                return self._reply(headers, body, truncated)
            return _DELIVERED[status]
        wait = None
        if status in (429, 503):
            found = [value for name, value in headers if name == b"retry-after"]
            wait = retry_after_s(found[0], self._now_s()) if found else None
        try:
            reason = f"{status} {HTTPStatus(status).phrase}"
        except ValueError:
            reason = str(status)
        data = without(self._secrets, body[:KEEP_BYTES])
        return Outcome(False, retry=is_retried(status), code=status, data=data, reason=reason, retry_after_s=wait)

    def _reply(self, headers: Headers, body: bytes, truncated: bool) -> Outcome:
        if not self._wants_reply:
            if not self._told:
                self._told = True
                log.debug(
                    "%s responds with events, but no trigger expects a reply: %s",
                    self._address,
                    one_line(repr(body[:1024])),
                )
            return _DELIVERED[200]
        try:
            if truncated:
                raise Refused(f"it is longer than {REPLY_BYTES} bytes")
            headers, body = decoded(headers, body, REPLY_BYTES)
            events = self._codec.decode(Message(headers, body))
            if len(events) > 1:
                raise Refused("it is a batch")
        except Refused as e:
            data = without(self._secrets, body[:KEEP_BYTES])
            return Outcome(False, retry=True, code=200, data=data, reason=f"the reply is not usable: {e.detail}")
        return Outcome(True, code=200, reply=events[0]) if events else _DELIVERED[200]


def _claims_event(headers: Headers) -> bool:
    for name, value in headers:
        if name[:3] == b"ce-" or (name == b"content-type" and value[:23].lower() == b"application/cloudevents"):
            return True
    return False
