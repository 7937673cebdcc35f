"""A small bar chart as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from markupsafe import Markup

from .page import markup


def bars(values: Sequence[float], label: str, *, width: int = 160, height: int = 32) -> Markup:
    """One bar for each value; `label` says to a screen reader what they show. Its size does not depend on the
    values."""
    top = max(values, default=0.0) or 1.0
    step = width / max(len(values), 1)
    wide = max(1.0, step - 1)
    drawn = "".join(
        f'<rect x="{i * step:.1f}" y="{height - tall:.1f}" width="{wide:.1f}" height="{tall:.1f}"/>'
        for i, value in enumerate(values)
        if value and (tall := max(2.0, value / top * height))
    )
    return markup(
        f'<svg class="bars" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
        f'preserveAspectRatio="none" aria-label="{escape(label)}" fill="currentColor">{drawn}</svg>'
    )
