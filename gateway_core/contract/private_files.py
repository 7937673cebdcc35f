"""Files and folders that only the gateway's own user may read, and files that are replaced whole or not at all."""

from __future__ import annotations

import errno
import logging
import os
import stat
from contextlib import suppress
from pathlib import Path

from .files import private_folder

log = logging.getLogger("tidegate")

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def no_room(error: BaseException | None) -> bool:
    """Whether this error means a full disk or an exhausted quota."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def replace_file(path: Path, content: bytes) -> None:
    """Writes a file (0600) whole or not at all, durable when this returns. Raises `OSError`. A file has one writer at a
    time: what a crash left half-written is overwritten by the next."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        write_private(temporary, content)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_directory(path.parent)


def write_private(path: Path, content: bytes) -> None:
    """Writes a file (0600) and syncs it to the disk. A file or link that was there is replaced, not written to: it
    could be somebody else's. Raises `OSError`."""
    with suppress(FileNotFoundError):
        path.unlink()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        write_all(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Writes all of it. Raises `OSError`; then a part may be written."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def durable_folder(path: Path, above: int = 0) -> None:
    """Creates a folder for this user alone. Its name survives a power failure, and so do the names of the `above`
    folders over it. Raises `OSError`."""
    private_folder(path)
    sync_names(path, above)


def sync_names(path: Path, above: int = 0) -> None:
    """Makes the name of a file or folder durable, and those of the `above` folders over it. Raises `OSError`."""
    for folder in path.absolute().parents[: above + 1]:
        with suppress(PermissionError):  # a folder of others
            sync_directory(folder)


def sync_directory(path: Path) -> None:
    """Makes the names in a directory durable. Raises `OSError`."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def open_to_others(folder: Path, *, within: bool = True) -> list[Path]:
    """The folder and everything in it (`within`) that other users may read or write. Links are not followed."""
    found = [folder] if _mode(folder) & _OTHERS else []
    for parent, folders, files in os.walk(folder) if within else ():
        paths = (Path(parent, name) for name in (*folders, *files))
        found += [path for path in paths if _mode(path) & _OTHERS]
    return found


def keep_private(folder: Path, *, within: bool = True) -> None:
    """Closes a folder that the gateway made, and everything in it, to other users, and logs that. Without `within` only
    the folder itself, which is enough where others write in it: nobody reaches what is in a closed folder."""
    changed, failed = 0, ""
    for path in open_to_others(folder, within=within):
        try:
            path.chmod(_mode(path) & ~_OTHERS)
            changed += 1
        except FileNotFoundError:
            pass
        except OSError as e:
            failed = f"{path}: {e.strerror}"
    if changed:
        log.warning("%s was open to other users: took %d files and folders from them", folder, changed)
    if failed:
        log.warning("other users may read what events hold: can't change the permissions of %s", failed)


def keep_top_private(folder: Path) -> None:
    """Closes the data directory to other users unless something in it is meant for them, or it is a shared one like
    `/tmp`."""
    mode = _mode(folder)
    if mode & _OTHERS and not mode & stat.S_ISVTX and not any(_mode(path) & _OTHERS for path in folder.iterdir()):
        with suppress(OSError):
            folder.chmod(mode & ~_OTHERS)
            log.warning("%s was open to other users: took it from them", folder)


def _mode(path: Path) -> int:
    """The permissions; 0 for a link or a missing file."""
    try:
        found = path.lstat().st_mode
    except OSError:
        return 0
    return 0 if stat.S_ISLNK(found) else stat.S_IMODE(found)
