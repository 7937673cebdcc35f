"""Progress: a bar with a rate on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

LINE_EVERY_S = 3.0


class Meter:
    """`with Meter(console, "sending", 60_000) as meter: meter.at(n)`; counts only grow."""

    def __init__(self, console: Console, title: str, total: int, unit: str = "events") -> None:
        self._console = console
        self._title, self._total, self._unit = title, total, unit
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._done = 0

    def __enter__(self) -> Self:
        self._began = self._said = time.monotonic()
        if self._console.is_terminal:
            columns = (
                TextColumn("{task.description:10}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeElapsedColumn(),
            )
            self._bar = Progress(*columns, console=self._console)
            self._task = self._bar.add_task(self._title, total=self._total, rate="")
            self._bar.start()
        return self

    def at(self, done: int) -> None:
        """`done` of the total so far."""
        self._done = done
        now = time.monotonic()
        if self._bar:
            self._bar.update(self._task, completed=done, rate=self._rate(now))
        elif now - self._said >= LINE_EVERY_S:
            self._said = now
            self._line(now)

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        if self._bar:
            self._bar.stop()
        elif kind is None:
            self._line(time.monotonic())

    def _line(self, now: float) -> None:
        self._console.print(f"  {self._title:10} {self._done:,} of {self._total:,}  {self._rate(now)}", highlight=False)

    def _rate(self, now: float) -> str:
        return f"{self._done / max(now - self._began, 0.001):,.0f} {self._unit}/s"
