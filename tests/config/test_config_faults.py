"""Every folder in `faults` is a config with something wrong, and the report that it must give.

`UPDATE_EXPECTED=1 pytest tests/config/test_config_faults.py` rewrites the reports: read the difference afterwards.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from config_plugins import registry

from gateway_core.contract.configs import load_all
from gateway_core.contract.errors import ConfigError, Fault
from gateway_core.contract.faults import render, to_json

FAULTS = Path(__file__).parent / "faults"
CASES = sorted(d.name for d in FAULTS.iterdir() if d.is_dir())
ENV = {"WORD": "abc", "TOKEN": "s3cr3t-t0ken"}


def _report(case: str) -> tuple[list[Fault], list[Fault]]:
    main = Path("main.yaml")
    try:
        return [], load_all([main if main.exists() else Path(".")], registry(), ENV).warnings
    except ConfigError as e:
        return e.faults, []


@pytest.mark.parametrize("case", CASES)
def test_the_report_is_as_expected(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FAULTS / case)
    faults, warnings = _report(case)
    report = render(faults, warnings=warnings)
    expected = Path("expected.txt")
    if os.environ.get("UPDATE_EXPECTED"):
        expected.write_text(report)
    assert report == expected.read_text()
    assert ENV["TOKEN"] not in report + json.dumps(to_json(faults, warnings))
    assert faults or warnings


def test_every_kind_of_fault_has_a_case() -> None:
    assert len(CASES) >= 25
    assert all((FAULTS / case / "expected.txt").exists() for case in CASES)


def test_the_json_report_names_file_line_and_path() -> None:
    fault = Fault("unknown key `x`", "triggers.a.x", "a.yaml", 3, "did you mean `y`?")
    assert to_json([fault]) == {
        "ok": False,
        "faults": [
            {
                "file": "a.yaml",
                "line": 3,
                "path": "triggers.a.x",
                "message": "unknown key `x`",
                "remedy": "did you mean `y`?",
            }
        ],
        "warnings": [],
    }


def test_colors_change_nothing_but_the_look() -> None:
    import re

    fault = Fault("wrong", "a.b", "a.yaml", 3, "fix it")
    plain, coloured = render([fault], warnings=[fault]), render([fault], color=True, warnings=[fault])
    assert coloured != plain
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain


def test_the_report_is_sorted_and_says_a_thing_once() -> None:
    a, b = Fault("one", "", "a.yaml", 10), Fault("two", "", "a.yaml", 9)
    assert render([a, b, a]) == "a.yaml:9: two\na.yaml:10: one\n2 faults\n"


@pytest.mark.spec("SAFE-03")
def test_no_manifest_that_restricts_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FAULTS / "manifest_restrictions")
    faults, _ = _report("manifest_restrictions")
    assert len(faults) == 8
    assert all(fault.file and fault.line and fault.remedy for fault in faults)
