"""Finds the files of a config, follows their includes and merges their sections."""

from __future__ import annotations

import glob
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from ..errors import Fault
from .faults import dotted
from .interpolate import Interpolator
from .interpolate import Path as Keys
from .manifests import Manifests, is_manifest
from .model import GatewayConfig
from .yaml import Node, read

MAX_INCLUDE_DEPTH = 32
SUFFIXES = (".yaml", ".yml")


class Sources:
    """The merged config: `root` holds all sections, `files` those that were read, in order."""

    def __init__(self, env: Mapping[str, str], without: Collection[Path] = ()) -> None:
        self.root = Node({}, "", 0)
        self.files: list[str] = []
        self.faults: list[Fault] = []
        self.warnings: list[Fault] = []
        self.manifests = Manifests(env)
        self._env = env
        self._seen: set[Path] = {path.resolve() for path in without}

    def add(self, path: Path, at: Fault | None = None, chain: tuple[Path, ...] = ()) -> None:
        """Reads a file, or a directory's `*.yaml` and `*.yml`. `at` is the place of the include that names it."""
        try:
            files = _yaml_files(path) if path.is_dir() else [path]
            if not files:
                remedy = "name a file, or put the config there"
                self._fault("the directory has no *.yaml or *.yml file", at or Fault("", "", str(path)), remedy)
            for file in files:
                self._file(file, at, chain)
        except (OSError, ValueError) as e:
            reason = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
            self._fault(
                f"{path} can't be read: {reason}" if at else f"can't be read: {reason}", at or Fault("", "", str(path))
            )

    def _file(self, file: Path, at: Fault | None, chain: tuple[Path, ...]) -> None:
        identity = file.resolve()
        if identity in chain:
            around = [*chain[chain.index(identity) :], identity]
            names = " → ".join(p.name for p in around)
            self._fault(
                f"files include each other: {names}", at or Fault("", "", str(file)), "remove one of the includes"
            )
            return
        if identity in self._seen:
            return
        data = file.read_bytes()
        self._seen.add(identity)
        self.files.append(str(file))
        reading = read(data, str(file))
        self.faults += reading.faults
        self.take(reading.documents)
        for document in reading.documents:
            if "include" in document.value:
                self._include(document.value["include"], file, (*chain, identity))

    def take(self, documents: Sequence[Node]) -> None:
        """Takes documents that were read; what they include is not looked at."""
        for document in documents:
            if is_manifest(document):
                self.manifests.add(document)
            else:
                self._merge(document)

    def _merge(self, document: Node) -> None:
        for key, node in document.value.items():
            kind = _form(key)
            line = document.lines[key]
            if key == "include" or (kind is not None and node.value is None):
                continue
            if kind is not None and not isinstance(node.value, kind):
                what = "a mapping of names" if kind is dict else "a list"
                self.faults.append(Fault(f"expected {what}", key, node.file, line))
            elif key not in self.root.value:
                self.root.value[key] = _copy(node, line)
                self.root.lines[key] = line
            elif kind is dict:
                self._merge_names(key, node)
            elif kind is list:
                self.root.value[key].value.extend(node.value)

    def _merge_names(self, section: str, node: Node) -> None:
        merged = self.root.value[section]
        for name, value in node.value.items():
            if name in merged.value:
                file, line = merged.value[name].file, merged.lines[name]
                first = f"{file}:{line}" if file else f"line {line}"
                self._at(f"`{name}` is defined twice; first in {first}", (section, name), node, node.lines[name])
            else:
                merged.value[name] = value
                merged.lines[name] = node.lines[name]

    def _include(self, node: Node, file: Path, chain: tuple[Path, ...]) -> None:
        patterns = node.value if isinstance(node.value, list) else [node]
        for i, one in enumerate(patterns):
            path: Keys = ("include", i) if isinstance(node.value, list) else ("include",)
            at = Fault("", dotted(path), one.file, one.line)

            def report(message: str, path: Keys, remedy: str, at: Fault = at) -> None:
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
            if path.resolve() != own and not is_scenario(path):  # `*.yaml` beside the file that says so
                self.add(path, at, chain)
        if not found:
            self.warnings.append(Fault(f"no file matches `{pattern}`", at.path, at.file, at.line))

    def _fault(self, message: str, at: Fault, remedy: str = "") -> None:
        self.faults.append(Fault(message, at.path, at.file, at.line, remedy))

    def _at(self, message: str, path: Keys, node: Node, line: int) -> None:
        self.faults.append(Fault(message, dotted(path), node.file, line, "rename or remove one of them"))


def gather(
    paths: Sequence[Path], env: Mapping[str, str], documents: Sequence[Node] = (), without: Collection[Path] = ()
) -> Sources:
    """Reads all that the paths name, but for the files `without`; `documents` come on top."""
    sources = Sources(env, without)
    for path in paths:
        sources.add(Path(path))
    sources.take(documents)
    if sources.files:
        sources.root.file = sources.files[0]
    sources.manifests.merge(sources.root)
    sources.faults += sources.manifests.notes.faults
    sources.warnings += sources.manifests.notes.warnings
    return sources


def _yaml_files(directory: Path) -> list[Path]:
    return sorted(p for p in directory.iterdir() if p.suffix in SUFFIXES and p.is_file() and not is_scenario(p))


def is_scenario(file: Path) -> bool:
    """Whether a file is called `*.scenario.yaml`: it tests a config and is no part of it."""
    return file.suffix in SUFFIXES and file.stem.endswith(".scenario")


def _fixed(folder: Path, pattern: str) -> Path:
    """The folder in which a pattern begins to choose."""
    for part in Path(pattern).parts:
        if glob.has_magic(part):
            break
        folder /= part
    return folder


def _form(section: str) -> type | None:
    """What a section is written as: dict for names, list; None for one that is unknown."""
    info = GatewayConfig.model_fields.get(section)
    return None if info is None else (dict if str(info.annotation).startswith("dict") else list)


def _copy(node: Node, line: int) -> Node:
    if not isinstance(node.value, dict | list):
        return node
    copy = Node(node.value.copy(), node.file, line)
    copy.lines = dict(node.lines)
    return copy
