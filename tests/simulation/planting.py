"""Bugs that are planted in the product, to see that the simulation finds them: `planted/*.toml`.

A bug is a replacement of exact text in a module of the tree. `plant` applies it while the module is imported, in this
process alone: no file is changed. So a bug that no longer fits the code fails a test, and nothing else.
"""

from __future__ import annotations

import importlib.machinery
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import CodeType, ModuleType

from tests.tree import ROOT, module_path

TREE = ROOT
FOLDER = Path(__file__).with_name("planted")


@dataclass(frozen=True)
class Change:
    """Replaces `old`, which stands in the file once, by `new`."""

    file: str
    old: str
    new: str

    @property
    def module(self) -> str:
        """The name of the module that the file is."""
        return module_path(TREE / self.file).as_posix().removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def applied(self, text: str) -> str:
        """The file's text with the bug. Raises `ValueError` if it does not fit any more."""
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"{self.file} has the text {count} times, not once:\n{self.old}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Bug:
    """A planted bug: the promise of docs/discussion/`page`.md (or of a folder that `page` names) that it breaks, in
    the page's words, and how."""

    name: str
    page: str
    promise: str
    broken: str
    changes: tuple[Change, ...]


def bugs(folder: Path = FOLDER) -> dict[str, Bug]:
    """All planted bugs of a folder, by name."""
    found: dict[str, Bug] = {}
    for file in sorted(folder.glob("*.toml")):
        for name, entry in tomllib.loads(file.read_text()).items():
            changes = tuple(Change(**change) for change in entry["change"])
            found[name] = Bug(name, entry["page"], entry["promise"], entry["broken"], changes)
    return found


def plant(bug: Bug) -> None:
    """Plants the bug in this process. Raises `ValueError` if a module of it was imported before."""
    by_module: dict[str, list[Change]] = {}
    for change in bug.changes:
        by_module.setdefault(change.module, []).append(change)
    if early := by_module.keys() & sys.modules.keys():
        raise ValueError(f"imported before the bug was planted: {', '.join(sorted(early))}")
    sys.meta_path.insert(0, _Finder(by_module))


class _Finder(MetaPathFinder):
    def __init__(self, changes: dict[str, list[Change]]) -> None:
        self._changes = changes

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self._changes:
            return None
        file = TREE / self._changes[name][0].file
        return importlib.machinery.ModuleSpec(name, _Loader(name, str(file), self._changes[name]), origin=str(file))


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, changes: list[Change]) -> None:
        super().__init__(name, path)
        self._applied = changes

    def get_code(self, fullname: str) -> CodeType:
        text = Path(self.path).read_text()
        for change in self._applied:
            text = change.applied(text)
        return compile(text, self.path, "exec")
