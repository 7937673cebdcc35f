"""Addresses at which clouds keep credentials of the machine: nothing that comes by the API may send there.

Names that lead there by DNS are not found; a network policy has to stop them.
"""

from __future__ import annotations

import ipaddress
import re
import socket

_METADATA = {
    *("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "192.0.0.192"),
    *("metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"),
}
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")
_HOST = re.compile(r"\[([^\]]*)\]|([^:\[\]]+)")


def is_metadata_host(text: str) -> bool:
    """Whether a URL, or one of several addresses (`HOST:PORT,HOST:PORT`), leads to a link-local address or a known
    metadata service, in any of the ways to write an IP address."""
    return any(_leads(host) for part in text.split(",") if (host := _host(part.strip())))


def _host(text: str) -> str:
    rest = re.split(r"[/?#\\]", _SCHEME.sub("", text), maxsplit=1)[0].rpartition("@")[2]
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
    mapped = getattr(address, "ipv4_mapped", None)
    found = mapped or address
    return found.is_link_local or str(found) in _METADATA


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    try:  # `0xa9fea9fe`, `2852039166` and `169.254.43518` are addresses, too
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except (OSError, ValueError):
        return None
