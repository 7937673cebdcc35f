"""Reads a manifest's mappings and records faults with the manifest's own path and line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gateway_core.contract.config_node import Node, Place, dotted
from gateway_core.contract.errors import Fault
from gateway_core.contract.faults import near
from gateway_core.contract.interpolation import Interpolator
from gateway_core.contract.model_errors import show


@dataclass
class Notes:
    """Faults and warnings found in manifests, and the environment for `${NAME}`."""

    env: Mapping[str, str]
    faults: list[Fault] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)


@dataclass(frozen=True)
class Part:
    """A mapping in a manifest. `path` is its path from the top of the document."""

    node: Node
    path: str
    notes: Notes

    def at(self, key: str) -> str:
        """The path of a key."""
        return f"{self.path}.{key}" if self.path else key

    def line(self, key: str) -> int:
        """The line of a key, or of the mapping if the key is missing."""
        return self.node.lines.get(key, self.node.line)

    def has(self, key: str) -> bool:
        """Whether the key has a value. `null` counts as none, as in Kubernetes."""
        return key in self.node.value and self.node.value[key].value is not None

    def fault(self, key: str, message: str, remedy: str = "") -> None:
        """Records a fault in the value of a key."""
        self.notes.faults.append(Fault(message, self.at(key), self._file(key), self.line(key), remedy))

    def warn(self, key: str, message: str, remedy: str = "") -> None:
        """Records a warning."""
        self.notes.warnings.append(Fault(message, self.at(key), self._file(key), self.line(key), remedy))

    def _file(self, key: str) -> str:
        return self.node.value[key].file if key in self.node.value else self.node.file

    def only(self, known: Iterable[str], unsupported: Mapping[str, str] | None = None) -> None:
        """Records a fault for each key other than `known`. `unsupported` has remedies for keys that exist in Knative
        only."""
        known = list(known)
        for key in self.node.value:
            if unsupported and key in unsupported:
                self.fault(key, f"`{key}` is not supported here", unsupported[key])
            elif key not in known:
                listed = f"keys here: {', '.join(f'`{k}`' for k in known)}"
                self.fault(key, f"unknown key `{key}`", near(key, known) or listed)

    def part(self, key: str) -> Part | None:
        """The mapping at a key, or None; anything else there is a fault."""
        if not self.has(key):
            return None
        inner = self.node.value[key]
        if isinstance(inner.value, dict):
            return Part(inner.copy(self.line(key)), self.at(key), self.notes)
        self.fault(key, f"expected a mapping, found {show(inner.value)}")
        return None

    def parts(self, key: str) -> list[Part]:
        """The mappings in the list at a key; anything else there is a fault."""
        found: list[Part] = []
        for i, item in enumerate(self._items(key)):
            path = dotted((self.at(key), i))
            if isinstance(item.value, dict):
                found.append(Part(item, path, self.notes))
            else:
                message = f"expected a mapping, found {show(item.value)}"
                self.notes.faults.append(Fault(message, path, item.file, item.line))
        return found

    def texts(self, key: str) -> list[str]:
        """The texts in the list at a key; anything else there is a fault."""
        found: list[str] = []
        for i, item in enumerate(self._items(key)):
            part = Part(Node({f"{key}[{i}]": item}, item.file, item.line), self.path, self.notes)
            if item.value is None:
                part.fault(f"{key}[{i}]", "expected text, found nothing")
            elif (text := part.text(f"{key}[{i}]")) is not None:
                found.append(text)
        return found

    def _items(self, key: str) -> list[Node]:
        if not self.has(key):
            return []
        items: Node = self.node.value[key]
        if isinstance(items.value, list):
            return items.value
        self.fault(key, f"expected a list, found {show(items.value)}")
        return []

    def text(self, key: str) -> str | None:
        """The text at a key, with environment variables filled in, or None. Other values are faults."""
        if not self.has(key):
            return None

        def report(message: str, path: Place, remedy: str) -> None:
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
        """The value at a key, to be used elsewhere in the config: it keeps its line and path."""
        node: Node = self.node.value[key]
        return node.copy(self.line(key), self.at(key))

    def made(self, key: str, value: object) -> Node:
        """A value derived from the one at a key."""
        return Node(value, self._file(key), self.line(key), False, self.at(key))


def mapping(items: Mapping[str, Node], file: str, line: int) -> Node:
    """A mapping of nodes, each with its own line."""
    node = Node(dict(items), file, line)
    node.lines = {key: inner.line for key, inner in items.items()}
    return node
