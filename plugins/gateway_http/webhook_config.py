"""Options of the webhook handshake (CloudEvents "HTTP 1.1 Web Hooks for Event Delivery" 1.0.2, section 4)."""

from __future__ import annotations

import re
from typing import Annotated

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


class WebhookSenderConfig(Config):
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
