"""Keeps changes made while the gateway runs: applied triggers, one file each, and which triggers are paused.

Files are replaced atomically, so a crash leaves either the old or the new one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from gateway_core.contract.errors import Fault, StartError
from gateway_core.contract.files import private_folder
from gateway_core.contract.private_files import replace_file, sync_directory
from gateway_core.contract.settings import Settings

_PAUSED = "paused.json"


def applied_dir(settings: Settings) -> Path:
    """The folder for changes made at run time."""
    return settings.data_dir / "applied"


def config_files(settings: Settings) -> list[Path]:
    """The folder of applied triggers, if there are any. Raises `StartError`."""
    applied = applied_dir(settings)
    try:
        names = os.listdir(applied)  # `glob` treats an unreadable folder as empty
    except (FileNotFoundError, NotADirectoryError):
        names = []
    except OSError as e:
        raise StartError(f"{applied} can't be read: {e.strerror}: make the applied triggers readable") from e
    return [applied] if any(name.endswith(".yaml") for name in names) else []


def check_settings(settings: Settings) -> list[Fault]:
    """Why a gateway would not start with what was applied to its data directory."""
    try:
        config_files(settings)
        Applied(applied_dir(settings)).paused()
    except StartError as e:
        return [Fault(str(e))]
    return []


class Applied:
    """The folder of one gateway. Methods that write raise `OSError`; they wait for the disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def file(self, trigger: str) -> Path:
        """The file of a trigger."""
        return self.folder / f"{trigger}.yaml"

    def has(self, trigger: str) -> bool:
        """Whether a trigger was applied."""
        return self.file(trigger).is_file()

    def read(self, triggers: Iterable[str]) -> dict[str, bytes | None]:
        """The contents of the files, None for a missing one. `write` restores them."""
        return {name: self.file(name).read_bytes() if self.has(name) else None for name in triggers}

    def write(self, contents: Mapping[str, bytes | None]) -> None:
        """Writes triggers' files; None removes one."""
        private_folder(self.folder)
        for name, content in contents.items():
            if content is None:
                self.file(name).unlink(missing_ok=True)
            else:
                replace_file(self.file(name), content)
        sync_directory(self.folder)

    def paused(self) -> set[str]:
        """The names of paused triggers. Raises `StartError` if they can't be read."""
        file = self.folder / _PAUSED
        try:
            names = json.loads(file.read_bytes())
        except FileNotFoundError:
            return set()
        except (OSError, ValueError) as e:
            why = getattr(e, "strerror", None) or e
            raise StartError(
                f"{file}: {why}: the gateway can't know which triggers are paused; write a JSON list of their names"
                " into it, or remove it to resume all of them"
            ) from e
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise StartError(f"{file}: expected a list of triggers' names")
        return set(names)

    def write_paused(self, names: Iterable[str]) -> None:
        """Saves the names of paused triggers."""
        private_folder(self.folder)
        replace_file(self.folder / _PAUSED, json.dumps(sorted(names)).encode())
