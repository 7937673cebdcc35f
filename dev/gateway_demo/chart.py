"""A chart of the delays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def draw(by_carrier: Sequence[tuple[str, float]], by_hour: Sequence[tuple[int, float]], file: Path) -> None:
    """Draws two bar charts side by side: minutes of delay by carrier and by hour of day."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    left.bar([c for c, _ in by_carrier], [d for _, d in by_carrier], color="#3b6ea5")
    left.set(title="Mean departure delay by carrier", ylabel="minutes")
    right.bar([h for h, _ in by_hour], [d for _, d in by_hour], color="#c8743c")
    right.set(title="Mean departure delay by scheduled hour", xlabel="hour of day", ylabel="minutes")
    right.set_xticks([h for h, _ in by_hour])
    figure.savefig(file, dpi=110)
    plt.close(figure)
