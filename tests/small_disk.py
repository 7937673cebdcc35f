"""A real file system of a few megabytes, for tests of what a full disk does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

INSIDE = "TIDEGATE_TEST_OWN_MOUNTS"
PASSED_ELSEWHERE = Path("passed in namespaces of its own")
"""In place of a disk: `run_where_it_may_mount` has run the test, so it need not run again (tests/log/conftest.py)."""


def mounts(where: Path) -> bool:
    """Whether this process, or `sudo` without a password, may mount a small file system. It tries."""
    where.mkdir()
    if _mount(where, 1) is None:
        return False
    _unmount(where)
    return True


def run_where_it_may_mount(test: str) -> None:
    """Runs a test again in mount and user namespaces of its own, where an ordinary user may mount. Raises
    `AssertionError` where it fails there, or where the system gives no namespaces."""
    command = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-m", "pytest", "-q", "-x", test]
    root = Path(__file__).parent.parent
    ran = subprocess.run(command, env={**os.environ, INSIDE: "1"}, cwd=root, capture_output=True, text=True)
    assert ran.returncode == 0, f"a small file system needs root, sudo or user namespaces:\n{ran.stdout}{ran.stderr}"


@contextmanager
def small_disk(where: Path, megabytes: int = 30) -> Iterator[Path]:
    """A file system of this size in the new folder `where`; unmounted at the end."""
    where.mkdir()
    fault = _mount(where, megabytes)
    assert fault is not None, "can't mount a small file system"
    try:
        yield where
    finally:
        _unmount(where)


def fill(disk: Path, leave: int = 0) -> Path:
    """Another program's file takes all room but for `leave` bytes. Returns it."""
    file = disk / "of-another-program"
    with file.open("ab", buffering=0) as f:
        free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize - leave
        try:
            while free > 0:
                free -= f.write(bytes(min(free, 65_536)))
        except OSError:
            pass
    return file


def _commands(arguments: list[str]) -> Iterator[list[str]]:
    yield arguments
    if os.geteuid() != 0:
        yield ["sudo", "-n", *arguments]


def _mount(where: Path, megabytes: int) -> str | None:
    options = f"size={megabytes}m,uid={os.getuid()},mode=0700"
    return _first(lambda: _commands(["mount", "-t", "tmpfs", "-o", options, "tidegate-test", str(where)]))


def _unmount(where: Path) -> None:
    assert _first(lambda: _commands(["umount", "-l", str(where)])), f"{where} is still mounted"


def _first(commands: Callable[[], Iterator[list[str]]]) -> str | None:
    """The first of these commands that works."""
    for command in commands():
        try:
            if subprocess.run(command, capture_output=True).returncode == 0:
                return command[0]
        except FileNotFoundError:
            continue
    return None
