"""URLs in options, and who can read what is sent to one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

_LOOPBACK = re.compile(r"localhost|127(\.\d{1,3}){3}|::1")


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("write http://HOST[:PORT]/PATH or https://…")
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("the URL contains a character that must be percent-encoded")
    if parts.port == 0:
        raise ValueError("port 0 is not a port to connect to")
    return text


Url = Annotated[str, AfterValidator(_url)]


def in_the_clear(url: str) -> bool:
    """Whether others can read on the way what is sent to a URL: without TLS, and not on this machine, as far as its
    host tells."""
    parts = urlsplit(url)
    return parts.scheme in ("http", "ws") and not _LOOPBACK.fullmatch(parts.hostname or "")


def secure(urls: Iterable[str]) -> bool:
    """Whether certificates must be verified. Loading the trusted authorities takes longer than a few requests."""
    return any(not url.startswith("http://") for url in urls)
