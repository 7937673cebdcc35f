"""Locates a value of the config: its file, its line, and the path of keys that its author wrote."""

from __future__ import annotations

from collections.abc import Iterator

from ..contract.config_node import Node, Place, dotted


def locate(root: Node, path: Place) -> tuple[str, int]:
    """File and line of the value at a path, or of its nearest existing parent."""
    file, line = root.file, root.line
    for node, at in _steps(root, path):
        file, line = node.file, at
    return file, line


def written(root: Node, path: Place) -> str:
    """The path as written in the file: values from a manifest have the keys of the manifest (`Node.written`)."""
    start: str | None = None
    rest = path
    for i, (node, _) in enumerate(_steps(root, path), 1):
        if node.written is not None:
            start = node.written
            # what stands for a single value (a URL for a component) has no keys of its own
            rest = path[i:] if isinstance(node.value, dict | list) else ()
    return dotted(rest) if start is None else dotted((start, *rest))


def _steps(root: Node, path: Place) -> Iterator[tuple[Node, int]]:
    """The nodes along a path with their lines, as far as they exist."""
    node = root
    for step in path:
        inner = node.value
        if isinstance(inner, dict) and str(step) in inner:
            line, node = node.lines[str(step)], inner[str(step)]
        elif isinstance(inner, list) and isinstance(step, int) and 0 <= step < len(inner):
            node = inner[step]
            line = node.line
        else:
            return
        yield node, line
