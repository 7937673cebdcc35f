"""What this machine may run short of: file descriptors, memory, threads and local ports.

Such a shortage says nothing about the remote side or the event. The caller waits and tries again (`Outcome.local`); it
never counts as an attempt.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Iterator

_SHORT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_NO_THREAD = "can't start new thread"  # CPython has no type of its own for it
_MOST = 50


def is_shortage(error: BaseException) -> bool:
    """Whether this error, or one that caused it, says that this machine is short of something.

    EADDRNOTAVAIL is not among them, because it has two meanings: see `no_port_left`. A failed name lookup counts if no
    file descriptor can be had now, because the resolver hides the reason.
    """
    return any(_is_short(e) for e in _chain(error))


def _is_short(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, socket.gaierror):
        return no_descriptor_left()
    if isinstance(error, OSError):
        return error.errno in _SHORT
    return isinstance(error, RuntimeError) and str(error) == _NO_THREAD


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, its causes, and the members of groups."""
    waiting, seen = [error], 0
    while waiting and seen < _MOST:
        found = waiting.pop()
        seen += 1
        yield found
        if isinstance(found, BaseExceptionGroup):
            waiting += found.exceptions
        cause = found.__cause__ or found.__context__
        if cause is not None:
            waiting.append(cause)


def no_descriptor_left() -> bool:
    """Whether no file descriptor can be had at this moment."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as e:
        return e.errno in _SHORT
    return False


async def no_port_left(error: BaseException, host: str, port: int) -> bool:
    """Whether a connection failed because every local port towards its address is in use.

    EADDRNOTAVAIL also means that this machine has no address of the kind (IPv6 is off). A datagram socket tells the two
    apart: to connect one needs an address, but no port of TCP.
    """
    if not any(isinstance(e, OSError) and e.errno == errno.EADDRNOTAVAIL for e in _chain(error)):
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
        return e.errno in _SHORT
    return True
