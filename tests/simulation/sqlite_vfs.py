"""Stands between SQLite and the disk: watches what the SQLite of the standard library's `sqlite3` writes.

SQLite reaches files through a VFS, a table of C functions (https://www.sqlite.org/vfs.html). `find_vfs` finds the
process's default one, and while a `Shim` is installed, two of its entries point here: `xOpen` and `xDelete`. A file in
a watched folder is opened by the real `xOpen`; then its own table of methods is replaced by a copy in which only the
writing ones are ours. Reads, locks and the shared memory of WAL stay what they were, in C. So the code that ships runs
unchanged, and a read costs nothing.

The default VFS is found by `sqlite3_vfs_find`, through the handle of the module `_sqlite3`. If SQLite is linked
statically and exports nothing, it is found through a connection: a `sqlite3.Connection` begins with a pointer to
SQLite's own connection, and that begins with a pointer to its VFS. Both ways lead to the same table. If neither does
(another Python than CPython), `find_vfs` raises `OSError`.

Callbacks hold Python's lock. If one raises, SQLite gets an I/O error and `Shim.errors` gets the exception.
"""

from __future__ import annotations

import atexit
import ctypes
import errno
import os
import sqlite3
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, PYFUNCTYPE, Structure, c_char_p, c_int, c_int64, c_void_p, string_at
from typing import Any, Protocol

_VFS_FIELDS = (
    *("xOpen", "xDelete", "xAccess", "xFullPathname", "xDlOpen", "xDlError", "xDlSym", "xDlClose", "xRandomness"),
    *("xSleep", "xCurrentTime", "xGetLastError"),
)
_METHODS = (
    *("xClose", "xRead", "xWrite", "xTruncate", "xSync", "xFileSize", "xLock", "xUnlock", "xCheckReservedLock"),
    *("xFileControl", "xSectorSize", "xDeviceCharacteristics", "xShmMap", "xShmLock", "xShmBarrier", "xShmUnmap"),
    *("xFetch", "xUnfetch"),
)
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "xOpen": (c_int, c_void_p, c_void_p, c_void_p, c_int, POINTER(c_int)),
    "xDelete": (c_int, c_void_p, c_void_p, c_int),
    "xRandomness": (c_int, c_void_p, c_int, c_void_p),
    "xClose": (c_int, c_void_p),
    "xRead": (c_int, c_void_p, c_void_p, c_int, c_int64),
    "xWrite": (c_int, c_void_p, c_void_p, c_int, c_int64),
    "xTruncate": (c_int, c_void_p, c_int64),
    "xSync": (c_int, c_void_p, c_int),
    "xLock": (c_int, c_void_p, c_int),
    "xShmMap": (c_int, c_void_p, c_int, c_int, c_int, POINTER(c_void_p)),
    "xShmUnmap": (c_int, c_void_p, c_int),
}
_OURS = ("xClose", "xRead", "xWrite", "xTruncate", "xSync", "xLock", "xShmMap", "xShmUnmap")
_WATCHED = ("xClose", "xWrite", "xTruncate", "xSync", "xShmMap")
_READS = ("xRead",)
_DEAD = ("xRead", "xLock", "xShmUnmap")
# Ours are called by SQLite, which has let go of Python's lock; SQLite's are called with it held, so that a write and
# its record are one step.
_CALLBACK = {name: CFUNCTYPE(*types) for name, types in _SIGNATURES.items()}
_NATIVE = {name: PYFUNCTYPE(*types) for name, types in _SIGNATURES.items()}

OK, IOERR, FULL, CANTOPEN = 0, 10, 13, 14
_CODES = {
    "xRead": IOERR | 33 << 8,  # SQLITE_IOERR_CORRUPTFS, as SQLite says for EIO
    "xWrite": IOERR | 3 << 8,
    "xSync": IOERR | 4 << 8,
    "xTruncate": IOERR | 6 << 8,
    "xDelete": IOERR | 10 << 8,
    "xLock": IOERR | 15 << 8,
    "xShmMap": IOERR | 19 << 8,
    "xOpen": CANTOPEN,
}
_WAL_OR_JOURNAL = 0x00080000 | 0x00000800 | 0x00004000  # SQLITE_OPEN_WAL, _MAIN_JOURNAL, _SUPER_JOURNAL
_CREATE = 0x00000004


class Refusal(OSError):
    """The disk refuses; a write leaves its first `part` bytes all the same."""

    def __init__(self, number: int, part: int = 0) -> None:
        super().__init__(number, os.strerror(number))
        self.part = part


class WatchedFile(Protocol):
    """What is told of one open file. Each of these may raise `Refusal`, before anything has happened."""

    owner: object
    """The process that has opened it."""

    def reading(self) -> None: ...
    def writing(self, offset: int, data: bytes) -> None: ...
    def wrote(self, offset: int, data: bytes) -> None:
        """It is written."""

    def truncating(self, size: int) -> None: ...
    def truncated(self, size: int) -> None: ...
    def sync(self) -> None:
        """Raises `Refusal` if it fails."""

    def shared_memory(self, size: int) -> None:
        """The index of the write-ahead log is to be this long at least."""

    def closed(self) -> None: ...


class Watcher(Protocol):
    """A folder whose files are watched."""

    root: str
    """Its path, with a slash at the end."""
    watches_reads: bool

    def opening(self, path: str, *, create: bool) -> None:
        """Raises `Refusal`."""

    def opened(self, path: str, *, journal: bool) -> WatchedFile:
        """SQLite has the file open; `journal`: its first sync syncs its folder, too."""

    def deleting(self, path: str) -> None:
        """Raises `Refusal`."""

    def deleted(self, path: str, *, sync_folder: bool) -> None: ...


class _Vfs(Structure):
    _fields_ = [
        *(("iVersion", c_int), ("szOsFile", c_int), ("mxPathname", c_int)),
        *(("pNext", c_void_p), ("zName", c_char_p), ("pAppData", c_void_p)),
        *((name, c_void_p) for name in _VFS_FIELDS),
    ]


class _Methods(Structure):
    _fields_ = [("iVersion", c_int), *((name, c_void_p) for name in _METHODS)]


class _File(Structure):
    _fields_ = [("pMethods", c_void_p)]


def find_vfs() -> int:
    """The address of the default VFS of the SQLite that `sqlite3` uses. Raises `OSError`."""
    return exported_vfs() or vfs_of_connection()


def library() -> ctypes.CDLL | None:
    """The library with SQLite's functions, or None if it exports none."""
    import _sqlite3

    for name in (getattr(_sqlite3, "__file__", None), None):
        try:
            found = ctypes.CDLL(name)
            found.sqlite3_vfs_find, found.sqlite3_randomness  # noqa: B018 - raises if there is none
        except (OSError, AttributeError):
            continue
        if name is not None or _same_version(found):
            return found
    return None


def _same_version(found: ctypes.CDLL) -> bool:
    found.sqlite3_libversion.restype = c_char_p
    return bool(found.sqlite3_libversion() == sqlite3.sqlite_version.encode())


def exported_vfs() -> int:
    """Its address by the exported symbol; 0 if there is none."""
    found = library()
    if found is None:
        return 0
    found.sqlite3_vfs_find.restype = c_void_p
    return int(found.sqlite3_vfs_find(None) or 0)


def vfs_of_connection() -> int:
    """Its address by the first fields of a connection. Raises `OSError` if what is there is no VFS."""
    connection = sqlite3.connect(":memory:")
    try:
        database = c_void_p.from_address(id(connection) + object.__basicsize__).value
        address = c_void_p.from_address(database).value if database else None
        if address is not None and _is_vfs(_Vfs.from_address(address)):
            return address
    finally:
        connection.close()
    raise OSError(errno.ENOSYS, "this Python's SQLite can't be reached: it exports no symbols, and is not CPython's")


def _is_vfs(found: _Vfs) -> bool:
    return found.iVersion in (1, 2, 3) and (found.zName or b"").startswith((b"unix", b"win32"))


class _Table:
    """The methods of one kind of file: SQLite's own, and copies in which some are ours."""

    def __init__(self, address: int, ours: dict[str, Any]) -> None:
        own = self.own = _Methods.from_address(address)
        self.native = {name: _NATIVE[name](getattr(own, name)) for name in _OURS if getattr(own, name)}
        self.watched = self._copy(own, ours, _WATCHED)
        self.reads = self._copy(own, ours, (*_WATCHED, *_READS))
        self.dead = self._copy(own, ours, (*_WATCHED, *_DEAD))

    def _copy(self, own: _Methods, ours: dict[str, Any], names: tuple[str, ...]) -> _Methods:
        made = _Methods.from_buffer_copy(own)
        for name in names:
            if getattr(own, name):
                setattr(made, name, ctypes.cast(ours[name], c_void_p).value)
        return made


class _Open:
    __slots__ = ("_memory", "closed", "file", "native", "table", "watcher")

    def __init__(self, address: int, file: WatchedFile, table: _Table, watcher: Watcher) -> None:
        self.closed = False
        """SQLite may have given its memory to another."""
        self._memory = _File.from_address(address)
        self.file = file
        self.table = table
        self.native = table.native
        self.watcher = watcher

    def use(self, methods: _Methods) -> None:
        address = ctypes.addressof(methods)
        if not self.closed:  # and no call here, in which a thread or the collection of garbage could close it
            self._memory.pMethods = address


class Shim:
    """The changes to the VFS of this process. One is enough: `shim()`."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self._watchers: list[Watcher] = []
        self._open: dict[int, _Open] = {}
        self._tables: dict[int, _Table] = {}
        self._address = find_vfs()
        self._vfs = _Vfs.from_address(self._address)
        self._before: dict[str, int] = {}
        self._native: dict[str, Any] = {}
        self._random: Callable[[int], bytes] | None = None
        # they must live as long as a file is open
        self._ours = {name: _CALLBACK[name](getattr(self, f"_{name}")) for name in _OURS}
        self._entries = {
            name: _CALLBACK[name](getattr(self, f"_{name}")) for name in ("xOpen", "xDelete", "xRandomness")
        }

    def watch(self, watcher: Watcher, random: Callable[[int], bytes] | None = None) -> None:
        """Watches a folder from now on. `random` seeds SQLite's random numbers (salts of write-ahead logs), if SQLite
        exports what it takes."""
        if not self._watchers:
            for name, entry in self._entries.items():
                self._before[name] = getattr(self._vfs, name)
                self._native[name] = _NATIVE[name](self._before[name])
                setattr(self._vfs, name, ctypes.cast(entry, c_void_p).value)
        self._watchers.append(watcher)
        self._seed(random)

    def forget(self, watcher: Watcher) -> None:
        """Files that are still open stay watched; new ones are not."""
        self._watchers.remove(watcher)
        self._seed(None)
        if not self._watchers:
            self._restore()

    def watch_reads(self, watcher: Watcher) -> None:
        """`watches_reads` has changed."""
        for open_file in self._all():
            if open_file.watcher is watcher:
                open_file.use(open_file.table.reads if watcher.watches_reads else open_file.table.watched)

    def kill(self, watcher: Watcher, owner: object = None) -> None:
        """The process that has these files open is dead: whatever it still does to them fails. With an `owner`, those
        that it has opened."""
        for open_file in self._all():
            if open_file.watcher is watcher and owner in (None, open_file.file.owner):
                open_file.use(open_file.table.dead)

    def _all(self) -> list[_Open]:
        """Those that are open now. Threads, and garbage that is collected, close some while one goes through them."""
        return list(self._open.values())

    def leave(self) -> None:
        """Python is about to end: nothing of it is called any more, even by files that stay open."""
        for open_file in self._all():
            open_file.use(open_file.table.own)
        if self._watchers:
            self._restore()

    def _restore(self) -> None:
        for name, before in self._before.items():
            setattr(self._vfs, name, before)

    def _seed(self, random: Callable[[int], bytes] | None) -> None:
        self._random = random
        found = library()
        if found is not None:
            found.sqlite3_randomness(0, None)  # the next number asks for a new seed

    def _watcher_of(self, path: str) -> Watcher | None:
        for watcher in self._watchers:
            if path.startswith(watcher.root):
                return watcher
        return None

    def _broke(self, error: BaseException) -> int:
        self.errors.append(error)
        return IOERR

    # -- the VFS ----------------------------------------------------------------------------------------------------

    def _xOpen(self, vfs: int, name: int | None, file: int, flags: int, out: Any) -> int:
        try:
            native = self._native["xOpen"]
            path = os.fsdecode(string_at(name)) if name else ""
            watcher = self._watcher_of(path) if path else None
            if watcher is None:
                return int(native(vfs, name, file, flags, out))
            try:
                watcher.opening(path, create=bool(flags & _CREATE))
            except Refusal:
                _File.from_address(file).pMethods = None
                return CANTOPEN
            if code := int(native(vfs, name, file, flags, out)):
                return code
            known = _File.from_address(file).pMethods
            assert known is not None
            if known not in self._tables:
                self._tables[known] = _Table(known, self._ours)
            table = self._tables[known]
            journal = bool(flags & _WAL_OR_JOURNAL and flags & _CREATE)
            opened = self._open[file] = _Open(file, watcher.opened(path, journal=journal), table, watcher)
            opened.use(table.reads if watcher.watches_reads else table.watched)
            return OK
        except BaseException as e:
            return self._broke(e)

    def _xDelete(self, vfs: int, name: int, sync_folder: int) -> int:
        try:
            path = os.fsdecode(string_at(name))
            watcher = self._watcher_of(path)
            if watcher is not None:
                watcher.deleting(path)
            code = int(self._native["xDelete"](vfs, name, 0 if watcher else sync_folder))
            if watcher is not None and code == OK:
                watcher.deleted(path, sync_folder=bool(sync_folder))
            return code
        except Refusal:
            return _CODES["xDelete"]
        except BaseException as e:
            return self._broke(e)

    def _xRandomness(self, vfs: int, size: int, out: int) -> int:
        if self._random is None:
            return int(self._native["xRandomness"](vfs, size, out))
        try:
            ctypes.memmove(out, self._random(size), size)
            return size
        except BaseException as e:
            self._broke(e)
            return 0

    # -- files ------------------------------------------------------------------------------------------------------

    def _xClose(self, file: int) -> int:
        try:
            known = self._open.pop(file)
            known.closed = True
            code = int(known.native["xClose"](file))
            known.file.closed()
            return code
        except BaseException as e:
            return self._broke(e)

    def _xRead(self, file: int, out: int, size: int, offset: int) -> int:
        try:
            known = self._open[file]
            known.file.reading()
            return int(known.native["xRead"](file, out, size, offset))
        except Refusal:
            return _CODES["xRead"]
        except BaseException as e:
            return self._broke(e)

    def _xWrite(self, file: int, data: int, size: int, offset: int) -> int:
        try:
            known = self._open[file]
            content = string_at(data, size)
            try:
                known.file.writing(offset, content)
            except Refusal as e:
                if e.part and known.native["xWrite"](file, data, e.part, offset) == OK:
                    known.file.wrote(offset, content[: e.part])
                return FULL if e.errno == errno.ENOSPC else _CODES["xWrite"]
            if (code := int(known.native["xWrite"](file, data, size, offset))) == OK:
                known.file.wrote(offset, content)
            return code
        except BaseException as e:
            return self._broke(e)

    def _xTruncate(self, file: int, size: int) -> int:
        try:
            known = self._open[file]
            known.file.truncating(size)
            if (code := int(known.native["xTruncate"](file, size))) == OK:
                known.file.truncated(size)
            return code
        except Refusal:
            return _CODES["xTruncate"]
        except BaseException as e:
            return self._broke(e)

    def _xSync(self, file: int, flags: int) -> int:
        try:
            self._open[file].file.sync()
            return OK
        except Refusal:
            return _CODES["xSync"]
        except BaseException as e:
            return self._broke(e)

    def _xLock(self, file: int, level: int) -> int:
        return _CODES["xLock"]  # of a dead process: without the lock, it does not remove the write-ahead log either

    def _xShmMap(self, file: int, page: int, size: int, extend: int, out: Any) -> int:
        try:
            known = self._open[file]
            if extend:
                known.file.shared_memory((page + 1) * size)
            return int(known.native["xShmMap"](file, page, size, extend, out))
        except Refusal:
            return _CODES["xShmMap"]
        except BaseException as e:
            return self._broke(e)

    def _xShmUnmap(self, file: int, delete: int) -> int:
        try:
            return int(self._open[file].native["xShmUnmap"](file, 0))
        except BaseException as e:
            return self._broke(e)


_shim: Shim | None = None


def shim() -> Shim:
    """The one of this process. Raises `OSError` if SQLite can't be reached."""
    global _shim
    if _shim is None:
        _shim = Shim()
        atexit.register(_shim.leave)
    return _shim
