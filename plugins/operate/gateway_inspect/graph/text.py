"""The topology as text for other tools: Mermaid and Graphviz's DOT."""

from __future__ import annotations

from collections.abc import Iterator

from .topology import Node, Topology

_SHAPES = {
    "source": ('(["', '"])'),
    "broker": ('[("', '")]'),
    "trigger": ('{{"', '"}}'),
    "bridge": ('{{"', '"}}'),
    "sink": ('["', '"]'),
    "dead_letter": ('[/"', '"/]'),
}
_DOT_SHAPES = {
    "source": "cds",
    "broker": "cylinder",
    "trigger": "hexagon",
    "bridge": "hexagon",
    "sink": "box",
    "dead_letter": "note",
}
_ARROWS = {"flow": "-->", "reply": "-. reply .->", "dead_letter": "-. undeliverable .->"}
_STYLES = {
    "flow": "",
    "reply": ' [style=dashed label="reply" constraint=false]',
    "dead_letter": ' [style=dotted color="#b3261e"]',
}


def mermaid(topology: Topology) -> str:
    """A Mermaid flowchart (https://mermaid.js.org/syntax/flowchart.html)."""
    return "\n".join(_mermaid(topology)) + "\n"


def _mermaid(topology: Topology) -> Iterator[str]:
    names = {node.id: f"n{i}" for i, node in enumerate(topology.nodes)}
    yield "flowchart LR"
    for node in topology.nodes:
        before, after = _SHAPES[node.kind]
        lines = "<br/>".join(_mermaid_text(text) for text in _lines(node))
        yield f"  {names[node.id]}{before}{lines}{after}"
    for edge in topology.edges:
        yield f"  {names[edge.start]} {_ARROWS[edge.kind]} {names[edge.end]}"
    dead = [names[node.id] for node in topology.nodes if node.kind == "dead_letter" or node.missing]
    if dead:
        yield "  classDef dead stroke:#b3261e,stroke-dasharray:4 3"
        yield f"  class {','.join(dead)} dead"


def _mermaid_text(text: str) -> str:
    """Escapes characters that Mermaid or HTML would interpret; Mermaid accepts character codes."""
    plain = " ".join(text.split())
    return "".join(c if c.isalnum() or c in " .,:/=_-+'" else f"#{ord(c)};" for c in plain)


def dot(topology: Topology) -> str:
    """A graph in Graphviz's language (https://graphviz.org/doc/info/lang.html)."""
    return "\n".join(_dot(topology)) + "\n"


def _dot(topology: Topology) -> Iterator[str]:
    yield "digraph tidegate {"
    yield "  rankdir=LR"
    yield '  node [fontname="sans-serif" fontsize=11]'
    for node in topology.nodes:
        label = "\\n".join(_escaped(text) for text in _lines(node))
        style = ' style=dashed color="#b3261e"' if node.missing else ""
        yield f'  "{_escaped(node.id)}" [shape={_DOT_SHAPES[node.kind]} label="{label}"{style}]'
    for edge in topology.edges:
        yield f'  "{_escaped(edge.start)}" -> "{_escaped(edge.end)}"{_STYLES[edge.kind]}'
    yield "}"


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace('"', '\\"')


def _lines(node: Node) -> list[str]:
    return [node.title, *node.detail]
