"""The client of a connection, for the authenticators of an ingress."""

from __future__ import annotations

import asyncio
from functools import cache

from gateway_core.contract.peer import Peer

UNKNOWN = Peer("")


def peer_of(transport: asyncio.Transport | None) -> Peer:
    """Who is at the other end of a connection."""
    if transport is None:
        return UNKNOWN
    name = transport.get_extra_info("peername")
    address = f"[{name[0]}]:{name[1]}" if name and ":" in name[0] else f"{name[0]}:{name[1]}" if name else ""
    tls = transport.get_extra_info("ssl_object")
    return Peer(address) if tls is None else Peer(address, cache(lambda: tls.getpeercert() or None))
