"""A name server that does not answer, in namespaces of its own: it holds up nobody who need not ask it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from gateway_dev.program import Missing

ENTER = ["unshare", "--user", "--map-root-user", "--mount", "--net"]


@pytest.fixture
def enter() -> list[str]:
    """What goes before a command. Raises `Missing` where there are no namespaces."""
    if not shutil.which("unshare"):
        raise Missing("a name server of its own needs namespaces, and there is no unshare on PATH")
    tried = subprocess.run([*ENTER, "true"], capture_output=True, text=True)
    if tried.returncode:
        raise Missing(f"a name server of its own needs user namespaces: {tried.stderr.strip()}")
    return ENTER


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.usefixtures("processes")
@pytest.mark.spec("SAFE-68")
def test_names_that_nobody_answers_for_hold_up_no_other_and_no_stop(
    enter: list[str], tmp_path: Path, workers: str
) -> None:
    command = [*enter, sys.executable, "-m", "tests.e2e.silent_names", str(tmp_path), workers]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["code"] == 0
    *silent, known = told["triggers"]
    assert (known["name"], known["delivered"], known["attempts"], known["lag"]) == ("known", 20, 20, 0)
    assert [(trigger["delivered"], trigger["dead_lettered"], trigger["lag"]) for trigger in silent] == [(0, 0, 20)] * 4
