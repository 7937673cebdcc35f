"""The files of a simulated disk: what each holds for sure, and which names lead to them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.simulation.crash_image import Change, Survival, apply, difference, survivors

# another module puts its own in their place
_open, _write, _mkdir, _rename, _unlink, _rmdir = os.open, os.write, os.mkdir, os.rename, os.unlink, os.rmdir


class Inode:
    """A file, whatever its names; `path` is the last of them. `durable` survives a power cut. `pending` are the writes
    since, if `exact` (SQLite writes the file); else they are found by comparing with what was there."""

    def __init__(self, path: str, durable: bytes = b"") -> None:
        self.path = path
        # an open file keeps its number from being given to another
        self._descriptor = _open(path, os.O_RDONLY | os.O_CLOEXEC)
        found = os.fstat(self._descriptor)
        self.number = found.st_ino
        self.mode = found.st_mode & 0o7777
        self.durable = bytearray(durable)
        self.pending: list[Change] = []
        self.exact = False
        self.failures = 0  # of syncs

    def copy(self, path: str) -> Inode:
        """The same state for the file that is now at this path; if it is empty, for this file."""
        made = Inode(path or f"/dev/fd/{self._descriptor}", bytes(self.durable))
        made.path, made.mode, made.exact, made.pending = self.path, self.mode, self.exact, list(self.pending)
        return made

    def content(self) -> bytes:
        """What a process reads."""
        return os.pread(self._descriptor, self.size(), 0)

    def size(self) -> int:
        """In bytes, as processes see it."""
        return os.fstat(self._descriptor).st_size

    def changes(self) -> list[Change]:
        """The writes since it was synced."""
        if self.exact:
            return self.pending
        return difference(self.durable, self.content())

    def be_exact(self) -> None:
        """From now on each write is put into `pending`."""
        if not self.exact:
            self.pending, self.exact = self.changes(), True

    def wrote(self, offset: int, data: bytes | None) -> None:
        """A process has written this, or truncated it to `offset`."""
        if self.exact:
            self.pending.append(Change(offset, data))

    def sync(self) -> None:
        """All of it survives."""
        apply(self.durable, self.changes())
        self.pending = []

    def lose(self, how: Survival, random: Random) -> None:
        """A sync failed: some of the writes are on the disk, the others never will be, though processes read them."""
        self.failures += 1
        self.be_exact()  # from now on the disk and what processes read differ
        apply(self.durable, survivors(self.pending, how, random))
        self.pending = []

    def after_power_cut(self, how: Survival, random: Random) -> bytes:
        """What it may hold."""
        content = bytearray(self.durable)
        apply(content, survivors(self.changes(), how, random))
        return bytes(content)

    def close(self) -> None:
        """It is forgotten."""
        os.close(self._descriptor)


class _Folder:
    """The node of a folder's name."""

    mode = 0o700


FOLDER = _Folder()
Node = Inode | _Folder
Renaming = list[tuple[str, Node | None]]
"""One step: these names lead there, or nowhere."""


class Names:
    """Which names lead where, for processes and after a power cut. File systems keep the order of such steps, so the
    first ones survive: those before the last sync of the folder in any case."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.durable: dict[str, Node] = {}
        self.now: dict[str, Node] = {}
        self._steps: list[Renaming] = []
        self._inodes: dict[int, Inode] = {}
        self.look(durable=True)

    def folder(self, number: int) -> str:
        """The folder with this number; empty if there is none."""
        folders = [self.root, *(path for path, node in self.now.items() if node is FOLDER)]
        return next((path for path in folders if os.stat(path).st_ino == number), "")

    def of_number(self, number: int) -> Inode | None:
        return self._inodes.get(number)

    def inode(self, path: str) -> Inode:
        """The file of this name, which exists."""
        number = os.stat(path).st_ino
        known = self._inodes.get(number)
        if known is None:
            known = self._inodes[number] = Inode(path)
        if self.now.get(path) is not known:
            self.step([(path, known)])
        return known

    def step(self, changes: Renaming) -> None:
        """Names have changed."""
        self._steps.append(changes)
        _take(self.now, changes)

    def look(self, *, durable: bool = False) -> None:
        """Finds names that appeared or went without a word."""
        there: set[str] = set()
        for path, is_folder in _walk(self.root):
            there.add(path)
            if is_folder:
                if path not in self.now:
                    self.step([(path, FOLDER)])
            elif not path.endswith("-shm"):
                inode = self.inode(path)
                if durable:
                    inode.durable = bytearray(inode.content())
        for path in [path for path in self.now if path not in there]:
            self.step([(path, None)])
        if durable:
            self.durable, self._steps = dict(self.now), []

    def sync(self, folder: str) -> None:
        """The names in this folder survive."""
        kept: list[Renaming] = []
        for changes in self._steps:
            if any(os.path.dirname(path) == folder for path, _ in changes):
                _take(self.durable, changes)
            else:
                kept.append(changes)
        self._steps = kept
        self._forget()

    def after_power_cut(self, how: Survival, random: Random) -> dict[str, Node]:
        """The names that may be there."""
        count = len(self._steps)
        kept = 0 if how == "none" else count if how == "all" else random.randrange(count + 1)
        names = dict(self.durable)
        for changes in self._steps[:kept]:
            _take(names, changes)
        return {path: node for path, node in names.items() if self._reachable(path, names)}

    def moved(self) -> Names:
        """The same state for files that were just copied to the places of these: a process has ended, the machine goes
        on. What was synced of a name that is gone stays known."""
        made = Names.__new__(Names)
        made.root = self.root
        copies = {id(n): n.copy(path) for path, n in self.now.items() if isinstance(n, Inode)}

        def copy(node: Node) -> Node:
            if not isinstance(node, Inode):
                return node
            if id(node) not in copies:
                copies[id(node)] = node.copy("")
            return copies[id(node)]

        made.durable = {path: copy(node) for path, node in self.durable.items()}
        made.now = {path: copy(node) for path, node in self.now.items()}
        made._steps = [[(path, node and copy(node)) for path, node in changes] for changes in self._steps]
        made._inodes = {inode.number: inode for inode in copies.values()}
        return made

    def _reachable(self, path: str, names: dict[str, Node]) -> bool:
        while (path := os.path.dirname(path)) != self.root:
            if names.get(path) is not FOLDER:
                return False
        return True

    def _forget(self) -> None:
        used = {id(node) for names in (self.durable, self.now) for node in names.values()}
        used |= {id(node) for changes in self._steps for _, node in changes}
        for inode in [inode for inode in self._inodes.values() if id(inode) not in used]:
            del self._inodes[inode.number]
            inode.close()

    def close(self) -> None:
        """Forgets all."""
        for inode in self._inodes.values():
            inode.close()
        self._inodes.clear()


def _take(names: dict[str, Node], changes: Renaming) -> None:
    for path, node in changes:
        if node is None:
            names.pop(path, None)
        else:
            names[path] = node
            if isinstance(node, Inode):
                node.path = path


def _walk(folder: str) -> Iterator[tuple[str, bool]]:
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda e: e.name)
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        if is_folder or entry.is_file(follow_symlinks=False):
            yield entry.path, is_folder
        if is_folder:
            yield from _walk(entry.path)


def write_image(root: Path, files: dict[str, tuple[bytes, int]], folders: list[str]) -> None:
    """Puts these files in the place of all that is there; whoever has the old ones open keeps them."""
    grave = root.with_name(f".{root.name}.gone")
    _rename(root, grave)
    _mkdir(root, 0o700)
    for path in sorted(folders):
        _mkdir(path, 0o700)
    for path, (content, mode) in files.items():
        descriptor = _open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            _write(descriptor, content)
        finally:
            os.close(descriptor)
    _remove(grave)


def _remove(folder: Path) -> None:
    for path, is_folder in sorted(_walk(str(folder)), reverse=True):
        _rmdir(path) if is_folder else _unlink(path)
    _rmdir(folder)
