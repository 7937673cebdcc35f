"""Options of listeners: the address, and a path on it."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from .asgi import checked_path

_LISTEN = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^:\[\]/\s]*)):(?P<port>\d{1,5})")


def split_listen(text: str) -> tuple[str, int]:
    """Splits `HOST:PORT`. An IPv6 host is in brackets; an empty host means all addresses."""
    found = _LISTEN.fullmatch(text)
    if found is None or int(found["port"]) > 65535:
        raise ValueError("write HOST:PORT, with brackets around an IPv6 host")
    return found["v6"] or found["host"] or "", int(found["port"])


def _listen(text: str) -> str:
    split_listen(text)
    return text


Listen = Annotated[str, AfterValidator(_listen)]
UrlPath = Annotated[str, AfterValidator(checked_path)]
