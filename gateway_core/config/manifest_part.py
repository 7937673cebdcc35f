"""Reading a manifest's mappings: what is wrong is noted with the manifest's own path and line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..errors import Fault
from .explain import show
from .faults import near
from .interpolate import Interpolator
from .interpolate import Path as Keys
from .yaml import Node


@dataclass
class Notes:
    """What is found while manifests are read, and the environment that `${NAME}` is filled from."""

    env: Mapping[str, str]
    faults: list[Fault] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)


@dataclass(frozen=True)
class Part:
    """A mapping somewhere in a manifest. `path` leads to it from the top of the document."""

    node: Node
    path: str
    notes: Notes

    def at(self, key: str) -> str:
        """The path of a key."""
        return f"{self.path}.{key}" if self.path else key

    def line(self, key: str) -> int:
        """The line of a key; that of the mapping where the key isn't there."""
        return self.node.lines.get(key, self.node.line)

    def has(self, key: str) -> bool:
        """Whether the key has a value. `null` is none, as in Kubernetes."""
        return key in self.node.value and self.node.value[key].value is not None

    def fault(self, key: str, message: str, remedy: str = "") -> None:
        """Notes what is wrong with the value of a key."""
        self.notes.faults.append(Fault(message, self.at(key), self._file(key), self.line(key), remedy))

    def warn(self, key: str, message: str, remedy: str = "") -> None:
        """Notes what is odd."""
        self.notes.warnings.append(Fault(message, self.at(key), self._file(key), self.line(key), remedy))

    def _file(self, key: str) -> str:
        return self.node.value[key].file if key in self.node.value else self.node.file

    def only(self, known: Iterable[str], unsupported: Mapping[str, str] | None = None) -> None:
        """Notes a fault for each other key. `unsupported` has remedies for keys that Knative has and we don't."""
        known = list(known)
        for key in self.node.value:
            if unsupported and key in unsupported:
                self.fault(key, f"`{key}` isn't supported here", unsupported[key])
            elif key not in known:
                listed = f"keys here: {', '.join(f'`{k}`' for k in known)}"
                self.fault(key, f"unknown key `{key}`", near(key, known) or listed)

    def part(self, key: str) -> Part | None:
        """The mapping at a key; None where there is none, with a fault where there is something else."""
        if not self.has(key):
            return None
        inner = self.node.value[key]
        if isinstance(inner.value, dict):
            return Part(copy_of(inner, self.line(key)), self.at(key), self.notes)
        self.fault(key, f"expected a mapping, found {show(inner.value)}")
        return None

    def text(self, key: str) -> str | None:
        """The text at a key, with the environment filled in; None where there is none. Other values are faults."""
        if not self.has(key):
            return None

        def report(message: str, path: Keys, remedy: str) -> None:
            self.fault(key, message, remedy)

        interpolator = Interpolator(self.notes.env, None, report)
        node = self.node.value[key]
        value = interpolator.plain(Node(node.value, node.file, node.line), ())
        if interpolator.bad:
            return None
        if not isinstance(value, str) or not value:
            quotes = isinstance(value, bool | int | float)
            self.fault(key, f"expected text, found {show(value)}", "put it in quotes" if quotes else "")
            return None
        return value

    def moved(self, key: str) -> Node:
        """The value at a key, for another place in the config: it keeps its line and remembers its path."""
        return copy_of(self.node.value[key], self.line(key), self.at(key))

    def made(self, key: str, value: object) -> Node:
        """A value that was made of the one at a key."""
        return Node(value, self._file(key), self.line(key), False, self.at(key))


def mapping(items: Mapping[str, Node], file: str, line: int) -> Node:
    """A mapping of nodes, each with its own line."""
    node = Node(dict(items), file, line)
    node.lines = {key: inner.line for key, inner in items.items()}
    return node


def copy_of(node: Node, line: int | None = None, written: str | None = None) -> Node:
    """The same value in a node of its own, so that keys can be added, perhaps with another line and path."""
    value = node.value.copy() if isinstance(node.value, dict | list) else node.value
    copy = Node(value, node.file, node.line if line is None else line, node.plain, written or node.written)
    copy.lines = dict(node.lines)
    return copy
