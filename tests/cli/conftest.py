"""Running the command line in this process: exit code and output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway_core.cli import main


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def tidegate(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """`tidegate("check", path)` as on a command line, in an empty directory, without settings from outside."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("TIDEGATE_CONFIG", "TIDEGATE_DATA_DIR", "TIDEGATE_LOG_LEVEL"):
        monkeypatch.delenv(name, raising=False)

    def run(*args: object) -> Ran:
        with pytest.raises(SystemExit) as stopped:
            main([str(a) for a in args])
        out, err = capsys.readouterr()
        assert isinstance(stopped.value.code, int)
        return Ran(stopped.value.code, out, err)

    return run
