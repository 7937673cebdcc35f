"""A repaired file of SQLite takes the place of the damaged one."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def put_in_place(repaired: Path, path: Path, stamp: str) -> Path:
    """Replaces the damaged file, and returns where it is kept. The caller syncs the folder. Raises `OSError`."""
    aside = path.with_name(f"{path.name}.damaged-{stamp}")
    with suppress(FileNotFoundError):
        os.rename(f"{path}-wal", f"{aside}-wal")  # SQLite would apply it to the new file
    with suppress(FileNotFoundError):
        os.unlink(f"{path}-shm")
    with suppress(FileNotFoundError):
        os.link(path, aside)
    os.replace(repaired, path)
    return aside


def remove(path: Path) -> None:
    """Removes a file with those that SQLite has beside it. Raises `OSError`."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            os.unlink(f"{path}{suffix}")
