"""The receiving side of the webhook handshake: who may send, at which rate, and Azure Event Grid's validation event.

Sources: CloudEvents "HTTP 1.1 Web Hooks for Event Delivery" 1.0.2, sections 2.1 and 4; Azure Event Grid, "Endpoint
validation with Event Grid event schema". Permission is granted in the response alone: `WebHook-Request-Callback` is
ignored, so that no stranger can make the gateway send a request.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
from gateway_access.bucket import Bucket, Table
from gateway_serving.responses import Answered, Headers, Response, options_answer

from gateway_core.contract.authenticator import Forbidden, TooManyRequests
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Message
from gateway_core.contract.identity import Identity
from gateway_core.contract.interfaces import Accepted

from .endpoint import Endpoint
from .webhook_config import HandshakeReceiverConfig

MOST_ORIGINS = 1000
"""Origins that are counted one by one; the others share one rate."""
VALIDATION = "Microsoft.EventGrid.SubscriptionValidationEvent"
MOST_VALIDATION_BYTES = 16 * 1024
_CODE = re.compile(r"[A-Za-z0-9._~-]{1,512}")
_RULE = "CloudEvents HTTP webhooks 1.0.2 section 2.1"


class WebhookReceiver:
    """Grants permission, and keeps origins to the rate that they were granted."""

    def __init__(self, options: HandshakeReceiverConfig, now: Callable[[], float]) -> None:
        self._options = options
        self._now = now
        rate = options.rate_per_minute
        self._rate = str(rate).encode()
        self._used: Table[str, Bucket] | None = None
        if isinstance(rate, int):
            self._used = Table(MOST_ORIGINS, lambda: Bucket(rate / 60, rate))

    def permission(self, headers: list[tuple[bytes, bytes]]) -> Headers:
        """The header fields that grant permission; none if there is none (section 4.2)."""
        origin = _origin(headers)
        if origin is None or not self._options.permits(origin):
            return ()
        return (b"webhook-allowed-origin", origin.encode()), (b"webhook-allowed-rate", self._rate)

    def refusal(self, message: Message) -> Refused | None:
        """Why a request is refused, None if it is not: it is counted then."""
        origin = _origin(message.headers)
        if origin is None:
            if not self._options.require_origin:
                return None
            return Forbidden("WebHook-Request-Origin does not name the sender.", rule=_RULE)
        if not self._options.permits(origin):
            return Forbidden("The sender in WebHook-Request-Origin has no permission.", rule=_RULE)
        if self._used is not None:
            now = self._now()
            bucket = self._used.get(origin.lower(), now)
            if (wait := bucket.wait_s(now, 1)) > 0:
                return TooManyRequests("The granted rate (WebHook-Allowed-Rate) is used up.", wait)
            bucket.take(now, 1)
        return None

    def validated(self, message: Message) -> Response | None:
        """The answer to Event Grid's validation event, None if the message is something else."""
        if not self._options.event_grid or message.header(b"aeg-event-type") != b"SubscriptionValidation":
            return None
        code = _validation_code(message.body or b"")
        if code is None:
            return None
        body = msgspec.json.encode({"validationResponse": code})
        return Response(200, ((b"content-type", b"application/json"),), body)


def _origin(headers: list[tuple[bytes, bytes]]) -> str | None:
    """The one origin that a request names, "" if it names several."""
    found = [value for name, value in headers if name == b"webhook-request-origin"]
    return None if not found else found[0].decode("latin-1").strip() if len(found) == 1 else ""


def _validation_code(body: bytes) -> str | None:
    """The code in a validation event, if it is harmless to send back."""
    if len(body) > MOST_VALIDATION_BYTES:
        return None
    try:
        (event,) = msgspec.json.decode(body, type=list[dict[str, Any]])
    except ValueError:
        return None
    data = event.get("data")
    code = data.get("validationCode") if event.get("eventType") == VALIDATION and isinstance(data, dict) else None
    return code if isinstance(code, str) and _CODE.fullmatch(code) else None


class WebhookEndpoint(Endpoint):
    """An endpoint that takes part in the handshake."""

    __slots__ = ("_webhook",)

    _webhook: WebhookReceiver

    def handshakes(self, webhook: WebhookReceiver) -> None:
        """Sets who may send."""
        self._webhook = webhook

    def options(self, headers: list[tuple[bytes, bytes]]) -> Response:
        return options_answer(self._webhook.permission(headers))

    def _accept(self, message: Message, done: Accepted, who: Identity | None = None) -> None:
        if (refusal := self._webhook.refusal(message)) is not None:
            if self.gate is not None:
                self.gate.refused(message, who, refusal)
            self._refuse(refusal, message, done)
        elif (answer := self._webhook.validated(message)) is not None:
            done(Answered(answer))
        else:
            super()._accept(message, done, who)
