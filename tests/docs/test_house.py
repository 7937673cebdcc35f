"""The shape of the tree: what is where, and which way imports go."""

from __future__ import annotations

import ast
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.mark.spec("CARD-07")
def test_the_top_level_is_what_was_asked_for() -> None:
    folders = ("gateway_core", "plugins", "configs", "tests", "docs", "contrib")
    pages = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
    files = ("pyproject.toml", "Containerfile", "Makefile", "LICENSE", *pages)
    assert [f for f in folders if not (ROOT / f).is_dir()] == []
    assert [f for f in files if not (ROOT / f).is_file()] == []


def test_every_plugin_folder_is_an_entry_point_of_its_name_and_in_the_wheel() -> None:
    folders = {f.name for f in (ROOT / "plugins").glob("gateway_*") if (f / "plugin.py").is_file()}
    points = PROJECT["project"]["entry-points"]["tidegate"]
    assert {f"gateway_{name}" for name in points} == folders
    assert all(value == f"gateway_{name}.plugin" for name, value in points.items())
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    everything = {f.parent.name for f in (ROOT / "plugins").glob("gateway_*/__init__.py")}
    assert set(packages) == {"gateway_core", "plugins/tidegate", *(f"plugins/{f}" for f in everything)}


@pytest.mark.slow
def test_the_config_and_the_contract_import_no_plugin() -> None:
    plugins = {f.name for f in (ROOT / "plugins").iterdir() if f.is_dir()}
    found = []
    for file in [f for part in ("config", "contract") for f in (ROOT / "gateway_core" / part).rglob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            found += [f"{file.name}: {name}" for name in names if name.partition(".")[0] in plugins]
    assert found == []


@pytest.mark.usefixtures("processes")
def test_make_help_lists_every_target() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True)
    for target in (
        "demo",
        "test",
        "test-areas",
        "test-cost",
        "test-all",
        "quick",
        "oldest",
        "check",
        "conformance",
        "bench",
        "docs",
        "screenshots",
        "notebook",
        "lock",
    ):
        assert f"make {target} " in done.stdout


def test_the_lock_has_hashes_and_no_index() -> None:
    lock = (ROOT / "requirements" / "dev.txt").read_text()
    pinned = [line for line in lock.splitlines() if line[:1].isalnum()]
    assert len(pinned) > 50
    assert all("==" in line and line.endswith("\\") for line in pinned)
    assert "--hash=sha256:" in lock
    assert "://" not in lock
    named = [*PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"]["dev"]]
    named += [d for extra in PROJECT["project"]["optional-dependencies"].values() for d in extra]
    versions = dict(line.split(" ")[0].split("==") for line in pinned)
    for wanted in map(Requirement, named):
        if wanted.name != "tidegate":
            locked = versions.get(wanted.name.replace(".", "-"), "nothing")
            assert locked in wanted.specifier, f"{wanted} is wanted, {locked} is locked: run make lock"
