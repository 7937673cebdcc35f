"""What this machine may run short of: file descriptors, memory, threads and local ports.

Such a shortage says nothing about the remote side or the event. The caller waits and tries again (`Outcome.local`); it
never counts as an attempt.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterator

SHORT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""The errors of the system that mean a shortage."""

_NO_THREAD = "can't start new thread"  # CPython has no type of its own for it
_MOST = 50
_relief: list[Callable[[OSError], None]] = []


def is_shortage(error: BaseException) -> bool:
    """Whether this error, or one that caused it, says that this machine is short of something.

    EADDRNOTAVAIL is not among them, because it has two meanings. A failed name lookup (EBUSY with uvloop) counts
    if no file descriptor can be had now, because the resolver hides the reason.
    """
    return any(_is_short(e) for e in causes(error))


def may_pass(error: BaseException) -> bool:
    """Whether another try may succeed: a shortage, or a `SystemError`, which C code raises where it has no memory."""
    return any(isinstance(e, SystemError) or _is_short(e) for e in causes(error))


def _is_short(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, socket.gaierror) or getattr(error, "errno", None) == errno.EBUSY:
        return no_descriptor_left()
    if isinstance(error, OSError):
        return error.errno in SHORT
    return isinstance(error, RuntimeError) and str(error) == _NO_THREAD


def causes(error: BaseException) -> Iterator[BaseException]:
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
    """Whether no file descriptor is available at this moment."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as e:
        return e.errno in SHORT
    return False


def on_exhausted(relief: Callable[[OSError], None]) -> None:
    """Registers what frees file descriptors (or logs) when a sink could not connect for lack of them."""
    _relief.append(relief)


def exhausted(error: OSError) -> None:
    """Reports that a connection failed because file descriptors ran short."""
    for relief in _relief:
        relief(error)
