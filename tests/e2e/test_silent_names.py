"""A name server that does not answer, in namespaces of its own: it holds up nobody who need not ask it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import namespaces


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.full)])
@pytest.mark.usefixtures("processes")
@pytest.mark.spec("SAFE-68")
def test_names_that_nobody_answers_for_hold_up_no_other_and_no_stop(tmp_path: Path, workers: str) -> None:
    enter = namespaces.own("mount", "net")
    namespaces.need(enter, "a name server of its own")
    command = [*enter, sys.executable, "-m", "tests.e2e.silent_names", str(tmp_path), workers]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["code"] == 0
    *silent, known = told["triggers"]
    assert (known["name"], known["delivered"], known["attempts"], known["lag"]) == ("known", 20, 20, 0)
    assert [(trigger["delivered"], trigger["dead_lettered"], trigger["lag"]) for trigger in silent] == [(0, 0, 20)] * 4
