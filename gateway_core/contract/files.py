"""Folders that only the gateway's own user may read."""

from __future__ import annotations

import os
from pathlib import Path


def private_folder(path: Path) -> None:
    """Creates a folder, and its missing parents, for this user alone (0700), unless it exists. Raises `OSError`."""
    if not path.parent.exists():
        private_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)


def folder_fault(path: Path) -> str:
    """Why there can't be a folder of this name, "" if there is one or it can be made, as far as names and kinds of
    files tell: what a try alone shows (permissions, a full disk) is no fault."""
    try:
        for folder in (path, *path.parents):
            if folder.is_dir():
                # a missing name below it may still be too long
                os.stat(path)
                return ""
            if os.path.lexists(folder):
                return f"{folder} is no folder"
    except FileNotFoundError:
        pass
    except PermissionError:
        return ""
    except OSError as e:
        return e.strerror or str(e)
    except ValueError as e:
        return str(e)
    return ""
