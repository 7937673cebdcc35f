"""Fuzzing, guided by coverage: what was found once stays mended, planted faults are found, and long runs find nothing.

`make test` runs the inputs that are kept and the search for planted faults. The long runs are marked `full`:
`TIDEGATE_FUZZ_SECONDS=600 .venv/bin/python -m pytest tests/fuzz -m full`. An input that fails is in the output, in
Base64; put it into `corpus/TARGET` when the fault is mended.
"""

from __future__ import annotations

import importlib
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.planted import RARE

HERE = Path(__file__).parent
TARGETS = sorted(file.name.removesuffix("_target.py") for file in HERE.glob("*_target.py"))
SECONDS = int(os.environ.get("TIDEGATE_FUZZ_SECONDS", "60"))

# as in pyproject.toml: there are no wheels of atheris for others
has_fuzzer = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64" or sys.version_info >= (3, 14),
    reason="atheris has no wheel for this platform",
)


def fuzz(*arguments: str, seconds: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.fuzz.fuzz", *arguments, "--seconds", str(seconds)]
    return subprocess.run(
        command,
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds + 100,
        check=False,
    )


@pytest.mark.spec("SAFE-24")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", TARGETS)
def test_all_that_was_ever_found_is_mended(name: str) -> None:
    target: Any = importlib.import_module(f"tests.fuzz.{name}_target")
    kept = [file.read_bytes() for file in sorted((HERE / "corpus" / name).glob("*"))]
    for data in [b"", *target.SEEDS, *kept]:
        begin = time.monotonic()
        target.check(data)
        assert time.monotonic() - begin < 5, data


@has_fuzzer
@pytest.mark.spec("SAFE-24")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", [pytest.param("hang", marks=pytest.mark.full), "crash"])
@pytest.mark.usefixtures("processes")
def test_a_planted_fault_is_found(kind: str, tmp_path: Path) -> None:
    ended = fuzz("http", "--plant", kind, "--corpus", str(tmp_path), "--seed", "1", seconds=250)
    assert ended.returncode != 0, ended.stderr[-3000:]
    [found] = tmp_path.glob("timeout-*" if kind == "hang" else "crash-*")
    assert RARE.search(found.read_bytes())


@has_fuzzer
@pytest.mark.full
@pytest.mark.spec("SAFE-24")
@pytest.mark.timeout(SECONDS + 120)
@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.usefixtures("processes")
def test_a_long_run_finds_nothing(name: str, tmp_path: Path) -> None:
    ended = fuzz(name, "--corpus", str(tmp_path), seconds=SECONDS)
    assert ended.returncode == 0, ended.stderr[-5000:]
