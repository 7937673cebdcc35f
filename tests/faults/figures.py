"""A pytest plugin: `--fault-figures=FILE` writes what the fault matrix counted, as JSON.

The file maps transport to scenario to figures (`tests.faults.ledger.Figures`). What a run did not play stays as it was
in the file. `docs/reference/transports.md` shows it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

PROPERTY = "fault-figures"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fault-figures", metavar="FILE", help="write the figures of the fault matrix to FILE")


def pytest_configure(config: pytest.Config) -> None:
    if file := config.getoption("--fault-figures"):
        config.pluginmanager.register(FaultFigures(Path(file)), "tidegate-fault-figures")


class FaultFigures:
    """Collects the figures that travel with the reports, so that it works with pytest-xdist, too."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._rows: list[dict[str, object]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._rows += [json.loads(str(value)) for name, value in report.user_properties if name == PROPERTY]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workerinput") or not self._rows:
            return
        document = json.loads(self._file.read_text()) if self._file.exists() else {}
        for row in self._rows:
            document.setdefault(row.pop("transport"), {})[row.pop("scenario")] = row
        self._file.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
