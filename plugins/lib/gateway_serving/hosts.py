"""The host names that a listener answers to.

A web page whose own host name is later resolved to this machine (DNS rebinding) makes a browser send requests here,
and reads the answers as its own: no `Origin` gives it away, but its name is in `Host`. So a listener that only this
machine reaches answers to names of this machine, and to those that its config adds.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator

_HOST = re.compile(r"(?:\[([^\[\]]*)\]|([^:\[\]]*))(?::[0-9]*)?")
_NAME = re.compile(r"(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")
_AUTHORITY_END = re.compile(rb"[/?#]")
_SHOWN = 100


def _host_name(text: str) -> str:
    name = text.lower().removesuffix(".")
    if name != "*" and not _NAME.fullmatch(name) and not is_address(name):
        raise ValueError("write a host name without scheme and port: gateway.example.com, *.example.com, or * for all")
    return name


HostName = Annotated[str, AfterValidator(_host_name)]
"""A host name or address without a port; `*.` at the beginning stands for any labels, `*` alone for every name."""


class Hosts:
    """The host names of a listener on this host. `names` are added by its config; without any, a listener that other
    machines reach answers to every name."""

    def __init__(self, listens_on: str, names: Sequence[str] = ()) -> None:
        self._local = is_loopback(listens_on)
        self._every = "*" in names or (not names and not self._local)
        # a program may send an empty one (RFC 9112 section 3.2), a page can't
        self._names = {"", listens_on.lower(), *(name for name in names if not name.startswith("*."))}
        self._suffixes = tuple(name[1:] for name in names if name.startswith("*."))

    def allow(self, host: str) -> bool:
        """Whether it answers to this `Host`: a name or an address, with any port."""
        if self._every:
            return True
        if (name := name_in(host)) is None:
            return False  # two names in one field, say
        if name in self._names or is_loopback(name) or name.endswith((".localhost", *self._suffixes)):
            return True
        return not self._local and is_address(name)  # an address can't be rebound

    def refusal(self, host: bytes) -> str:
        """Why a request with this `Host` is refused, "" if it is not."""
        text = host.decode("latin-1")
        if self.allow(text):
            return ""
        shown = ascii(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
        return (
            f"{shown} is no host name of this listener: use the address that it listens on, or add the name to `hosts` "
            "of this listener in the config."
        )


def authority_in(target: bytes) -> bytes | None:
    """The authority of a request target in absolute form, which replaces `Host` (RFC 9112 section 3.2.2); None if the
    target has another form."""
    if target[:1] == b"/":
        return None
    _, colon, rest = target.partition(b"://")
    return _AUTHORITY_END.split(rest, maxsplit=1)[0] if colon else None


def origin_form(target: bytes) -> bytes:
    """A request target in absolute form as the path and query that it has (RFC 9112 section 3.2.1); any other target as
    it is."""
    if (authority := authority_in(target)) is None:
        return target
    rest = target.partition(b"://")[2][len(authority) :]
    return rest if rest[:1] == b"/" else b"/" + rest


def name_in(host: str) -> str | None:
    """The name or address in a `Host` header, without port and brackets; None if it is not well-formed."""
    found = _HOST.fullmatch(host.lower())
    if found is None:
        return None
    return found[1] if found[1] is not None else found[2].removesuffix(".")


def is_loopback(host: str) -> bool:
    """Whether a host name or address means this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def is_address(name: str) -> bool:
    """Whether it is an address, not a name."""
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True
