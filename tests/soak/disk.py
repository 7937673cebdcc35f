"""A disk of its own for the gateway under test, which can be full and can stand still: ext4 on a loop device, else a
tmpfs, else a plain folder."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path


class Disk:
    """`where` is the folder, `kind` one of `ext4`, `tmpfs` and `folder`: only the first can stand still, and the last
    can't be full. `megabytes` is its size."""

    def __init__(self, where: Path, megabytes: int) -> None:
        self.where = where
        self.kind = "folder"
        self._image = where.with_suffix(".img")
        self._frozen = False
        where.mkdir(parents=True)
        if os.geteuid() == 0:
            if self._loop(megabytes):
                self.kind = "ext4"
            elif _ran("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tidegate-soak", str(where)):
                self.kind = "tmpfs"

    def _loop(self, megabytes: int) -> bool:
        with self._image.open("wb") as file:
            file.truncate(megabytes << 20)
        if _ran("mkfs.ext4", "-q", "-m", "0", str(self._image)) and _ran(
            "mount", "-o", "loop", str(self._image), str(self.where)
        ):
            return True
        self._image.unlink()
        return False

    @property
    def used(self) -> float:
        """How full it is, from 0 to 1; of a plain folder 0."""
        if self.kind == "folder":
            return 0.0
        found = os.statvfs(self.where)
        return 1 - found.f_bavail / found.f_blocks

    def fill(self, leave: int = 0) -> None:
        """Another program's file takes all room but for so many bytes."""
        with suppress(OSError), (self.where / "of-another-program").open("ab", buffering=0) as file:
            while (free := os.statvfs(self.where).f_bavail * os.statvfs(self.where).f_frsize - leave) > 0:
                os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, min(free, 1 << 20))

    def free(self) -> None:
        """That file goes."""
        (self.where / "of-another-program").unlink(missing_ok=True)

    def freeze(self) -> bool:
        """Every write waits from now on; False if this disk can't."""
        self._frozen = self.kind == "ext4" and _ran("fsfreeze", "-f", str(self.where))
        return self._frozen

    def thaw(self) -> None:
        """Writes go on."""
        if self._frozen and _ran("fsfreeze", "-u", str(self.where)):
            self._frozen = False

    def close(self) -> None:
        """Unmounts it; what was on it is gone."""
        self.thaw()
        if self.kind != "folder":
            _ran("umount", "-l", str(self.where))
        self._image.unlink(missing_ok=True)


def _ran(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
