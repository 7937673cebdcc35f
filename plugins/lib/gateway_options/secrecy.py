"""What may be shown of a URL. Everything that shows one or passes one on (status, log, graph, traces, dead letters)
uses this module."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import urlsplit

from gateway_core.contract.options import HIDDEN

_TOKENS = re.compile(
    r"(^|[-_.])(access|auth|authorization|bearer|code|credentials?|jwt|key|password|passwd|pwd|sas|"
    r"secret|session|sig|signature|token)([-_.]|$)|(apikey|accesskey|secretkey|privatekey|token|password|secret|"
    r"signature)$",
    re.IGNORECASE,
)
"""Names of query parameters, headers and settings that hold credentials."""


@lru_cache(1024)
def names_credential(name: str) -> bool:
    """Whether a query parameter, a header or a setting of this name holds a credential."""
    return _TOKENS.search(name) is not None or "cookie" in name.lower()


_LEAST_PART = 4


def without(secrets: Iterable[bytes], text: bytes) -> bytes:
    """A text of another side without what it repeats of these secrets, even if it was cut inside one."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN.encode())
        most = min(len(secret) - 1, len(text))
        part = next((n for n in range(most, _LEAST_PART - 1, -1) if text.endswith(secret[:n])), 0)
        if part:
            text = text[:-part] + HIDDEN.encode()
    return text


def shown_url(url: str, *, hidden: bool = False, written: bool = False) -> str:
    """The URL without user and password, without its fragment, and without the values of query parameters that are
    named like secrets. `hidden` if some part came from a secret: then only scheme and host are left. `written` to show
    it as its author wrote it, with `****@` for user and password."""
    if "://" not in url:
        return HIDDEN if hidden else url
    try:
        parts = urlsplit(url)
        user, _, place = parts.netloc.rpartition("@")
        place = f"{HIDDEN}@{place}" if user and written else place
        _ = parts.port  # raises if it is not a number
    except ValueError:
        return f"{url.partition('://')[0]}://{HIDDEN}"
    if hidden:
        return f"{parts.scheme}://{place}/{HIDDEN}"
    query = "&".join(_shown_parameter(parameter) for parameter in parts.query.split("&"))
    return f"{parts.scheme}://{place}{parts.path}" + (f"?{query}" if query else "")


def _shown_parameter(parameter: str) -> str:
    name, given, value = parameter.partition("=")
    return f"{name}={HIDDEN}" if given and value and _TOKENS.search(name) else parameter
