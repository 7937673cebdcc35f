"""The drawing of a topology: boxes that are links, lines between them, and places for numbers that change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from gateway_inspect.graph.layout import Box, Layout, Line, arranged
from gateway_inspect.graph.topology import Node, Topology

from .health import about
from .offered import cut
from .page import NAVIGATION, ROOT

_WIDTHS = {"source": 180, "broker": 170, "trigger": 256, "bridge": 256, "sink": 210, "dead_letter": 210}
_HEIGHTS = {"source": 46, "broker": 64, "trigger": 64, "bridge": 64, "sink": 46, "dead_letter": 46}
_CHAR, _TITLE_CHAR, _PADDING = 6.1, 7.4, 24
_TIP = 7


@dataclass(frozen=True, slots=True)
class DrawnBox:
    """A box of the drawing. `detail` is its line that never changes, `live` whether the one below its title does."""

    box: Box
    title: str
    full: str
    detail: str
    live: bool
    path: str


@dataclass(frozen=True, slots=True)
class Arrow:
    """A line with its tip; `of` is the thing whose state it shows."""

    kind: str
    path: str
    tip: str
    of: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """What the template draws."""

    parts: list[DrawnBox]
    arrows: list[Arrow]
    width: float
    height: float


def drawing(topology: Topology) -> Drawing:
    """A topology with places and links."""
    layout: Layout = arranged(topology, _measured, margin=6, between_columns=86, between_boxes=14)
    paths = _paths(topology)
    parts = [_part(box, paths.get(box.node.id, "")) for box in layout.boxes]
    return Drawing(parts, [_arrow(line) for line in layout.lines], layout.width, layout.height)


def _measured(node: Node) -> Box:
    return Box(node, [], _WIDTHS[node.kind], _HEIGHTS[node.kind])


def _part(box: Box, path: str) -> DrawnBox:
    node = box.node
    room = _WIDTHS[node.kind] - _PADDING
    live = node.kind in ("source", "broker", "trigger", "bridge")
    detail = ", ".join(node.detail) if node.kind != "source" and not node.missing else ""
    most = int(room / _CHAR)
    detail = _cut_inside(detail, most) if node.kind in ("sink", "dead_letter") else cut(detail, most)
    full = cut(" ".join([node.kind.replace("_", " "), node.title, *node.detail]), 300)
    return DrawnBox(box, cut(node.title, int(room / _TITLE_CHAR)), full, detail, live, path)


def _cut_inside(address: str, most: int) -> str:
    """An address without its middle, if it is too long: its start and its end tell more."""
    line = cut(address, 4096)
    return line if len(line) <= most else f"{line[: most // 2]}…{line[-(most - most // 2 - 1) :]}"


def _arrow(line: Line) -> Arrow:
    back = _TIP if line.to_left else -_TIP
    tip = f"M{line.x:g} {line.y:g}l{back} -4v8z"
    of = line.edge.start
    if of.partition(":")[0] in ("source", "broker"):
        of = line.edge.end
    return Arrow(line.edge.kind, line.path, tip, of)


def _paths(topology: Topology) -> Mapping[str, str]:
    """Where each box leads."""
    found: dict[str, str] = {}
    for node in topology.nodes:
        kind, _, name = node.id.partition(":")
        if kind in ("trigger", "bridge") or (kind == "broker" and not node.missing):
            found[node.id] = about(kind, node.title)
        elif kind in ("group", "sinks"):
            found[node.id] = about("broker", name)
        elif kind == "sink" and node.detail:
            found[node.id] = f"{ROOT}?search={quote(node.detail[0], safe='')}"
        elif node.kind == "dead_letter":
            found[node.id] = dead_letters()
    for edge in topology.edges:
        if edge.start.startswith("source:") and edge.start not in found:
            found[edge.start] = found.get(edge.end, "")
    return found


def dead_letters(trigger: str = "") -> str:
    """The page of dead letters, "" without one."""
    path = next((entry.path for entry in NAVIGATION if entry.path == "/dead-letters"), "")
    if not path:
        return ""
    return f"{ROOT}{path}?trigger={quote(trigger, safe='')}" if trigger else f"{ROOT}{path}"
