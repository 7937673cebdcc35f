"""What was changed while the gateway ran: applied triggers, one file each, and which triggers are paused.

Every file is written whole or not at all, so that a crash leaves the one before or the new one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from .errors import StartError
from .settings import Settings

_PAUSED = "paused.json"


def applied_dir(settings: Settings) -> Path:
    """Where what was changed at run time is kept."""
    return settings.data_dir / "applied"


class Applied:
    """The folder of one gateway. Methods that write raise `OSError`; they wait for the disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def file(self, trigger: str) -> Path:
        """Where a trigger is kept."""
        return self.folder / f"{trigger}.yaml"

    def has(self, trigger: str) -> bool:
        """Whether it was applied."""
        return self.file(trigger).is_file()

    def read(self, triggers: Iterable[str]) -> dict[str, bytes | None]:
        """The files' contents, None where there is none: what `write` takes to bring it back."""
        return {name: self.file(name).read_bytes() if self.has(name) else None for name in triggers}

    def write(self, contents: Mapping[str, bytes | None]) -> None:
        """Writes triggers' files; None removes one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            if content is None:
                self.file(name).unlink(missing_ok=True)
            else:
                self._replace(self.file(name), content)
        self._sync()

    def paused(self) -> set[str]:
        """The names of paused triggers. Raises `StartError` where they can't be read."""
        file = self.folder / _PAUSED
        try:
            names = json.loads(file.read_bytes())
        except FileNotFoundError:
            return set()
        except (OSError, ValueError) as e:
            raise StartError(f"{file}: {e}: without it nobody knows which triggers are paused") from e
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise StartError(f"{file}: expected a list of triggers' names")
        return set(names)

    def write_paused(self, names: Iterable[str]) -> None:
        """Keeps the names of paused triggers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._replace(self.folder / _PAUSED, json.dumps(sorted(names)).encode())
        self._sync()

    def _replace(self, file: Path, content: bytes) -> None:
        temporary = file.with_name(f".{file.name}.tmp")
        try:
            with temporary.open("wb") as out:
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
            temporary.replace(file)
        except OSError:
            with suppress(OSError):
                temporary.unlink()
            raise

    def _sync(self) -> None:
        """Makes the names durable too."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
