"""The topology as SVG: boxes in columns, in the order in which events reach them."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from xml.sax.saxutils import escape

from .layout import Box, arranged
from .topology import EdgeKind, Node, Topology

_COLOURS = {
    "source": ("#e3f2fd", "#1565c0"),
    "broker": ("#ede7f6", "#4527a0"),
    "trigger": ("#fff8e1", "#b26a00"),
    "bridge": ("#e0f2f1", "#00695c"),
    "sink": ("#e8f5e9", "#2e7d32"),
    "dead_letter": ("#fdecea", "#b3261e"),
}
_LINES: dict[EdgeKind, tuple[str, str]] = {
    "flow": ("#37474f", ""),
    "reply": ("#4527a0", "6 4"),
    "dead_letter": ("#b3261e", "2 3"),
}
_WORDS: dict[EdgeKind, str] = {"flow": "events", "reply": "replies", "dead_letter": "undeliverable events"}

MARGIN, LINE, PADDING, CHAR, MOST_CHARS = 24, 16, 10, 6.6, 38


def svg(topology: Topology) -> str:
    """An SVG document."""
    layout = arranged(topology, _measured, margin=MARGIN)
    width, height = layout.width, layout.height + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" font-family="system-ui, sans-serif" font-size="12">',
        "<title>Topology of the gateway</title>",
        *_markers(),
        f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>',
    ]
    parts += [_path(line.path, line.edge.kind) for line in layout.lines]
    parts += [text for box in layout.boxes for text in _box(box)]
    parts += _legend(height - 14)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _measured(node: Node) -> Box:
    lines = [part for text in node.detail for part in _wrapped(text)][:6]
    longest = max(map(len, [node.title, *lines]))
    return Box(node, lines, longest * CHAR + 2 * PADDING, LINE * (1 + len(lines)) + PADDING)


def _wrapped(text: str) -> list[str]:
    lines = wrap(_shown(text), MOST_CHARS) or [""]
    return [*lines[:2], "…"] if len(lines) > 3 else lines


def _markers() -> Iterator[str]:
    yield "<defs>"
    for kind, (colour, _) in _LINES.items():
        yield (
            f'<marker id="{kind}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            f'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="{colour}"/></marker>'
        )
    yield "</defs>"


def _path(d: str, kind: EdgeKind) -> str:
    colour, dashes = _LINES[kind]
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<path d="{d}" fill="none" stroke="{colour}" stroke-width="1.4"{dashed} marker-end="url(#{kind})"/>'


def _box(box: Box) -> Iterator[str]:
    fill, stroke = _COLOURS[box.node.kind]
    dashed = ' stroke-dasharray="5 3"' if box.node.missing or box.node.kind == "dead_letter" else ""
    round_ = 14 if box.node.kind == "source" else 5
    title = " ".join([box.node.kind.replace("_", " "), box.node.title, *box.node.detail])
    yield f"<g><title>{escape(_shown(title))}</title>"
    yield (
        f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" rx="{round_}" fill="{fill}" '
        f'stroke="{stroke}"{dashed}/>'
    )
    y = box.y + LINE
    x, title = box.x + PADDING, escape(_shown(box.node.title))
    yield f'<text x="{x:g}" y="{y:g}" font-weight="600" fill="{stroke}">{title}</text>'
    for line in box.lines:
        y += LINE
        yield f'<text x="{x:g}" y="{y:g}" font-size="11" fill="#37474f">{escape(line)}</text>'
    yield "</g>"


def _legend(y: float) -> Iterator[str]:
    x = float(MARGIN)
    for kind, word in _WORDS.items():
        yield _path(f"M{x:g} {y:g}H{x + 28:g}", kind)
        yield f'<text x="{x + 34:g}" y="{y + 4:g}" font-size="11" fill="#37474f">{word}</text>'
        x += 34 + len(word) * CHAR + 20


def _shown(text: str) -> str:
    """The text without the characters that XML does not allow (XML 1.0 section 2.2)."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in " ".join(text.split()))
