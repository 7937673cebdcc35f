"""Options of listeners that say who may use them: origins of web pages, and bearer tokens."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field


def _origin(text: str) -> str:
    parts = urlsplit(text)
    if text != "*" and (parts.scheme not in ("http", "https") or text != f"{parts.scheme}://{parts.netloc}".lower()):
        raise ValueError("write an origin as browsers send it: https://HOST[:PORT], in lower case, or *")
    return text


WebOrigin = Annotated[str, AfterValidator(_origin)]
"""An origin (RFC 6454 section 7), or `*` for any."""
Token = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[!-~]+$")]
"""A bearer token (RFC 6750)."""


def has_token(authorization: Sequence[bytes], wanted: bytes) -> bool:
    """Whether the one `Authorization` field of a request is this one. The comparison takes the same time wherever they
    differ."""
    return len(authorization) == 1 and hmac.compare_digest(authorization[0], wanted)
