"""Folders that only the gateway's own user may read."""

from __future__ import annotations

from pathlib import Path


def private_folder(path: Path) -> None:
    """Creates a folder, and its missing parents, for this user alone (0700), unless it exists. Raises `OSError`."""
    if not path.parent.exists():
        private_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)
