"""Line charts as SVG, without a library. Colours fit a light and a dark page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape

Points = Sequence[tuple[float, float]]
_COLOURS = (
    "#2f7ed8",
    "#d9772b",
    "#3a9d5d",
    "#b1519c",
    "#8d6b4f",
    "#6f7fb5",
    "#c0a01e",
    "#5aa9b8",
    "#cc4b4b",
    "#777777",
)
_WIDTH, _HEIGHT = 860, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 210, 30, 30
_MOST = 430
"""Points that a line has; of more than these the largest of each group is drawn."""


def chart(title: str, series: Mapping[str, Points], marks: Sequence[float] = (), *, dots: bool = False) -> str:
    """A chart of values over seconds; `marks` are moments, drawn as ticks on the axis."""
    every = [point for points in series.values() for point in points]
    end = max((t for t, _ in every), default=1.0) or 1.0
    top = _nice(max((value for _, value in every), default=1.0))
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM

    def x(t: float) -> float:
        return _LEFT + (right - _LEFT) * t / end

    def y(value: float) -> float:
        return bottom - (bottom - _TOP) * value / top

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'font-family="sans-serif" font-size="11" role="img" aria-label="{escape(title)}">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="18" font-size="13" fill="#222">{escape(title)}</text>',
    ]
    for part in range(5):
        value = top * part / 4
        lines.append(f'<path d="M{_LEFT} {y(value):.1f}H{right}" stroke="#ddd"/>')
        lines.append(
            f'<text x="{_LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end" fill="#555">{_short(value)}</text>'
        )
        t = end * part / 4
        lines.append(f'<text x="{x(t):.1f}" y="{_HEIGHT - 8}" text-anchor="middle" fill="#555">{_time(t)}</text>')
    if marks:
        ticks = "".join(f"M{x(t):.1f} {bottom}v5" for t in marks)
        lines.append(f'<path d="{ticks}" stroke="#cc4b4b" stroke-width="0.6"/>')
    for index, (name, points) in enumerate(series.items()):
        colour = _COLOURS[index % len(_COLOURS)]
        if dots:
            lines += [
                f'<circle cx="{x(t):.1f}" cy="{y(v):.1f}" r="2" fill="{colour}" fill-opacity="0.7"/>' for t, v in points
            ]
        else:
            path = " ".join(f"{x(t):.1f},{y(v):.1f}" for t, v in _thinned(points))
            lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.3"/>')
        height = _TOP + 10 + 15 * index
        lines.append(f'<rect x="{right + 12}" y="{height - 8}" width="10" height="8" fill="{colour}"/>')
        lines.append(f'<text x="{right + 27}" y="{height}" fill="#222">{escape(name)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _thinned(points: Points) -> Iterator[tuple[float, float]]:
    step = max(1, math.ceil(len(points) / _MOST))
    for begin in range(0, len(points), step):
        yield max(points[begin : begin + step], key=lambda point: point[1])


def _nice(value: float) -> float:
    if value <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next(unit * step for step in (1, 2, 4, 5, 8, 10) if unit * step >= value)


def _short(value: float) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _time(seconds: float) -> str:
    return (
        f"{seconds / 3600:.1f} h"
        if seconds > 7200
        else f"{seconds / 60:.1f} min"
        if seconds > 90
        else f"{seconds:.0f} s"
    )
