"""Free TCP ports on 127.0.0.1 that stay free while their owner is down."""

from __future__ import annotations

import random
import socket

from gateway_core.contract.errors import StartError

# Below the ports for outgoing connections (from 32768 on Linux, from 49152 elsewhere): otherwise a client that keeps
# trying to reach a broker that is down may be assigned its port, and keep it.
_FIRST, _LAST = 20_000, 32_000


def is_free(port: int) -> bool:
    """Whether a server could listen on this port now."""
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_ports(count: int) -> list[int]:
    """This many different free ports."""
    found: list[int] = []
    for port in random.sample(range(_FIRST, _LAST), 1000):
        if len(found) == count:
            return found
        if is_free(port):
            found.append(port)
    raise StartError(f"no {count} free TCP ports between {_FIRST} and {_LAST}")
