"""Runs scenarios and reports the results."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from gateway_core.contract.configs import Registry
from gateway_core.contract.errors import TidegateError

from .check import Failure, check, unknown_names
from .files import Case
from .history import history_of
from .play import play

MOST_WAYS = 10


@dataclass(slots=True)
class Result:
    """The result of one scenario. `error` says why it could not run; `ways` is the history of its first events."""

    case: Case
    failures: list[Failure] = field(default_factory=list)
    error: str = ""
    histories: list[list[str]] = field(default_factory=list)
    events: int = 0
    played_s: float = 0.0  # on its own clock
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return not self.failures and not self.error


def run_cases(cases: Sequence[Case], registry: Registry) -> list[Result]:
    """Runs all cases, one after the other."""
    with _silent():
        return [_run(case, registry) for case in cases]


def _run(case: Case, registry: Registry) -> Result:
    result, began = Result(case), time.perf_counter()
    result.failures = unknown_names(case.scenario, case.config)
    if not result.failures:
        try:
            played = play(case.config, registry, case.scenario, case.folder)
        except (TidegateError, OSError) as e:
            result.error = str(e)
        else:
            result.failures = check(case.scenario.expect, played)
            histories = played.stage.histories
            result.histories = [history_of(history) for history in histories[:MOST_WAYS]]
            result.events, result.played_s = len(histories), played.stage.now_s
    result.seconds = time.perf_counter() - began
    return result


@contextmanager
def _silent() -> Iterator[None]:
    """Silences the log: the history of the events has the same information."""
    log = logging.getLogger("tidegate")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(level)


# -- reports --------------------------------------------------------------------------------------------------------


def as_text(results: Sequence[Result], signs: bool = False) -> str:
    """One line per scenario; below a failed one, the expectations and the history of its events."""
    good, bad = ("✓", "✗") if signs else ("passed", "FAILED")
    lines: list[str] = []
    for result in results:
        case = result.case
        lines.append(f"{good if result.passed else bad:{1 if signs else 6}} {case.file}:{case.line} {case.name}")
        if not result.passed:
            lines += [f"    {line}" for line in _why(result)]
    failed = sum(not r.passed for r in results)
    lines.append(f"{len(results) - failed} passed" + (f", {failed} failed" if failed else ""))
    return "\n".join(lines) + "\n"


def _why(result: Result) -> Iterator[str]:
    if result.error:
        yield f"can't run: {result.error}"
    for failure in result.failures:
        yield f"{failure.path}:"
        yield f"    expected {failure.expected}"
        yield f"    found    {failure.found}"
    if result.histories:
        yield "what happened:"
        for way in result.histories:
            yield from (f"    {line}" for line in way)
        if result.events > len(result.histories):
            yield f"    and {result.events - len(result.histories)} more events"


def as_json(results: Sequence[Result]) -> dict[str, Any]:
    """The report for tools."""
    return {
        "ok": all(r.passed for r in results),
        "passed": sum(r.passed for r in results),
        "failed": sum(not r.passed for r in results),
        "scenarios": [_json(r) for r in results],
    }


def _json(result: Result) -> dict[str, Any]:
    return {
        "name": result.case.name,
        "file": result.case.file,
        "line": result.case.line,
        "ok": result.passed,
        "error": result.error or None,
        "failures": [{"path": f.path, "expected": f.expected, "found": f.found} for f in result.failures],
        "events": result.events,
        "played_s": round(result.played_s, 6),
        "seconds": round(result.seconds, 6),
        "histories": ["\n".join(way) for way in result.histories],
    }


def failure_text(result: Result) -> str:
    """The text of a failure."""
    return "\n".join(_why(result))
