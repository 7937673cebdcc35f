"""The topology as SVG: boxes in columns, in the order in which events reach them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from textwrap import wrap
from xml.sax.saxutils import escape

from .topology import Edge, Node, Topology

_COLUMN = {"source": 0, "broker": 1, "trigger": 2, "bridge": 2, "sink": 3, "dead_letter": 3}
_COLOURS = {
    "source": ("#e3f2fd", "#1565c0"),
    "broker": ("#ede7f6", "#4527a0"),
    "trigger": ("#fff8e1", "#b26a00"),
    "bridge": ("#e0f2f1", "#00695c"),
    "sink": ("#e8f5e9", "#2e7d32"),
    "dead_letter": ("#fdecea", "#b3261e"),
}
_LINES = {"flow": ("#37474f", ""), "reply": ("#4527a0", "6 4"), "dead_letter": ("#b3261e", "2 3")}
_WORDS = {"flow": "events", "reply": "replies", "dead_letter": "undeliverable events"}

MARGIN, BETWEEN_COLUMNS, BETWEEN_BOXES, LANE = 24, 90, 18, 14
LINE, PADDING, CHAR, MOST_CHARS = 16, 10, 6.6, 38


@dataclass(slots=True)
class Box:
    """Where a node is drawn; `y` is its upper edge."""

    node: Node
    lines: list[str]
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


def svg(topology: Topology) -> str:
    """An SVG document."""
    columns = _columns(topology)
    boxes = {box.node.id: box for column in columns for box in column}
    width, height = _place(columns)
    back = [e for e in topology.edges if _goes_back(e, boxes)]
    floor = height
    height += LANE * len(back) + (LANE if back else 0) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" font-family="system-ui, sans-serif" font-size="12">',
        "<title>Topology of the gateway</title>",
        *_markers(),
        f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>',
    ]
    parts += [_edge(e, boxes) for e in topology.edges if e not in back]
    parts += [_detour(e, boxes, columns, floor + LANE * (i + 1)) for i, e in enumerate(back)]
    parts += [text for box in boxes.values() if box.node.title for text in _box(box)]
    parts += _legend(height - 14)
    return "\n".join([*parts, "</svg>"]) + "\n"


# -- layout -------------------------------------------------------------------------------------------------


def _columns(topology: Topology) -> list[list[Box]]:
    columns: list[list[Box]] = [[], [], [], []]
    for node in topology.nodes:
        lines = [part for text in node.detail for part in _wrapped(text)][:6]
        longest = max(map(len, [node.title, *lines]))
        box = Box(node, lines, longest * CHAR + 2 * PADDING, LINE * (1 + len(lines)) + PADDING)
        columns[_COLUMN[node.kind]].append(box)
        if node.kind == "bridge":  # room for its source's arrow among the brokers
            columns[1].append(Box(Node(_via(node.id), "broker", ""), [], 0, LINE))
    links = [(e.start, e.end) for e in topology.edges]
    for start, end in list(links):
        if start.startswith("source:") and end.startswith("bridge:"):
            links += [(start, _via(end)), (_via(end), end)]
    for _ in range(4):
        for before, column in pairwise(columns):
            _sort(column, before, links)
        for after, column in zip(columns[:0:-1], columns[-2::-1], strict=False):
            _sort(column, after, [(end, start) for start, end in links])
    return [column for column in columns if column]


def _via(bridge: str) -> str:
    return f"via {bridge}"


def _wrapped(text: str) -> list[str]:
    lines = wrap(_shown(text), MOST_CHARS) or [""]
    return [*lines[:2], "…"] if len(lines) > 3 else lines


def _sort(column: list[Box], other: list[Box], edges: list[tuple[str, str]]) -> None:
    """Orders a column so that each box is near the boxes of the other column that it is connected to."""
    rank = {box.node.id: i for i, box in enumerate(other)}

    def weight(item: tuple[int, Box]) -> float:
        place, box = item
        near = [rank[start] for start, end in edges if end == box.node.id and start in rank]
        return sum(near) / len(near) if near else float(place)

    column[:] = [box for _, box in sorted(enumerate(column), key=weight)]


def _place(columns: list[list[Box]]) -> tuple[float, float]:
    """Places all boxes; returns the size of the drawing."""
    heights = [sum(b.height for b in column) + BETWEEN_BOXES * (len(column) - 1) for column in columns]
    tallest = max(heights, default=0.0)
    x = float(MARGIN + LANE)
    for column, height in zip(columns, heights, strict=True):
        y = MARGIN + (tallest - height) / 2
        widest = max(box.width for box in column)
        for box in column:
            box.x, box.y, box.width = x, y, widest
            y += box.height + BETWEEN_BOXES
        x += widest + BETWEEN_COLUMNS
    return max(x - BETWEEN_COLUMNS + MARGIN + LANE, 360.0), tallest + 2 * MARGIN


def _goes_back(edge: Edge, boxes: dict[str, Box]) -> bool:
    return edge.kind != "reply" and boxes[edge.end].x < boxes[edge.start].x


# -- marks ------------------------------------------------------------------------------------------------------------


def _markers() -> Iterator[str]:
    yield "<defs>"
    for kind, (colour, _) in _LINES.items():
        yield (
            f'<marker id="{kind}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            f'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="{colour}"/></marker>'
        )
    yield "</defs>"


def _path(d: str, edge: Edge) -> str:
    colour, dashes = _LINES[edge.kind]
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<path d="{d}" fill="none" stroke="{colour}" stroke-width="1.4"{dashed} marker-end="url(#{edge.kind})"/>'


def _edge(edge: Edge, boxes: dict[str, Box]) -> str:
    start, end = boxes[edge.start], boxes[edge.end]
    if edge.kind == "reply":  # from the trigger's left side back to the broker's right, below the forward edge
        x1, y1, x2, y2 = start.x, start.y + start.height * 0.8, end.x + end.width, end.y + end.height * 0.8
    else:
        x1, y1, x2, y2 = start.x + start.width, start.middle, end.x, end.middle
        if edge.kind == "dead_letter":
            y1 = start.y + start.height * 0.8
    via = boxes.get(_via(edge.end)) if start.node.kind == "source" else None
    if via is None:
        return _path(f"M{x1:g} {y1:g}{_curve(x1, y1, x2, y2)}", edge)
    there, on = _curve(x1, y1, via.x, via.middle), _curve(via.x + via.width, via.middle, x2, y2)
    return _path(f"M{x1:g} {y1:g}{there}H{via.x + via.width:g}{on}", edge)


def _curve(x1: float, y1: float, x2: float, y2: float) -> str:
    bend = (x2 - x1) / 2
    return f"C{x1 + bend:g} {y1:g} {x2 - bend:g} {y2:g} {x2:g} {y2:g}"


def _detour(edge: Edge, boxes: dict[str, Box], columns: list[list[Box]], y: float) -> str:
    """An edge that runs below everything, and up again to the left of its end."""
    start, end = boxes[edge.start], boxes[edge.end]
    right, left = start.x + start.width, end.x
    return _path(
        f"M{right:g} {start.middle:g}H{right + LANE:g}V{y:g}H{left - LANE - 8:g}V{end.middle:g}H{left:g}", edge
    )


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
        yield _path(f"M{x:g} {y:g}H{x + 28:g}", Edge("", "", kind))  # type: ignore[arg-type]
        yield f'<text x="{x + 34:g}" y="{y + 4:g}" font-size="11" fill="#37474f">{word}</text>'
        x += 34 + len(word) * CHAR + 20


def _shown(text: str) -> str:
    """The text without the characters that XML does not allow (XML 1.0 section 2.2)."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in " ".join(text.split()))
