"""`make screenshots` takes a picture."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.console.screenshots import ROOT, main

pytestmark = pytest.mark.spec("CO-92")


@pytest.mark.usefixtures("processes")
@pytest.mark.full
def test_the_command_takes_one_picture(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.console.screenshots", "--quick", "--out", str(tmp_path)]
    done = subprocess.run([*command, "console-config.png"], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    (picture,) = tmp_path.iterdir()
    assert picture.name == "console-config.png"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_there_is_not_is_a_wrong_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["console-nothing.png"])
    assert stopped.value.code == 2
    assert "console-config.png" in capsys.readouterr().err
