"""Tables for people: as wide as the terminal allows, without cutting a value."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gateway_core.contract.cli.common import aligned

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.table import Table

GAP = 2
"""Cells between two columns."""
ROOM = 24
"""A column of long texts that would get fewer cells than this is shown below each row."""

TableRows = tuple[str, Sequence[str], list[list[str]]]
"""Title, columns, rows."""


def console(*, stderr: bool = False) -> Console:
    """A console on the stream as it is now."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, soft_wrap=False)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Rows for people: a table on a terminal, else lines with aligned columns that no width cuts."""
    cells = [["" if value is None else str(value) for value in row] for row in rows]
    if sys.stdout.isatty():
        screen = console()
        screen.print(rich_table(title, columns, cells, screen.width))
        return
    for line in aligned([[name.upper() for name in columns], *cells]):
        print(line)


def rich_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Group:
    """A table for a terminal of this width. Cells are text, not markup. Long texts are folded, or shown below their row
    if the other columns leave no room."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    widths, below = layout(columns, rows, width)
    beside = [i for i in range(len(columns)) if i not in below]
    right = [_is_number([row[i] for row in rows]) for i in beside]
    parts: list[Any] = [Text(title, "italic"), _grid(widths, right, [[columns[i] for i in beside]], "bold")]
    parts.append(Text("─" * (sum(widths) + GAP * (len(widths) - 1)), "dim"))
    if not below:
        return Group(*parts, _grid(widths, right, rows))
    for row in rows:
        parts.append(_grid(widths, right, [[row[i] for i in beside]]))
        parts += [Padding(Text(line, overflow="fold"), (0, 0, 0, 4)) for line in _below(columns, row, below, width - 4)]
    return Group(*parts)


def _below(columns: Sequence[str], row: Sequence[str], below: Sequence[int], width: int) -> list[str]:
    """The values below a row, as many in a line as fit."""
    lines: list[str] = []
    for text in (f"{columns[i]}: {row[i]}" for i in below if row[i]):
        if lines and len(lines[-1]) + GAP + len(text) <= width:
            lines[-1] += " " * GAP + text
        else:
            lines.append(text)
    return lines


def layout(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> tuple[list[int], list[int]]:
    """The width of each column, and which columns (by index) are shown below the rows instead."""
    from rich.cells import cell_len

    texts = [[row[i] for row in rows] for i in range(len(columns))]
    whole = [max(map(cell_len, [name, *cells])) for name, cells in zip(columns, texts, strict=True)]
    # only words of long texts are split; the first column, which names the row, shrinks last
    least = [
        max(
            cell_len(word)
            for text in [_title(columns[i]), *(cells if whole[i] <= ROOM else ())]
            for word in _words(text)
        )
        for i, cells in enumerate(texts)
    ]
    below: list[int] = []
    while True:
        beside = [i for i in range(len(columns)) if i not in below]
        room = width - GAP * (len(beside) - 1)
        widths = _share([whole[i] for i in beside], [least[i] for i in beside], room)
        tight = [
            i for i, got in zip(beside, widths, strict=True) if got < min(whole[i], ROOM) and i and whole[i] > ROOM
        ]
        if not tight and sum(widths) > room and len(beside) > 1:
            tight = beside[-1:]  # the last column matters least
        if not tight:
            return widths, sorted(below)
        below.append(max(tight, key=lambda i: whole[i]))


def _share(whole: list[int], least: list[int], room: int) -> list[int]:
    """Divides the width among columns: what they need, or if that is too much, the widest shrink first, down to their
    minimum."""
    widths = list(whole)
    while sum(widths) > room:
        can = [i for i in range(len(widths)) if widths[i] > least[i]]
        if not can:
            break
        widths[max(can, key=lambda i: widths[i])] -= 1
    return widths


def _is_number(texts: Sequence[str]) -> bool:
    return any(texts) and all(text.replace(",", "").replace(".", "", 1).isdigit() or not text for text in texts)


def _title(column: str) -> str:
    """A column's name with a place to break it: "delivered /s"."""
    return column.replace("/", " /")


def _words(text: str) -> list[str]:
    return text.split() or [""]


def _grid(widths: list[int], right: list[bool], rows: Sequence[Sequence[str]], style: str = "") -> Table:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, GAP, 0, 0))
    for width, number in zip(widths, right, strict=True):
        grid.add_column(
            width=width, overflow="fold", justify="right" if number else "left", vertical="bottom" if style else "top"
        )
    for row in rows:
        # a heading that does not fit may be broken before its "/s"
        texts = [_title(t) if style and len(t) > width else t for t, width in zip(row, widths, strict=True)]
        grid.add_row(*(Text(text, style) for text in texts))
    return grid
