"""Stands between the module `os` and the disk, for files that the gateway writes without SQLite.

While a disk is installed, the functions of `os` that change files are ours. Those in its folder take a step of the disk
first, which may refuse; all others go on as before. Files that are written otherwise (`open` for writing) are found by
comparing when they are synced, or at the crash: faults don't reach them, the crash does.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from typing import Any, Protocol

from tests.simulation.inodes import FOLDER, Inode, Names
from tests.simulation.sqlite_vfs import Refusal

_NAMES = (
    *("open", "write", "fsync", "fdatasync", "ftruncate", "truncate", "posix_fallocate", "replace", "rename", "unlink"),
    *("remove", "link", "mkdir", "rmdir", "statvfs"),
)
_real: dict[str, Any] = {name: getattr(os, name) for name in _NAMES if hasattr(os, name)}


class FileDisk(Protocol):
    """A disk with such files."""

    root: str
    names: Names
    device: int

    def step(self, kind: str, path: str, size: int = 0) -> None:
        """Something is about to be changed. Raises `Refusal`."""

    def grow(self, kind: str, path: str, size: int, more: int | None = None) -> None:
        """The same, and the file gets `more` bytes longer (None: `size`)."""

    def sync(self, inode: Inode) -> None: ...
    def sync_folder(self, path: str) -> None: ...
    def free(self) -> int: ...

    size: int


_disks: list[FileDisk] = []


def install(disk: FileDisk) -> None:
    """From now on the disk has its folder."""
    _disks.append(disk)
    for name in _real:
        setattr(os, name, _OURS[name])


def remove(disk: FileDisk) -> None:
    """The opposite."""
    _disks.remove(disk)
    if not _disks:
        for name, before in _real.items():
            setattr(os, name, before)


def _found(path: Any) -> tuple[FileDisk, str] | None:
    if isinstance(path, int):
        return None
    text = os.fsdecode(path)
    text = text if text.startswith("/") else os.path.abspath(text)
    for disk in _disks:
        if text.startswith(disk.root):
            return disk, os.path.normpath(text)
    return None


def _inode(descriptor: int) -> tuple[FileDisk, Inode] | None:
    there = os.fstat(descriptor)
    for disk in _disks:
        if disk.device == there.st_dev and stat.S_ISREG(there.st_mode):
            known = disk.names.of_number(there.st_ino)
            if known is not None:
                return disk, known
    return None


def _open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    found = None if dir_fd is not None else _found(path)
    if found is None:
        return int(_real["open"](path, flags, mode, dir_fd=dir_fd))
    disk, text = found
    new = bool(flags & os.O_CREAT) and not os.path.lexists(text)
    if new or flags & os.O_TRUNC:
        disk.step("create", text)
    descriptor = int(_real["open"](path, flags, mode))
    if new:
        disk.names.inode(text)
    elif flags & os.O_TRUNC:
        disk.names.inode(text).wrote(0, None)
    return descriptor


def _write(descriptor: int, data: Any) -> int:
    found = _inode(descriptor)
    if found is None:
        return int(_real["write"](descriptor, data))
    disk, inode = found
    view = memoryview(data).cast("B")
    size = inode.size()
    at = size if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND else os.lseek(descriptor, 0, os.SEEK_CUR)
    try:
        disk.grow("write", inode.path, len(view), at + len(view) - size)
    except Refusal as e:
        if e.part and _put(descriptor, inode, at, view[: e.part]) and e.errno == errno.ENOSPC:
            return e.part  # the next one fails
        raise
    return _put(descriptor, inode, at, view)


def _put(descriptor: int, inode: Inode, at: int, data: memoryview) -> int:
    count = int(_real["write"](descriptor, data))
    inode.wrote(at, bytes(data[:count]))
    return count


def _sync(descriptor: int) -> None:
    there = os.fstat(descriptor)
    for disk in _disks:
        if disk.device != there.st_dev:
            continue
        if stat.S_ISDIR(there.st_mode):
            if folder := disk.names.folder(there.st_ino):
                disk.sync_folder(folder)
                return
        elif (inode := _known(disk, there.st_ino)) is not None:
            disk.sync(inode)
            return
    _real["fsync"](descriptor)


def _known(disk: FileDisk, number: int) -> Inode | None:
    if disk.names.of_number(number) is None:
        disk.names.look()  # it was created by `open`
    return disk.names.of_number(number)


def _ftruncate(descriptor: int, size: int) -> None:
    found = _inode(descriptor)
    if found is not None:
        found[0].step("truncate", found[1].path)
    _real["ftruncate"](descriptor, size)
    if found is not None:
        found[1].wrote(size, None)


def _truncate(path: Any, size: int) -> None:
    if isinstance(path, int):
        _ftruncate(path, size)
        return
    found = _found(path)
    if found is not None:
        found[0].step("truncate", found[1])
    _real["truncate"](path, size)
    if found is not None:
        found[0].names.inode(found[1]).wrote(size, None)


def _fallocate(descriptor: int, offset: int, size: int) -> None:
    found = _inode(descriptor)
    if found is None:
        _real["posix_fallocate"](descriptor, offset, size)
        return
    disk, inode = found
    more = offset + size - inode.size()
    try:
        disk.grow("write", inode.path, max(0, more))
    except Refusal as e:
        raise OSError(e.errno, e.strerror) from None
    if more > 0:
        _real["ftruncate"](descriptor, offset + size)
        inode.wrote(offset + size, None)


def _renamed(name: str) -> Callable[..., None]:
    def rename(source: Any, target: Any, **options: Any) -> None:
        here, there = _found(source), _found(target)
        if here is None or there is None or options:
            _real[name](source, target, **options)
            return
        disk, before, after = here[0], here[1], there[1]
        disk.step("rename", after)
        moved = disk.names.now.get(before) or disk.names.inode(before)
        assert moved is not FOLDER, f"the renaming of folders is not simulated: {before}"
        _real[name](source, target)
        disk.names.step([(before, None), (after, moved)])

    return rename


def _removed(name: str, kind: str) -> Callable[..., None]:
    def remove(path: Any, *, dir_fd: int | None = None) -> None:
        found = None if dir_fd is not None else _found(path)
        if found is None:
            _real[name](path, dir_fd=dir_fd)
            return
        if not os.path.lexists(found[1]):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        found[0].step(kind, found[1])
        _real[name](path)
        found[0].names.step([(found[1], None)])

    return remove


def _link(source: Any, target: Any, **options: Any) -> None:
    found = _found(target)
    if found is None:
        _real["link"](source, target, **options)
        return
    found[0].step("create", found[1])
    _real["link"](source, target, **options)
    found[0].names.inode(found[1])


def _mkdir(path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
    found = None if dir_fd is not None else _found(path)
    if found is None:
        _real["mkdir"](path, mode, dir_fd=dir_fd)
        return
    if not os.path.lexists(found[1]):
        found[0].step("create", found[1])
    _real["mkdir"](path, mode)
    found[0].names.step([(found[1], FOLDER)])


def _statvfs(path: Any) -> os.statvfs_result:
    there: os.statvfs_result = _real["statvfs"](path)
    found = None if isinstance(path, int) else _found(os.path.join(os.fsdecode(path), ""))
    if found is None:
        return there
    block = 4096
    blocks, free = found[0].size // block, max(0, found[0].free()) // block
    return os.statvfs_result((block, block, blocks, free, free, *there[5:]))


_OURS: dict[str, Callable[..., Any]] = {
    "open": _open,
    "write": _write,
    "fsync": _sync,
    "fdatasync": _sync,
    "ftruncate": _ftruncate,
    "truncate": _truncate,
    "posix_fallocate": _fallocate,
    "replace": _renamed("replace"),
    "rename": _renamed("rename"),
    "unlink": _removed("unlink", "delete"),
    "remove": _removed("remove", "delete"),
    "link": _link,
    "mkdir": _mkdir,
    "rmdir": _removed("rmdir", "delete"),
    "statvfs": _statvfs,
}
