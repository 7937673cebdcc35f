"""Files that hold credentials. A pipe, a folder or a device at their place must not hold up the gateway."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_NOT_ONE = "it is not a regular file"


def read_regular(path: Path, most: int) -> tuple[bytes, int]:
    """At most `most` bytes and one of a regular file, or of a link to one, and its mode. Never waits for the other end
    of a pipe. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, _NOT_ONE, str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(most + 1), mode
    finally:
        os.close(descriptor)


def check_regular(*paths: Path | None) -> None:
    """Raises `OSError` unless each is a regular file, or a link to one. For libraries that open files themselves."""
    for path in paths:
        if path is not None and not stat.S_ISREG(os.stat(path).st_mode):
            raise OSError(errno.EINVAL, _NOT_ONE, str(path))
