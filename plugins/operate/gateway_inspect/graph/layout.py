"""Where the parts of a drawing are: boxes in columns, in the order in which events reach them, and lines between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from .topology import Edge, Node, Topology

_COLUMN = {"source": 0, "broker": 1, "trigger": 2, "bridge": 2, "sink": 3, "dead_letter": 3}
_VIA_HEIGHT = 16
GAP = 14


@dataclass(slots=True)
class Box:
    """Where a node is drawn; `y` is its upper edge. A box without title only keeps room free for a line."""

    node: Node
    lines: list[str]
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0

    @property
    def middle(self) -> float:
        return self.y + self.height / 2

    @property
    def right(self) -> float:
        return self.x + self.width


@dataclass(frozen=True, slots=True)
class Line:
    """An edge as the data of an SVG path, and where its arrow points."""

    edge: Edge
    path: str
    x: float
    y: float
    to_left: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """Everything with its place, and the size of it all."""

    boxes: list[Box]
    lines: list[Line]
    width: float
    height: float


def arranged(
    topology: Topology,
    measure: Callable[[Node], Box],
    *,
    margin: float = 24,
    between_columns: float = 90,
    between_boxes: float = 18,
) -> Layout:
    """A layout without overlaps. `measure` makes a node's box, with its size but without its place."""
    links = _links(topology)
    columns = _columns(topology, measure, links)
    boxes = {box.node.id: box for column in columns for box in column}
    width, height = _place(columns, margin, between_columns, between_boxes)
    _align(columns, links, margin, height - margin, between_boxes)
    back = [e for e in topology.edges if _goes_back(e, boxes)]
    lines = [_line(e, boxes) for e in topology.edges if e not in back]
    lines += [_detour(e, boxes, height + GAP * (i + 1)) for i, e in enumerate(back)]
    shown = [box for box in boxes.values() if box.node.title]
    return Layout(shown, lines, width, height + GAP * len(back) + (GAP if back else 0))


def _links(topology: Topology) -> list[tuple[str, str]]:
    """All edges by their ends. That of a bridge's source goes through the column of the brokers."""
    links = [(e.start, e.end) for e in topology.edges]
    for start, end in list(links):
        if start.startswith("source:") and end.startswith("bridge:"):
            links += [(start, _via(end)), (_via(end), end)]
    return links


def _columns(topology: Topology, measure: Callable[[Node], Box], links: list[tuple[str, str]]) -> list[list[Box]]:
    columns: list[list[Box]] = [[], [], [], []]
    for node in topology.nodes:
        columns[_COLUMN[node.kind]].append(measure(node))
        if node.kind == "bridge":  # room for its source's arrow among the brokers
            columns[1].append(Box(Node(_via(node.id), "broker", ""), [], 0, _VIA_HEIGHT))
    into, out = _neighbours(links), _neighbours([(end, start) for start, end in links])
    for _ in range(4):
        for before, column in pairwise(columns):
            _sort(column, before, into)
        for after, column in zip(columns[:0:-1], columns[-2::-1], strict=False):
            _sort(column, after, out)
    return [column for column in columns if column]


def _via(bridge: str) -> str:
    return f"via {bridge}"


def _neighbours(links: list[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for start, end in links:
        found.setdefault(end, []).append(start)
    return found


def _sort(column: list[Box], other: list[Box], neighbours: dict[str, list[str]]) -> None:
    """Orders a column so that each box is near the boxes of the other column that it is connected to."""
    rank = {box.node.id: i for i, box in enumerate(other)}

    def weight(item: tuple[int, Box]) -> float:
        place, box = item
        near = [rank[id] for id in neighbours.get(box.node.id, ()) if id in rank]
        return sum(near) / len(near) if near else float(place)

    column[:] = [box for _, box in sorted(enumerate(column), key=weight)]


def _place(
    columns: list[list[Box]], margin: float, between_columns: float, between_boxes: float
) -> tuple[float, float]:
    """Places all boxes; returns the size of the drawing."""
    heights = [sum(b.height for b in column) + between_boxes * (len(column) - 1) for column in columns]
    tallest = max(heights, default=0.0)
    x = margin + GAP
    for column, height in zip(columns, heights, strict=True):
        y = margin + (tallest - height) / 2
        widest = max(box.width for box in column)
        for box in column:
            box.x, box.y, box.width = x, y, widest
            y += box.height + between_boxes
        x += widest + between_columns
    return max(x - between_columns + margin + GAP, 360.0), tallest + 2 * margin


def _align(columns: list[list[Box]], links: list[tuple[str, str]], top: float, bottom: float, between: float) -> None:
    """Moves boxes up or down, next to those that they are connected to, without changing a column's order."""
    ends = [*links, *((end, start) for start, end in links)]
    near = _neighbours(ends)
    tallest = max(range(len(columns)), key=lambda i: sum(b.height + between for b in columns[i]), default=0)
    placed = {box.node.id: box for box in columns[tallest]} if columns else {}
    for i in sorted(range(len(columns)), key=lambda i: abs(i - tallest)):
        if i == tallest:
            continue
        least = top
        for box in columns[i]:
            middles = [placed[id].middle for id in near.get(box.node.id, ()) if id in placed]
            wanted = sum(middles) / len(middles) - box.height / 2 if middles else box.y
            box.y = max(least, wanted)
            least = box.y + box.height + between
        most = bottom
        for box in reversed(columns[i]):
            box.y = min(box.y, most - box.height)
            most = box.y - between
        placed |= {box.node.id: box for box in columns[i]}


def _goes_back(edge: Edge, boxes: dict[str, Box]) -> bool:
    return edge.kind != "reply" and boxes[edge.end].x < boxes[edge.start].x


def _line(edge: Edge, boxes: dict[str, Box]) -> Line:
    start, end = boxes[edge.start], boxes[edge.end]
    if edge.kind == "reply":  # from the trigger's left side back to the broker's right, below the forward edge
        x1, y1, x2, y2 = start.x, start.y + start.height * 0.8, end.right, end.y + end.height * 0.8
    else:
        x1, y1, x2, y2 = start.right, start.middle, end.x, end.middle
        if edge.kind == "dead_letter":
            y1 = start.y + start.height * 0.8
    via = boxes.get(_via(edge.end)) if start.node.kind == "source" else None
    if via is None:
        path = f"M{x1:g} {y1:g}{_curve(x1, y1, x2, y2)}"
    else:
        there, on = _curve(x1, y1, via.x, via.middle), _curve(via.right, via.middle, x2, y2)
        path = f"M{x1:g} {y1:g}{there}H{via.right:g}{on}"
    return Line(edge, path, x2, y2, to_left=edge.kind == "reply")


def _curve(x1: float, y1: float, x2: float, y2: float) -> str:
    bend = (x2 - x1) / 2
    return f"C{x1 + bend:g} {y1:g} {x2 - bend:g} {y2:g} {x2:g} {y2:g}"


def _detour(edge: Edge, boxes: dict[str, Box], y: float) -> Line:
    """An edge that runs below everything, and up again to the left of its end."""
    start, end = boxes[edge.start], boxes[edge.end]
    right, left = start.right, end.x
    path = f"M{right:g} {start.middle:g}H{right + GAP:g}V{y:g}H{left - GAP:g}V{end.middle:g}H{left:g}"
    return Line(edge, path, left, end.middle)
