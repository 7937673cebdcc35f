"""Shows results: a table on a terminal, plain lines elsewhere, JSON."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from .run import Result

LEVELS = {"M": "must", "S": "should", "m": "may"}
_STYLES = {"passed": "green", "failed": "bold red", "skipped": "yellow"}


def as_json(url: str, results: Sequence[Result]) -> dict[str, Any]:
    """The JSON document."""
    return {
        "url": url,
        **_counts(results),
        "conforms": conforms(results),
        "checks": [
            {
                "id": r.check.id,
                "level": LEVELS[r.check.level],
                "title": r.check.title,
                "outcome": r.state,
                "detail": r.detail,
                "cases": list(r.seen) if r.state == "failed" else [],
                "seconds": round(r.seconds, 3),
            }
            for r in results
        ],
    }


def conforms(results: Sequence[Result]) -> bool:
    """Whether no MUST failed."""
    return not any(r.state == "failed" and r.check.level == "M" for r in results)


def line(result: Result) -> str:
    """One result as plain text; several failed cases are listed below it, one per line."""
    check = result.check
    text = f"{result.state:8}{check.id:7}{LEVELS[check.level]:8}{check.title}"
    if len(result.seen) < 2:
        return f"{text}: {result.detail}" if result.seen else text
    return "\n".join([f"{text}: {len(result.seen)} bad cases", *(f"    {case}" for case in result.seen)])


def summary(results: Sequence[Result]) -> str:
    """The summary line."""
    counts = _counts(results)
    missed = sum(r.state == "failed" and r.check.level == "M" for r in results)
    text = ", ".join(f"{n} {state}" for state, n in counts.items())
    return f"{text}: {'conforms' if not missed else f'does not conform, {missed} of the failed requirements are MUSTs'}"


def table(results: Sequence[Result]) -> Table:
    """All results, for a terminal."""
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("id", "level", "requirement", "outcome", "seen"):
        shown.add_column(name, overflow="fold", no_wrap=name in ("id", "level", "outcome"))
    for r in results:
        outcome = Text(r.state, _STYLES[r.state])
        shown.add_row(r.check.id, LEVELS[r.check.level], Text(r.check.title), outcome, Text("\n".join(r.seen)))
    return shown


def progress() -> Progress:
    """A progress bar on standard error, if that is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("checks"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty())


def _counts(results: Sequence[Result]) -> dict[str, int]:
    counts: Counter[str] = Counter(r.state for r in results)
    return {state: counts[state] for state in _STYLES}
