"""The wheel that a release is: what is in it, and that it works where nothing of this tree is."""

from __future__ import annotations

import email
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.tree import CORE, DEV, module_path

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.area(name="packaging"), pytest.mark.usefixtures("processes")]


def run(*command: object, cwd: Path) -> str:
    """Standard output of a command, which must succeed. Nothing of this environment leads it to the tree."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV", "TIDEGATE_"))}
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By distribution."""
    folder = tmp_path_factory.mktemp("dist")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-index"]
    run(*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT, DEV, cwd=folder)
    return {wheel.name.partition("-")[0]: wheel for wheel in folder.glob("*.whl")}


@pytest.fixture(scope="module")
def wheel(wheels: dict[str, Path]) -> Path:
    return wheels["tidegate"]


@pytest.mark.parametrize("name", ["tidegate", "tidegate_dev"])
def test_a_wheel_has_every_module_and_nothing_else(name: str, wheels: dict[str, Path]) -> None:
    tops = [CORE, ROOT / "plugins"] if name == "tidegate" else [DEV]
    tree = {str(module_path(f)) for top in tops for f in top.rglob("*.py")}
    with zipfile.ZipFile(wheels[name]) as archive:
        names = set(archive.namelist())
    assert {n for n in names if n.endswith(".py")} == tree
    assert ("gateway_core/py.typed" if name == "tidegate" else "gateway_demo/demo.yaml") in names
    folders = {n.split("/")[0] for n in names}
    assert all(folder.startswith(("gateway_", "tidegate")) for folder in folders), folders
    assert not [n for n in names if "__pycache__" in n]


def test_the_wheel_says_what_it_is_and_needs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(name))
        assert [n for n in archive.namelist() if n.endswith("licenses/LICENSE")]
    version = str(metadata["Version"])
    sections = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert sections[0] == version, "the first section of CHANGELOG.md is not of the version in pyproject.toml"
    without_extras = [
        r for r in map(Requirement, metadata.get_all("Requires-Dist") or []) if "extra" not in str(r.marker)
    ]
    assert {r.name for r in without_extras} >= {"msgspec", "pluggy", "pydantic"}
    assert not {r.name for r in without_extras} & {"aiokafka", "pyspark", "pytest"}


@pytest.mark.full
@pytest.mark.timeout(600)  # it downloads some twenty packages
def test_the_wheels_work_in_a_clean_environment(wheels: dict[str, Path], tmp_path: Path) -> None:
    """With its own dependencies only, in the versions of the lock: no extra, no test library, nothing of the tree."""
    lock = (ROOT / "requirements" / "dev.txt").read_text()
    (tmp_path / "versions.txt").write_text("\n".join(re.findall(r"^[\w.-]+==[^\s\\;]+", lock, re.MULTILINE)))
    run(sys.executable, "-m", "venv", "env", cwd=tmp_path)
    binaries = tmp_path / "env" / "bin"
    pip = [binaries / "python", "-m", "pip", "--disable-pip-version-check", "--no-input"]
    run(*pip, "install", "--quiet", "--constraint", "versions.txt", wheels["tidegate"], cwd=tmp_path)
    run(*pip, "check", cwd=tmp_path)
    installed = {package["name"] for package in json.loads(run(*pip, "list", "--format", "json", cwd=tmp_path))}
    assert "tidegate" in installed
    assert not installed & {"aiokafka", "pyspark", "pytest"}
    tidegate = binaries / "tidegate"
    version = wheels["tidegate"].name.split("-")[1]
    assert run(tidegate, "version", cwd=tmp_path).split() == ["tidegate", version, "(pure)"]
    assert "kafka" in run(tidegate, "plugins", cwd=tmp_path)
    (tmp_path / "tidegate.yaml").write_text((ROOT / "README.md").read_text().split("```yaml\n")[1].split("```")[0])
    scenarios = ROOT / "configs" / "first-pipeline.scenario.yaml"
    (tmp_path / "tidegate.scenario.yaml").write_text(scenarios.read_text())
    run(tidegate, "check", "tidegate.yaml", cwd=tmp_path)
    run(*pip, "install", "--quiet", "--no-deps", wheels["tidegate_dev"], cwd=tmp_path)
    assert json.loads(run(tidegate, "test", "tidegate.yaml", "--json", cwd=tmp_path))["failed"] == 0
