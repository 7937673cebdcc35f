"""The demo as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def demo(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gateway_core.cli", "demo", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.spec("CARD-03", "CARD-04")
def test_the_demo_accounts_for_every_event(tmp_path: Path) -> None:
    done = demo("--events", "1500", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1,500 sent = " in done.stdout
    assert "Nothing is missing." in done.stdout
    assert "MISSING" not in done.stdout
    assert "Delay by carrier" in done.stdout
    out = tmp_path / "out"
    assert (out / "delays.png").read_bytes().startswith(b"\x89PNG")
    assert list((out / "table").glob("*.parquet"))
    assert (out / "undelivered.jsonl").stat().st_size > 0
    assert not (out / "data").exists(), "without --keep the gateway's data goes"


@pytest.mark.slow
def test_a_folder_of_someone_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("five years")
    done = demo("--out", "out", cwd=tmp_path)
    assert done.returncode == 1
    assert "choose another folder" in done.stdout
    assert (tmp_path / "out" / "thesis.txt").read_text() == "five years"


@pytest.mark.slow
def test_a_gateway_that_can_not_start_is_told_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("brokers: {default: {ingres: []}}\n")
    done = demo("--events", "100", "--out", "out", "--config", "bad.yaml", cwd=tmp_path)
    assert done.returncode == 1
    assert "the gateway ended early" in done.stdout
    assert "ingress" in done.stdout, "the end of the gateway's log, with the remedy"


def test_a_missing_library_is_named_with_the_extra_that_brings_it(tmp_path: Path) -> None:
    hide = "import sys; sys.modules['matplotlib'] = None; sys.argv = ['tidegate', 'demo']"
    code = f"{hide}; from gateway_core.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "The demo needs matplotlib: install tidegate[demo]." in done.stdout
