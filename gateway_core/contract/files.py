"""Files and folders with secrets: folders that only the gateway's own user may read, and files that hold credentials.

A pipe, a folder or a device in place of a file must not hold up the gateway.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_NOT_ONE = "it is not a regular file"


def private_folder(path: Path) -> None:
    """Creates a folder, and its missing parents, for this user alone (0700), unless it exists. Raises `OSError`."""
    if not path.parent.exists():
        private_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)


def folder_fault(path: Path) -> str:
    """Why there can't be a folder of this name, "" if there is one or it can be made, as far as names and kinds of
    files tell: what a try alone shows (permissions, a full disk) is no fault."""
    try:
        for folder in (path, *path.parents):
            if folder.is_dir():
                # a missing name below it may still be too long
                os.stat(path)
                return ""
            if os.path.lexists(folder):
                return f"{folder} is no folder"
    except FileNotFoundError:
        pass
    except PermissionError:
        return ""
    except OSError as e:
        return e.strerror or str(e)
    except ValueError as e:
        return str(e)
    return ""


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
