"""Tells whether this machine has a local port left for a connection."""

from __future__ import annotations

import asyncio
import errno
import socket

from gateway_core.contract.shortage import SHORT, causes, is_shortage


async def no_port_left(error: BaseException, host: str, port: int) -> bool:
    """Whether a connection failed because every local port towards its address is in use.

    EADDRNOTAVAIL also means that this machine has no address of the kind (IPv6 is off). A datagram socket tells the two
    apart: to connect one needs an address, but no port of TCP.
    """
    if not any(isinstance(e, OSError) and e.errno == errno.EADDRNOTAVAIL for e in causes(error)):
        return False
    try:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except OSError as e:
        return is_shortage(e)
    return any(_reachable(family, address) for family, _, _, _, address in found)


def _reachable(family: int, address: tuple[object, ...]) -> bool:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(address)
    except OSError as e:
        return e.errno in SHORT
    return True
