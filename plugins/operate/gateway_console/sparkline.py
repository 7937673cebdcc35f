"""A small chart of the recent past, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from markupsafe import Markup

from .page import markup

WIDTH, HEIGHT = 160, 32


def sparkline(values: Sequence[float], label: str, *, width: int = WIDTH, height: int = HEIGHT) -> Markup:
    """A line through these values, oldest first; `label` says to a screen reader what it shows, with the last value.
    Its size does not depend on the values."""
    top = max(values, default=0.0) or 1.0
    step = width / max(len(values) - 1, 1)
    points = " ".join(f"{i * step:.1f},{height - 1 - value / top * (height - 2):.1f}" for i, value in enumerate(values))
    line = f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/>' if values else ""
    return markup(
        f'<svg class="sparkline" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(label)}">{line}</svg>'
    )
