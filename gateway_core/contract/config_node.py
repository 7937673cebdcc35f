"""A value of a config with its file and line, and the place of a value in the config."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

Place = tuple[str | int, ...]
"""Where something is in a config: section, name of an entry, keys and indexes: `("triggers", "late", "filters", 0)`."""


def dotted(place: Iterable[str | int]) -> str:
    """A place as text, for messages: `triggers.late.filters[0].exact`."""
    text = ""
    for step in place:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


class Node:
    """A value with its file and line. `value` is a scalar, a dict of nodes or a list of nodes; `lines` holds the line
    of each key of a dict; `plain` is True for text without quotes. `size` and `height` count what is inside, aliases
    expanded. `written` is the path in the file of a value that was moved to another path in the config.
    """

    __slots__ = ("file", "height", "line", "lines", "plain", "size", "value", "written")

    def __init__(self, value: Any, file: str, line: int, plain: bool = False, written: str | None = None) -> None:
        self.value = value
        self.file = file
        self.line = line
        self.plain = plain
        self.written = written
        self.lines: dict[str, int] = {}
        self.size = 1
        self.height = 0

    def __repr__(self) -> str:
        return f"<Node {type(self.value).__name__} {self.file}:{self.line}>"

    def copy(self, line: int | None = None, written: str | None = None) -> Node:
        """A copy to which keys can be added, optionally with another line and path."""
        value = self.value.copy() if isinstance(self.value, dict | list) else self.value
        made = Node(value, self.file, self.line if line is None else line, self.plain, written or self.written)
        made.lines = dict(self.lines)
        return made


def locate(root: Node, place: Place) -> tuple[str, int]:
    """File and line of the value at a place, or of its nearest existing parent."""
    file, line = root.file, root.line
    for node, at in _steps(root, place):
        file, line = node.file, at
    return file, line


def written(root: Node, place: Place) -> str:
    """The path as written in the file: values from a manifest have the keys of the manifest (`Node.written`)."""
    path = place
    for i, (node, _) in enumerate(_steps(root, place), 1):
        if node.written is not None:
            # a single value in place of a component (its URL) has no keys of its own
            path = (node.written, *(place[i:] if isinstance(node.value, dict | list) else ()))
    return dotted(path)


def _steps(root: Node, place: Place) -> Iterator[tuple[Node, int]]:
    """The nodes on the way to a place with their lines, as far as they exist."""
    node = root
    for step in place:
        inner = node.value
        if isinstance(inner, dict) and str(step) in inner:
            line, node = node.lines[str(step)], inner[str(step)]
        elif isinstance(inner, list) and isinstance(step, int) and 0 <= step < len(inner):
            node = inner[step]
            line = node.line
        else:
            return
        yield node, line
