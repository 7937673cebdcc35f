"""Finds the files of a config, follows their includes and merges their sections."""

from __future__ import annotations

import glob
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..contract.components import Components
from ..contract.config_node import Node, Place, dotted
from ..contract.config_yaml import read
from ..contract.configs import SUFFIXES
from ..contract.errors import Fault
from ..contract.interpolation import Interpolator
from .documents import Documents
from .report import Report
from .sections import sections

MAX_INCLUDE_DEPTH = 32


class Sources:
    """The merged config: `root` holds all sections, `files` those that were read, in order; `report` their faults."""

    def __init__(self, registry: Components, env: Mapping[str, str], without: Collection[Path] = ()) -> None:
        self.root = Node({}, "", 0)
        self.files: list[str] = []
        self.report = Report(self.root)
        self.documents = Documents(self.root, registry, self.report)
        self._registry = registry
        self._sections = sections(registry)
        self._env = env
        self._seen: set[Path] = {path.resolve() for path in without}

    def add(self, path: Path, at: Fault | None = None, chain: tuple[Path, ...] = ()) -> None:
        """Reads a file, or a directory's `*.yaml` and `*.yml`. `at` has the place of the include that names it."""
        place = at or Fault("", file=str(path))
        try:
            files = config_files(path, self._registry) if path.is_dir() else [path]
            if not files:
                remedy = "name a file, or put the config there"
                self._fault("the directory has no *.yaml or *.yml file", place, remedy)
            for file in files:
                self._file(file, place, chain)
        except (OSError, ValueError) as e:
            reason = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
            self._fault(f"{path} can't be read: {reason}" if at else f"can't be read: {reason}", place)

    def _file(self, file: Path, at: Fault, chain: tuple[Path, ...]) -> None:
        identity = file.resolve()
        if identity in chain:
            names = " → ".join(p.name for p in (*chain[chain.index(identity) :], identity))
            self._fault(f"files include each other: {names}", at, "remove one of the includes")
            return
        if identity in self._seen:
            return
        data = file.read_bytes()
        self._seen.add(identity)
        self.files.append(str(file))
        reading = read(data, str(file))
        self.report.add(reading.faults)
        self.take(reading.documents)
        for document in reading.documents:
            if "include" in document.value:
                self._include(document.value["include"], file, (*chain, identity))

    def take(self, documents: Sequence[Node]) -> None:
        """Takes documents that were read; their includes are ignored. Raises `ConfigError` (`kind_of`)."""
        for document in documents:
            if not self.documents.take(document):
                self._merge(document)

    def _merge(self, document: Node) -> None:
        for key, node in document.value.items():
            section, merged, line = self._sections.get(key), self.root.value.get(key), document.lines[key]
            if key == "include" or (section is not None and node.value is None and not section.plugin):
                continue
            if section is not None and not isinstance(node.value, dict if section.named else list):
                what = f"expected {'a mapping of names' if section.named else 'a list'}"
                self._fault(what, Fault("", key, node.file, line), "" if node.value else "write entries, or remove it")
            elif merged is None:
                self.root.value[key] = node.copy(line)
                self.root.lines[key] = line
            elif section is not None and section.named:
                self._merge_names(key, merged, node)
            elif section is not None:
                merged.value.extend(node.value)

    def _merge_names(self, section: str, merged: Node, node: Node) -> None:
        for name, value in node.value.items():
            if name in merged.value:
                file, line = merged.value[name].file, merged.lines[name]
                message = f"`{name}` is defined twice; first in {f'{file}:' if file else 'line '}{line}"
                at = Fault("", dotted((section, name)), node.file, node.lines[name])
                self._fault(message, at, "rename or remove one of them")
            else:
                merged.value[name] = value
                merged.lines[name] = node.lines[name]

    def _include(self, node: Node, file: Path, chain: tuple[Path, ...]) -> None:
        patterns = node.value if isinstance(node.value, list) else [node]
        for i, one in enumerate(patterns):
            path: Place = ("include", i) if isinstance(node.value, list) else ("include",)
            at = Fault("", dotted(path), one.file, one.line)

            def report(message: str, path: Place, remedy: str, at: Fault = at) -> None:
                self._fault(message, at, remedy)

            interpolator = Interpolator(self._env, None, report)
            pattern = interpolator.plain(one, path)
            if interpolator.bad:
                continue
            if not isinstance(pattern, str) or not pattern:
                self._fault("expected a file's name", at)
            elif len(chain) > MAX_INCLUDE_DEPTH:
                self._fault(f"includes are nested deeper than {MAX_INCLUDE_DEPTH} files", at)
            else:
                self._included(pattern, file, at, chain)

    def _included(self, pattern: str, file: Path, at: Fault, chain: tuple[Path, ...]) -> None:
        if not glob.has_magic(pattern):
            self.add(file.parent / pattern, at, chain)
            return
        folder = _fixed(file.parent, pattern)
        try:
            os.scandir(folder).close()  # `glob` takes a folder that can't be read for an empty one
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as e:
            self._fault(f"{folder} can't be read: {e.strerror}", at)
            return
        found = [Path(p) for p in sorted(glob.glob(str(Path(glob.escape(str(file.parent))) / pattern), recursive=True))]
        own = chain[-1]
        for path in found:
            if path.resolve() != own and not _of_plugin(path, self._registry):  # `*.yaml` beside the file that says so
                self.add(path, at, chain)
        if not found:
            self.report.add([], [replace(at, message=f"no file matches `{pattern}`")])

    def _fault(self, message: str, at: Fault, remedy: str = "") -> None:
        self.report.add([replace(at, message=message, remedy=remedy)])


def gather(
    paths: Sequence[Path],
    registry: Components,
    env: Mapping[str, str],
    documents: Sequence[Node] = (),
    without: Collection[Path] = (),
) -> Sources:
    """Reads everything that the paths name, except the files in `without`, and adds `documents`. Raises `ConfigError`
    if a plugin can't tell the kind of a document; all other faults are in `Sources.report`."""
    sources = Sources(registry, env, without)
    for path in paths:
        sources.add(Path(path))
    sources.take(documents)
    if sources.files:
        sources.root.file = sources.files[0]
    sources.documents.merge(env)
    return sources


def config_files(directory: Path, registry: Components) -> list[Path]:
    """The files in a directory that are read as a config. Raises `OSError`."""
    files = (f for f in directory.iterdir() if f.suffix in SUFFIXES and f.is_file())
    return sorted(f for f in files if not _of_plugin(f, registry))


def _of_plugin(file: Path, registry: Components) -> bool:
    """Whether a file belongs to a plugin (`ConfigSection.file_suffix`) and not to the config."""
    suffixes = tuple(section.file_suffix for section, _ in registry.sections.values() if section.file_suffix)
    return file.suffix in SUFFIXES and file.stem.endswith(suffixes)


def _fixed(folder: Path, pattern: str) -> Path:
    """The folder before the first wildcard of a pattern."""
    for part in Path(pattern).parts:
        if glob.has_magic(part):
            break
        folder /= part
    return folder
