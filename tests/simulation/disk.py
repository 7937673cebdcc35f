"""A disk that fails, fills up and loses power, under the real code that writes to it.

    with Disk(tmp_path / "data", Random(seed)) as disk:
        ...                                   # the gateway runs on tmp_path / "data"
        disk.fail("sync", errno.EIO, "*-wal") # faults, see `fail`, `fill`, `lying`
        disk.crash("power")                   # tmp_path / "data" is now what a power cut could leave
        ...                                   # the next life of the gateway

All files are real ones in the folder, best in memory (`/dev/shm`): what SQLite does goes through `sqlite_vfs`, all else
through `os_files`. Each change of a file is a *step*; `steps` counts them. Syncs don't reach the machine's disk.

**Crashes.** `stop_at(n)` ends the process at step n, which is not done, or partly. From then on `stopped` is True,
every change fails with EIO, and `on_stop` was called (in the thread that took the step, inside of it: it must not
wait). `stop` does so now. Nothing that the gateway does afterwards happened: its answers must not be seen. End its
threads while it is stopped, then call `crash`, which puts an image into the folder, made of new files. Files that the
old life left open stay open and lead nowhere. `crash("process")` keeps all that was written; what was not synced may
still be lost in a later power cut. `crash("power")` keeps what was synced, any part of the rest (`crash_image`), and
any first part of the unsynced changes of names.

**Threads.** A step runs in the thread that made it. With equal steps in equal order, equal `random` gives equal images.

If something in here is wrong, SQLite only sees an I/O error: `check` raises it; leaving the `with` block does, too.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Literal

from tests.simulation import os_files
from tests.simulation.crash_image import SURVIVALS, Survival
from tests.simulation.inodes import Inode, Names, Node, write_image
from tests.simulation.sqlite_vfs import Refusal, WatchedFile, shim

MIB = 1024 * 1024
_BLOCK = 4096


class Rule:
    """A fault: steps of this kind on files of this name fail with this error, `times` times (0: until it is healed)
    after the first `skip`. `hits` counts."""

    def __init__(self, kind: str, error: int, names: str, skip: int, times: int) -> None:
        self.kind = kind
        self.error = error
        self.names = names
        self.skip = skip
        self.times = times
        self.hits = 0
        self.on_hit: Callable[[], None] = lambda: None

    def applies(self, kind: str, name: str) -> bool:
        """Whether this step fails."""
        if kind != self.kind or (self.times and self.hits >= self.times) or not fnmatchcase(name, self.names):
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.hits += 1
        self.on_hit()
        return True


class Disk:
    """See the module. `size`: of the disk, in bytes, as `os.statvfs` tells it; the log takes an eighth of it for its
    ballast. Kinds of steps: create, write, truncate, sync, rename, delete (and read, see `fail`)."""

    def __init__(self, folder: Path, random: Random, size: int = 16 * MIB) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = Path(os.path.realpath(folder))
        self.root = f"{self.folder}/"
        self.device = os.stat(folder).st_dev
        self.size = size
        self.steps = 0
        self.lying = False
        """While True, syncs say yes and do nothing. The next sync of a file after that makes up for it."""
        self.stopped = False
        self.watches_reads = False
        self.on_stop: Callable[[], None] | None = None
        self.owner: Callable[[], object] = lambda: None
        """The process that runs now, where there are several."""
        self.dead: set[object] = set()
        """Those that are dead, while others go on."""
        self._random = random
        self._lock = threading.RLock()
        self._stop_at = 0
        self._rules: list[Rule] = []
        self._filled = 0
        self._room = -1  # bytes that may be written before the free space is looked up again
        self.names = Names(str(self.folder))

    # -- crashes ----------------------------------------------------------------------------------------------------

    def stop_at(self, step: int) -> None:
        """The process ends at this step, counted from the disk's first one as in `steps`; 0 for never."""
        self._stop_at = step

    def stop(self) -> None:
        """The process ends now."""
        with self._lock:
            if self.stopped:
                return
            self.stopped = True
            shim().kill(self)
        if self.on_stop is not None:
            self.on_stop()

    def crash(self, kind: Literal["process", "power"], how: Survival | None = None) -> None:
        """Replaces the folder's content by what is there after the crash; the disk works again, without faults."""
        self.stop()
        with self._lock:
            self.names.look()
            if kind == "power":
                self._cut(how)
            else:
                self._restart()
            self.heal()
            self.lying, self._filled, self._stop_at, self._room = False, 0, 0, -1
            self.stopped = False

    def _cut(self, how: Survival | None) -> None:
        names = self.names.after_power_cut(self._how(how), self._random)
        images: dict[int, bytes] = {}
        for node in names.values():
            if isinstance(node, Inode) and node.number not in images:
                images[node.number] = node.after_power_cut(self._how(how), self._random)
        self._write({p: images[n.number] for p, n in names.items() if isinstance(n, Inode)}, names)
        self.names.close()
        self.names = Names(str(self.folder))

    def _how(self, how: Survival | None) -> Survival:
        return self._random.choice(SURVIVALS) if how is None else how

    def _restart(self) -> None:
        before = self.names
        self._write({p: n.content() for p, n in before.now.items() if isinstance(n, Inode)}, before.now)
        self.names = before.moved()
        before.close()

    def _write(self, contents: dict[str, bytes], names: dict[str, Node]) -> None:
        folders = [path for path, node in names.items() if not isinstance(node, Inode)]
        write_image(self.folder, {path: (content, names[path].mode) for path, content in contents.items()}, folders)

    # -- faults -----------------------------------------------------------------------------------------------------

    def fail(self, kind: str, error: int = errno.EIO, names: str = "*", *, skip: int = 0, times: int = 1) -> Rule:
        """Steps of this kind fail on files whose path in the folder matches `names`. A failing write may leave its
        first part. Of what a failing sync should have stored, some is on the disk, and the rest never will be, though
        processes read it. `read` is for SQLite's files only, and costs time."""
        rule = Rule(kind, error, names, skip, times)
        with self._lock:
            self._rules.append(rule)
            self._look_at_reads()
        return rule

    def heal(self, rule: Rule | None = None) -> None:
        """Ends this fault, or all."""
        with self._lock:
            self._rules = [] if rule is None else [r for r in self._rules if r is not rule]
            self._look_at_reads()

    def _look_at_reads(self) -> None:
        wanted = any(rule.kind == "read" for rule in self._rules)
        if wanted != self.watches_reads:
            self.watches_reads = wanted
            shim().watch_reads(self)

    def fill(self, leave: int = 0) -> None:
        """Another program takes all space but for this many bytes; `fill(disk.size)` gives it back."""
        with self._lock:
            self._filled = 0
            self._filled = max(0, self.free() - leave)
            self._room = -1

    def free(self) -> int:
        """Bytes."""
        return self.size - self._filled - _used(self.root)

    # -- steps ------------------------------------------------------------------------------------------------------

    def step(self, kind: str, path: str, size: int = 0) -> None:
        """Something is about to change. Raises `Refusal`."""
        name = path[len(self.root) :]
        with self._lock:
            if self.stopped or (self.dead and self.owner() in self.dead):
                raise Refusal(errno.EIO)
            self.steps += 1
            if self.steps == self._stop_at:
                self.stop()
                raise Refusal(errno.EIO, self._part(size))
            for rule in self._rules:
                if rule.applies(kind, name):
                    raise Refusal(rule.error, self._part(size))

    def grow(self, kind: str, path: str, size: int, more: int | None = None) -> None:
        """The same for a write of `size` bytes that makes the file `more` bytes longer (None: all of them)."""
        self.step(kind, path, size)
        more = size if more is None else more
        if more <= 0:
            return
        with self._lock:
            self._room -= more
            if self._room < 0:
                self._room = self.free() - more
                if self._room < 0:
                    self._room = -1
                    raise Refusal(errno.ENOSPC, self._part(min(size, max(0, self.free()))))

    def _part(self, size: int) -> int:
        return self._random.randrange(size + 1) if size and self._random.random() < 0.5 else 0

    def sync(self, inode: Inode) -> None:
        """What was written to this file survives. Raises `Refusal`."""
        self._synced(inode, inode.path)

    def sync_folder(self, path: str) -> None:
        """The names in this folder survive. Raises `Refusal`."""
        self._synced(None, path)

    def _synced(self, inode: Inode | None, path: str) -> None:
        try:
            self.step("sync", path)
        except Refusal:
            with self._lock:
                if inode is not None and not self.stopped:
                    inode.lose(self._how(None), self._random)
            raise
        with self._lock:
            if self.lying:
                return
            if inode is not None:
                inode.sync()
            else:
                self.names.look()
                self.names.sync(path)

    # -- SQLite's files ---------------------------------------------------------------------------------------------

    def opening(self, path: str, *, create: bool) -> None:
        """See `sqlite_vfs.Watcher`."""
        if create and not os.path.exists(path):
            self.step("create", path)
        elif self.stopped:
            raise Refusal(errno.EIO)

    def opened(self, path: str, *, journal: bool) -> WatchedFile:
        with self._lock:
            inode = self.names.inode(path)
            inode.be_exact()
        return _SqliteFile(self, inode, journal)

    def deleting(self, path: str) -> None:
        if os.path.exists(path):
            self.step("delete", path)

    def deleted(self, path: str, *, sync_folder: bool) -> None:
        with self._lock:
            self.names.step([(path, None)])
        if sync_folder:
            self.sync_folder(os.path.dirname(path))

    # -- its life ---------------------------------------------------------------------------------------------------

    def __enter__(self) -> Disk:
        shim().watch(self, self._random.randbytes)
        os_files.install(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os_files.remove(self)
        shim().forget(self)
        shim().kill(self)
        self.names.close()
        if error is None:
            self.check()

    def check(self) -> None:
        """Raises what went wrong in here since the last call."""
        if errors := shim().errors:
            first, errors[:] = errors[0], []
            raise first


class _SqliteFile:
    """A file that SQLite has open (`sqlite_vfs.WatchedFile`)."""

    def __init__(self, disk: Disk, inode: Inode, journal: bool) -> None:
        self._disk = disk
        self._names = disk.names  # of this life
        self._inode = inode
        self._journal = journal
        self._failures = inode.failures  # that this open file knows of
        self.owner = disk.owner()

    def _alive(self) -> None:
        if self._names is not self._disk.names or self.owner in self._disk.dead:
            raise Refusal(errno.EIO)

    def reading(self) -> None:
        self._alive()
        self._disk.step("read", self._inode.path)

    def writing(self, offset: int, data: bytes) -> None:
        self._alive()
        self._disk.grow("write", self._inode.path, len(data), offset + len(data) - self._inode.size())

    def wrote(self, offset: int, data: bytes) -> None:
        self._inode.wrote(offset, data)

    def truncating(self, size: int) -> None:
        self._alive()
        self._disk.step("truncate", self._inode.path)

    def truncated(self, size: int) -> None:
        self._inode.wrote(size, None)

    def sync(self) -> None:
        self._alive()
        if self._failures != self._inode.failures:  # Linux tells each open file once
            self._failures = self._inode.failures
            raise Refusal(errno.EIO)
        try:
            self._disk.sync(self._inode)
        finally:
            self._failures = self._inode.failures
        if self._journal and not self._disk.lying:
            self._journal = False
            self._disk.sync_folder(os.path.dirname(self._inode.path))

    def shared_memory(self, size: int) -> None:
        self._alive()
        if self._disk.stopped:
            raise Refusal(errno.EIO)
        if self._disk.free() < size - _size(f"{self._inode.path}-shm"):
            raise Refusal(errno.ENOSPC)

    def closed(self) -> None:
        return


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _used(folder: str) -> int:
    total = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                total += _used(entry.path)
            elif entry.is_file(follow_symlinks=False):
                total += -(-entry.stat().st_size // _BLOCK) * _BLOCK
    return total
