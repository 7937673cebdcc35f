"""Options of the webhook handshake (CloudEvents "HTTP 1.1 Web Hooks for Event Delivery" 1.0.2, section 4)."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from gateway_core.contract.component import Config

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_LONGEST_NAME = 253


def is_dns_name(text: str) -> bool:
    """Whether a text is a DNS name, as an origin has to be (section 4.1.2)."""
    return len(text) <= _LONGEST_NAME and _NAME.fullmatch(text) is not None


def _origin(text: str) -> str:
    if not is_dns_name(text):
        raise ValueError("write a DNS name, such as `events.example.com`")
    return text


PerMinute = Annotated[int, Field(ge=1, le=10**9)]


class HandshakeSenderConfig(Config):
    """Asks the subscriber for permission with an `OPTIONS` request before the first event, and sends nothing without it
    (CloudEvents webhooks). Attempts fail until it is granted, and are retried like those to a subscriber that is down.
    Events leave evenly spaced at the granted rate."""

    origin: Annotated[str, AfterValidator(_origin)]
    """The DNS name that stands for this sender, `WebHook-Request-Origin`. Each request carries it."""
    rate_per_minute: PerMinute | None = None
    """The rate to ask for, in requests a minute, `WebHook-Request-Rate`. Without it, the subscriber decides."""
    renew_s: Annotated[float, Field(ge=1, le=30 * 86400, allow_inf_nan=False)] = 3600.0
    """After how many seconds permission is asked for again. It is also asked for after an event was answered with 401,
    403 or 410."""


def _pattern(text: str) -> str:
    if text != "*" and not is_dns_name(text.removeprefix("*.")):
        raise ValueError("write a DNS name, `*.` and a DNS name, or `*`")
    return text.lower()


class HandshakeReceiverConfig(Config):
    """Which senders get permission to send when they ask with an `OPTIONS` request (CloudEvents webhooks). It protects
    the sender, and is no authentication: anyone can name any origin."""

    origins: Annotated[list[Annotated[str, AfterValidator(_pattern)]], Field(min_length=1)]
    """Origins that get permission: DNS names, `*.example.com` for all names below `example.com`, or `"*"`."""
    rate_per_minute: PerMinute | Literal["*"] = "*"
    """The rate that each origin is granted, in requests a minute; `"*"` for no limit. A minute's worth may come
    at once; requests beyond that get 429. Each worker counts for itself."""
    require_origin: bool = True
    """Whether each `POST` must name a permitted origin in `WebHook-Request-Origin` (403). If `false`, it may also name
    none."""
    event_grid: bool = False
    """Answers Azure Event Grid's validation event (`Microsoft.EventGrid.SubscriptionValidationEvent`) with its code,
    once the sender is authenticated. Only for subscriptions with the Event Grid schema, which needs a codec of your
    own; with the CloudEvents schema Event Grid asks by `OPTIONS`."""

    def permits(self, origin: str) -> bool:
        """Whether an origin gets permission."""
        if not is_dns_name(origin):
            return False
        origin = origin.lower()
        return any(p in ("*", origin) or (p[:2] == "*." and origin.endswith(p[1:])) for p in self.origins)
