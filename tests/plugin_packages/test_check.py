"""`tidegate plugin check` from the outside: new packages pass it, and their tests with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gateway_plugins.new import Kind, write

from gateway_core.cli import main

pytestmark = pytest.mark.usefixtures("processes")
ROOT = Path(__file__).parents[2]
STEPS = ["project", "build", "wheel", "install", "load", "options", "schema", "promises", "pages", "tests"]


LIMIT_S = 280.0


def check(folder: Path, *options: str, limit_s: float = LIMIT_S) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "gateway_core.cli", "plugin", "check", str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    return done.returncode, done.stdout, done.stderr


def passes(folder: Path, *options: str, limit_s: float = LIMIT_S) -> dict[str, Any]:
    """The document of a check that must pass."""
    code, out, err = check(folder, "--json", *options, limit_s=limit_s)
    document: dict[str, Any] = json.loads(out)
    assert (code, err, [s for s in document["steps"] if s["failures"]]) == (0, "", [])
    assert [step["name"] for step in document["steps"]] == STEPS
    return document


def written(kind: Kind, tmp_path: Path) -> Path:
    return write(kind, f"my-{kind}", tmp_path / "package")


@pytest.mark.area(name="plugin_packages")
@pytest.mark.spec("PD-02", "PD-03")
def test_a_new_sink_passes(tmp_path: Path) -> None:
    folder = written(Kind.sink, tmp_path)
    before = set(folder.rglob("*"))
    document = passes(folder, "--offline")
    assert document["clean"] is False
    (sink,) = document["components"]
    assert (sink["kind"], sink["name"], sink["guarantees"]["workers"]) == ("sink", "my-sink", "all")
    warnings = [text for step in document["steps"] for text in step["warnings"]]
    assert warnings == ["it has no license: nobody may use it"]
    assert set(folder.rglob("*")) == before, "the check left files behind"


@pytest.mark.spec("PD-02")
@pytest.mark.full
@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.sink])
def test_every_other_kind_passes(tmp_path: Path, kind: Kind) -> None:
    passes(written(kind, tmp_path), "--offline")


@pytest.mark.full
@pytest.mark.timeout(1000)
def test_it_passes_in_a_clean_environment(tmp_path: Path) -> None:
    """Where no index can be reached, the check says so, and uses the libraries of this environment."""
    document = passes(written(Kind.filter, tmp_path), limit_s=900)
    (install,) = [step for step in document["steps"] if step["name"] == "install"]
    assert document["clean"] == (install["warnings"] == [])


@pytest.mark.spec("PD-03")
@pytest.mark.full
def test_the_package_of_github_webhooks_passes() -> None:
    document = passes(ROOT / "contrib" / "tidegate-github", "--offline")
    assert [text for step in document["steps"] for text in step["warnings"]] == []


@pytest.mark.area(name="plugin_packages")
@pytest.mark.spec("PD-03")
def test_a_test_that_fails_and_a_wrong_config_are_shown(tmp_path: Path) -> None:
    folder = written(Kind.filter, tmp_path)
    (folder / "tests" / "test_tidegate_my_filter.py").write_text("def test_it() -> None:\n    assert 1 == 2\n")
    page = folder / "docs" / "my-filter.md"
    page.write_text(page.read_text().replace("contains: late", "contain: late"))
    code, out, err = check(folder, "--offline")
    assert (code, err) == (1, "")
    assert "failed   pages" in out
    assert "my-filter.md: triggers.late.filters" in out
    assert "FAILED tests/test_tidegate_my_filter.py::test_it" in out
    assert "no suite of gateway_testing tests the filter my-filter" in out
    assert out.splitlines()[-1] == "2 steps FAILED; 2 warnings"


@pytest.mark.spec("PD-02")
@pytest.mark.full
def test_what_is_written_is_typed(tmp_path: Path) -> None:
    roots = [write(kind, f"my-{kind}", tmp_path / kind) for kind in Kind]
    places = [str(place) for root in roots for place in (*(root / "src").iterdir(), *(root / "tests").iterdir())]
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), *places]
    env = {**os.environ, "MYPYPATH": os.pathsep.join(str(root / "src") for root in roots)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_machine_without_virtual_environments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no room for one")

    monkeypatch.setattr("venv.EnvBuilder.create", refuse)
    with pytest.raises(SystemExit) as ended:
        main(["plugin", "check", str(written(Kind.filter, tmp_path)), "--offline"])
    assert ended.value.code == 3
    out, err = capsys.readouterr()
    assert out.startswith("warning  project")
    assert err.startswith("tidegate: a virtual environment can't be made: no room for one")


def test_a_folder_without_a_package(tmp_path: Path) -> None:
    code, out, err = check(tmp_path)
    assert (code, out, err) == (2, "", f"tidegate: {tmp_path} is not a package: there is no pyproject.toml\n")
