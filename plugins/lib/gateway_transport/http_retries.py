"""After which HTTP responses a request is sent again, and when.

Sources: Knative data plane contract ("Event Acknowledgement and Delivery Retry"); RFC 9110 section
10.2.3 (Retry-After).
"""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime

_ASCTIME = re.compile(r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9][0-9] [0-9]{2}:[0-9]{2}:[0-9]{2} [0-9]{4}")
_RETRIED_4XX = frozenset((404, 408, 409, 429))


def retry_after_s(value: bytes, now_s: float) -> float | None:
    """Seconds of a `Retry-After` value, which is digits or an HTTP date in any of its three forms (RFC 9110 section
    5.6.7); None if it is neither. More than nine digits count as a billion: the caller's limit is far below."""
    value = value.strip(b" \t")
    if value.isdigit():
        value = value.lstrip(b"0") or b"0"
        return float(value) if len(value) <= 9 else 1e9
    try:
        text = value.decode("ascii")
        if value.endswith(b" GMT"):
            at = parsedate_to_datetime(text)
        elif _ASCTIME.fullmatch(text):
            at = parsedate_to_datetime(f"{text} GMT")
        else:
            return None
        return max(0.0, at.timestamp() - now_s)
    except (ValueError, OverflowError):
        return None


def is_retried(status: int) -> bool:
    """Whether to retry after a response that is not 2xx. Codes outside the table are retried (DP-14)."""
    if 400 <= status < 500:
        return status in _RETRIED_4XX
    return not (100 <= status < 200 or 300 <= status < 400)
