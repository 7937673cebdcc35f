"""Exchanges two folders of a local file system atomically, so that readers always find one."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from ..errors import SparkFault

_AT_FDCWD = -100
_EXCHANGE = 2  # renameat2(2) RENAME_EXCHANGE, and renamex_np(2) RENAME_SWAP


def exchange(one: Path, other: Path) -> None:
    """Swaps the names of two existing folders. Raises `SparkFault` if the system or the file system can't."""
    libc = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    if sys.platform == "darwin":
        failed = libc.renamex_np(*names, ctypes.c_uint(_EXCHANGE))
    elif hasattr(libc, "renameat2"):
        failed = libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], ctypes.c_uint(_EXCHANGE))
    else:
        raise SparkFault("this system can't exchange two folders atomically, which parquet tables need: use delta")
    if failed:
        words = os.strerror(ctypes.get_errno())
        raise SparkFault(f"the file system of {one} can't exchange two folders atomically ({words}): use delta")
