"""Header fields of HTTP that an option sets."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_RESERVED = {"host", "content-length", "transfer-encoding", "connection", "upgrade", "expect"}


def checked_headers(headers: dict[str, str]) -> dict[str, str]:
    """The headers. Raises `ValueError` for one that HTTP does not allow, or that the gateway sets itself."""
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or name.lower() in _RESERVED or name.lower().startswith("ce-"):
            raise ValueError(f"{name!r} can't be set: it is not a header name, or the gateway sets it itself")
        if not value.isascii() or not value.isprintable():
            raise ValueError(f"the value of {name!r} contains a character that HTTP does not allow")
    return headers


Headers = Annotated[dict[str, str], AfterValidator(checked_headers)]
