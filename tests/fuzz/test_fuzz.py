"""Fuzzing, guided by coverage: what was found once stays fixed, planted faults are found, and long runs find nothing.

`make test` runs the inputs that are kept and the search for planted faults, of every target. `make fuzz` is the long
run: an input that fails goes to `corpus/TARGET` when the fault is fixed.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import run
from tests.fuzz.planted import PLANTS, RARE
from tests.fuzz.targets import TARGETS
from tests.servers_shared import need

HERE = Path(__file__).parent


@pytest.fixture
def fuzzer() -> None:
    """As in pyproject.toml: there are no wheels of atheris for others."""
    there = sys.platform == "linux" and platform.machine() == "x86_64" and sys.version_info < (3, 14)
    need(there, "atheris has no wheel for this platform")


def fuzz(*arguments: str, seconds: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.fuzz.fuzz", *arguments, "--seconds", str(seconds)]
    return subprocess.run(
        command,
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds * 20 + 100,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.spec("SAFE-24")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", TARGETS)
def test_all_that_was_ever_found_is_mended(name: str) -> None:
    target: Any = importlib.import_module(f"tests.fuzz.{name}_target")
    kept = [file.read_bytes() for file in sorted((HERE / "corpus" / name).glob("*"))]
    for data in [b"", *target.SEEDS, *kept]:
        begin = time.process_time()
        target.check(data)
        assert time.process_time() - begin < 5, data


@pytest.mark.slow
@pytest.mark.spec("SAFE-24")
def test_each_file_is_a_target_with_a_dictionary_and_a_planted_fault() -> None:
    assert set(TARGETS) == {file.name.removesuffix("_target.py") for file in HERE.glob("*_target.py")}
    assert set(TARGETS) == set(PLANTS)
    for name in TARGETS:
        target: Any = importlib.import_module(f"tests.fuzz.{name}_target")
        assert len(target.SEEDS) >= 8
        assert len(target.WORDS) >= 6
    assert {folder.name for folder in (HERE / "corpus").iterdir()} <= set(TARGETS)


@pytest.mark.usefixtures("fuzzer")
@pytest.mark.spec("SAFE-24")
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("processes")
@pytest.mark.full
def test_planted_faults_are_found(tmp_path: Path) -> None:
    ended = fuzz(*TARGETS, "--plant", "crash", "--corpus", str(tmp_path), "--seed", "1", seconds=40)
    said = "".join(f"{file}:\n{file.read_text(errors='replace')[-800:]}\n" for file in tmp_path.glob("*/output"))
    assert ended.returncode == 0, f"{ended.stdout}{ended.stderr[-500:]}{said}"


@pytest.mark.usefixtures("fuzzer")
@pytest.mark.full
@pytest.mark.spec("SAFE-24")
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("processes")
def test_a_planted_hang_is_found(tmp_path: Path) -> None:
    ended = fuzz("http", "--plant", "hang", "--corpus", str(tmp_path), "--seed", "1", seconds=250)
    assert ended.returncode != 0, ended.stderr[-3000:]
    [found] = tmp_path.glob("timeout-*")
    assert RARE.search(found.read_bytes())


@pytest.mark.usefixtures("fuzzer")
@pytest.mark.spec("SAFE-24")
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("processes")
def test_the_long_run_keeps_its_findings_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["coding", "--minutes", "0.1", "--out", str(tmp_path), "--plant"]) == 1
    kept = [file for file in (tmp_path / "findings" / "coding").iterdir() if file.suffix != ".txt"]
    assert kept
    assert all("Error" in file.with_suffix(".txt").read_text() for file in kept)
    [figures] = json.loads((tmp_path / "figures.json").read_text())
    assert sorted(figures["findings"]) == sorted(map(str, kept))
    assert figures["executions"] > 0
    assert "| coding |" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        run.main(["nonsense"])


@pytest.mark.usefixtures("fuzzer")
@pytest.mark.full
@pytest.mark.spec("SAFE-24")
@pytest.mark.timeout(2500)
@pytest.mark.usefixtures("processes")
def test_a_long_run_finds_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    minutes = int(os.environ.get("TIDEGATE_FUZZ_SECONDS", "20")) / 60
    assert run.main(["--minutes", str(minutes), "--out", str(tmp_path)]) == 0, capsys.readouterr()
