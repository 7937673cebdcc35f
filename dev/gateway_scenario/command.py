"""`tidegate test`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from gateway_core.contract.cli import common
from gateway_core.contract.cli.common import CommandError
from gateway_core.contract.cli.exit_codes import FAULT, OK
from gateway_core.contract.configs import installed


def play(paths: Sequence[Path] | None, names: Sequence[str], report: Path | None, *, as_json: bool) -> int:
    """Runs the scenarios, or those with these names; returns the exit code."""
    from .files import find_cases
    from .junit import junit
    from .result import as_json as json_of
    from .result import as_text, run_cases

    registry = installed()
    places = common.config_paths(paths)
    cases = find_cases(places, registry, os.environ)
    if not cases:
        where = ", ".join(map(str, places))
        raise CommandError(f"no scenarios for {where}: write a section `tests:`, or a file *.scenario.yaml next to it")
    if names:
        known = [case.name for case in cases]
        cases = [case for case in cases if any(case.name == n or fnmatchcase(case.name, n) for n in names)]
        if not cases:
            raise CommandError(
                f"no scenario has the name {' or '.join(map(repr, names))}; there are: {'; '.join(known)}"
            )
    results = run_cases(cases, registry)
    if report is not None:
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_bytes(junit(results))
    if as_json:
        common.print_json(json_of(results))
    else:
        print(as_text(results, signs=sys.stdout.isatty()), end="")
    return OK if all(result.passed for result in results) else FAULT
