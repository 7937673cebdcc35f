"""Files that commands edit while a gateway reads them, also several commands at the same time."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from gateway_options.renewed import Renewed

from gateway_core.contract.errors import StartError, TidegateError
from gateway_core.contract.files import read_regular
from gateway_core.contract.private_files import replace_file

T = TypeVar("T")

MOST_BYTES = 64 * 1024 * 1024
_KEPT_MODE = stat.S_IRUSR | stat.S_IWUSR | stat.S_IRGRP


class BadFile(TidegateError):
    """A file of credentials can't be used; the text says why, and never quotes a credential."""


def read_bytes(path: Path) -> bytes:
    """The file's content. Raises `BadFile`: it can't be read, is too large, or everyone may write to it."""
    try:
        content, mode = read_regular(path, MOST_BYTES)
    except OSError as e:
        raise BadFile(f"{path}: can't be read: {e.strerror or e}") from e
    if mode & stat.S_IWOTH:
        raise BadFile(f"{path}: every user may write to it, and so let themselves in: run `chmod o-w`")
    if len(content) > MOST_BYTES:
        raise BadFile(f"{path}: is larger than {MOST_BYTES} bytes")
    return content


def renewed(path: Path, read: Callable[[bytes, Path], T], owner: str, what: str) -> Renewed[T | None]:
    """What `read` makes of the file, as it is now and whenever it changes; None after it was removed. Raises
    `StartError` if it can't be used now; later, what was read before stays valid."""
    try:
        return Renewed[T | None]([path], lambda: read(read_bytes(path), path), owner, what, gone=lambda: None)
    except BadFile as e:
        raise StartError(f"{owner}: {e}") from e


def edit(path: Path, change: Callable[[bytes | None], bytes]) -> None:
    """Replaces the file by what `change` makes of its content (None: there is no file), whole or not at all. Others
    that edit it wait. A new file has the mode 0600; an old one keeps its owner, and whether its group may read it.
    Raises `BadFile` and what `change` raises."""
    path = Path(os.path.realpath(path))  # a link stays one
    with _locked(path):
        try:
            before: os.stat_result | None = path.stat()
        except FileNotFoundError:
            before = None
        except OSError as e:
            raise BadFile(f"{path}: can't be read: {e.strerror or e}") from e
        content = change(None if before is None else read_bytes(path))
        try:
            replace_file(path, content)
            if before is not None:
                _keep_owner(path, before)
        except OSError as e:
            raise BadFile(f"{path}: can't be written: {e.strerror or e}") from e


def _keep_owner(path: Path, before: os.stat_result) -> None:
    now = path.stat()
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        with suppress(PermissionError):
            os.chown(path, before.st_uid, before.st_gid)
    if (mode := stat.S_IMODE(before.st_mode) & _KEPT_MODE | 0o600) != stat.S_IMODE(now.st_mode):
        path.chmod(mode)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Waits for the lock of this file, which is another file: this one is replaced, and a lock would go with it."""
    lock = path.with_name(f".{path.name}.lock")
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as e:
        raise BadFile(f"{path}: can't be edited: {lock}: {e.strerror or e}") from e
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
