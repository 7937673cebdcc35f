"""Addresses at which clouds keep credentials of the machine: nothing that comes by the API may send there.

Names that lead there by DNS are not found; a network policy has to stop them.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import unicodedata
from urllib.parse import unquote

_METADATA = {
    *("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "192.0.0.192"),
    *("metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"),
}
_ENDS_WITH_IPV4 = [
    ipaddress.IPv6Network(prefix) for prefix in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")
]
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")
_HOST = re.compile(r"\[([^\]]*)\]|([^:\[\]]+)")


def is_metadata_host(text: str) -> bool:
    """Whether a URL, or one of several addresses (`HOST:PORT,HOST:PORT`), leads to a link-local address or a known
    metadata service, in any of the ways to write an IP address."""
    return any(_leads(host) for part in text.split(",") for host in _hosts(part.strip()))


def _hosts(text: str) -> set[str]:
    """The hosts that programs may find in it. They differ about `\\`, which ends the host for browsers (WHATWG URL) and
    not in RFC 3986, about percent-encoding, and about characters that stand for others (IDNA)."""
    rest = _SCHEME.sub("", text)
    found = {_host(re.split(ends, rest, maxsplit=1)[0]) for ends in (r"[/?#]", r"[/?#\\]")}
    found |= {unquote(host) for host in found}
    found |= {unicodedata.normalize("NFKC", host).replace("\u3002", ".") for host in found}
    return found - {""}


def _host(authority: str) -> str:
    rest = authority.rpartition("@")[2]
    if rest.count(":") > 1 and not rest.startswith("["):
        return rest.lower()  # IPv6 without brackets
    found = _HOST.match(rest)
    return (found[1] or found[2] or "").lower().rstrip(".") if found else ""


def _leads(host: str) -> bool:
    if host in _METADATA:
        return True
    address = _address(host.partition("%")[0])
    if address is None:
        return False
    return any(found.is_link_local or str(found) in _METADATA for found in (address, *_inside(address)))


def _inside(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    """The IPv4 addresses in an IPv6 address that may lead there: mapped, compatible and translated ones (RFC 4291
    section 2.5.5, RFC 2765, RFC 6052), and 6to4 (RFC 3056)."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found = [ipaddress.IPv4Address(address.packed[-4:])] if any(address in prefix for prefix in _ENDS_WITH_IPV4) else []
    return found if address.sixtofour is None else [*found, address.sixtofour]


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    try:  # `0xa9fea9fe`, `2852039166` and `169.254.43518` are addresses, too
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except (OSError, ValueError):
        return None
