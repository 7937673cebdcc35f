"""The plots of a soak."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from tests.soak.charts import Points, chart
from tests.soak.conductor import Course
from tests.soak.faults import ALL
from tests.soak.figures import Figures
from tests.soak.report import CHARTS, lines
from tests.soak.samples import Sample


def write_page(figures: Figures, course: Course, starts: list[tuple[float, str, float]], folder: Path) -> Path:
    """Writes the page and its charts."""
    for name, text in charts(course, starts).items():
        (folder / f"{name}.svg").write_text(text)
    page = folder / "report.md"
    page.write_text("\n".join(lines(figures)) + "\n")
    return page


def charts(course: Course, starts: list[tuple[float, str, float]]) -> dict[str, str]:
    """All charts, by the name of the file."""
    samples, marks = course.samples, [played.begin for played in course.played]
    hard = {fault.name for fault in ALL if fault.hard}
    recovery: dict[str, list[tuple[float, float]]] = {}
    for p in course.played:
        if p.name in hard:
            recovery.setdefault(p.name.partition(":")[0], []).append((p.begin, p.recovery_s))
    started: dict[str, list[tuple[float, float]]] = {}
    for at, part, seconds in starts:
        started.setdefault(part, []).append((at, seconds))
    drawn = {
        "throughput": {"accepted": _rate(samples, "accepted"), "delivered": _rate(samples, "delivered")},
        "open": {"all routes": _of(samples, "on their way")},
        "memory": _ending(samples, ": MB", without=("log", "steady log")),
        "descriptors": _ending(samples, ": descriptors"),
        "threads": _ending(samples, ": threads"),
        "size": {"log": _of(samples, "log: MB"), "log of steady": _of(samples, "steady log: MB")},
        "lag": {
            name.removeprefix("lag "): _of(samples, name)
            for name in _names(samples)
            if name.startswith("lag ") and "sometimes" not in name
        },
    }
    texts = {name: chart(CHARTS[name], series, marks) for name, series in drawn.items()}
    texts["recovery"] = chart(CHARTS["recovery"], recovery, dots=True)
    texts["starts"] = chart(CHARTS["starts"], started, dots=True)
    return texts


def _names(samples: list[Sample]) -> list[str]:
    return sorted({name for one in samples for name in one})


def _of(samples: list[Sample], name: str) -> Points:
    return [(one["t"], one[name]) for one in samples if name in one]


def _ending(samples: list[Sample], end: str, without: tuple[str, ...] = ()) -> dict[str, Points]:
    names = [name.removesuffix(end) for name in _names(samples) if name.endswith(end)]
    return {name: _of(samples, name + end) for name in names if name not in without}


def _rate(samples: list[Sample], name: str) -> Points:
    return [(b["t"], max(0.0, (b[name] - a[name]) / max(0.1, b["t"] - a["t"]))) for a, b in pairwise(samples)]
