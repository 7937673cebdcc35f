"""Running the command line in this process: exit code and output."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
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
def tidegate(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Run]:
    """`tidegate("check", path)` as on a command line, in an empty directory, without settings from outside."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    for name in [n for n in os.environ if n.startswith("TIDEGATE_")]:
        monkeypatch.delenv(name)

    def run(*args: object) -> Ran:
        with pytest.raises(SystemExit) as stopped:
            main([str(a) for a in args])
        out, err = capsys.readouterr()
        assert isinstance(stopped.value.code, int)
        return Ran(stopped.value.code, out, err)

    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield run
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
