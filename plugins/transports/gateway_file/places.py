"""Where lines may be appended, as far as names and kinds of files tell before anything is opened."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from gateway_core.contract.component import BuildContext
from gateway_core.contract.data_folder import LOCK
from gateway_core.contract.errors import StartError
from gateway_core.contract.files import folder_fault

_FILES = ("names.json", "gateway.json", LOCK)
KEPT = frozenset({"log", "applied", "audit", "spark", "mqtt", "kafka", "schedule", "replay", "started-late", *_FILES})
"""What a gateway itself keeps in its data directory; and all that begins with `admin.`. `dead-letter/` and `files/` are
for lines."""


def refuse_place(path: Path, context: BuildContext) -> None:
    """Raises `StartError` if the component can't append to this file, whoever starts the gateway."""
    if not context.offline and (why := place_fault(path, context.data_dir)):
        raise StartError(f"{context.owner}: can't write {path}: {why}")


def place_fault(path: Path, data_dir: Path) -> str:
    """Why no lines can be appended to a file of this name, "" if they can, or if only a try shows it (permissions, a
    full disk). `data_dir` is the data directory in use; those of other gateways are known by their lock."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        if path.is_symlink():
            return _of_link(path)
        if why := folder_fault(path.parent):
            return why
    except PermissionError:
        return ""
    except NotADirectoryError:
        return folder_fault(path.parent)
    except OSError as e:  # too long, or links in a circle
        return e.strerror or str(e)
    except ValueError as e:  # a NUL character
        return str(e)
    else:
        if stat.S_ISDIR(mode):
            return "it is a folder"
        if stat.S_ISSOCK(mode):
            return "it is a socket"
    return _kept(path, data_dir)


def _of_link(path: Path) -> str:
    """A link whose target is missing: the target would be created, its folder would not."""
    target = path.resolve()
    return "" if target.parent.is_dir() else f"it is a link to {target}, whose folder does not exist"


def _kept(path: Path, data_dir: Path) -> str:
    where = path.resolve()
    for folder in _data_folders(where, data_dir.resolve()):
        first = where.relative_to(folder).parts[0]
        if first in KEPT or first.startswith("admin."):
            return f"a gateway keeps its own {first} there, in its data directory {folder}"
    return ""


def _data_folders(where: Path, data_dir: Path) -> Iterator[Path]:
    for folder in where.parents:
        if folder == data_dir or (folder / LOCK).is_file():
            yield folder
