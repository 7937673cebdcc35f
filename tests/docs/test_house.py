"""The shape of the tree: what is where, and which way imports go."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.tree import DEV, PLUGINS, SHIPPED

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
TOOLS: dict[str, Any] = tomllib.loads((DEV / "pyproject.toml").read_text())


@pytest.mark.spec("CARD-07")
def test_the_top_level_is_what_was_asked_for() -> None:
    folders = ("gateway_core", "plugins", "configs", "tests", "docs", "contrib")
    pages = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
    files = ("pyproject.toml", "Containerfile", "Makefile", "LICENSE", *pages)
    assert [f for f in folders if not (ROOT / f).is_dir()] == []
    assert [f for f in files if not (ROOT / f).is_file()] == []


def test_every_plugin_folder_is_an_entry_point_of_its_name_and_in_the_wheel() -> None:
    for project, packages in ((PROJECT, SHIPPED), (TOOLS, {n: f for n, f in PLUGINS.items() if n not in SHIPPED})):
        folders = {name for name, folder in packages.items() if (folder / "plugin.py").is_file()}
        points = project["project"]["entry-points"]["tidegate"]
        assert {f"gateway_{name}" for name in points} == folders
        assert all(value == f"gateway_{name}.plugin" for name, value in points.items())
        inside = set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
        top, more = (DEV, set[str]()) if project is TOOLS else (ROOT, {"gateway_core", "plugins/lib/tidegate"})
        assert inside == more | {folder.relative_to(top).as_posix() for folder in packages.values()}


def test_what_is_for_development_is_of_the_same_version_and_in_no_production_image() -> None:
    version = PROJECT["project"]["version"]
    assert TOOLS["project"]["version"] == version
    assert TOOLS["project"]["dependencies"] == [f"tidegate=={version}"]
    extras = PROJECT["project"]["optional-dependencies"]
    assert (extras["dev"], extras["demo"]) == ([f"tidegate-dev=={version}"], [f"tidegate-dev[demo]=={version}"])
    lines = (ROOT / "Containerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("COPY") and "dev" in line.split()] == []


def test_every_fragment_of_the_changelog_has_a_kind() -> None:
    kinds = "|".join(kind["directory"] for kind in PROJECT["tool"]["towncrier"]["type"])
    files = {file.name for file in (ROOT / "changes").iterdir()} - {"README.md"}
    assert {name for name in files if not re.fullmatch(rf"\+[a-z0-9-]+\.({kinds})\.md", name)} == set()


@pytest.mark.slow
def test_the_config_and_the_contract_import_no_plugin() -> None:
    plugins = PLUGINS.keys()
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
    extras = [PROJECT["project"]["optional-dependencies"], TOOLS["project"]["optional-dependencies"]]
    named += [d for each in extras for extra in each.values() for d in extra]
    versions = dict(line.split(" ")[0].split("==") for line in pinned)
    for wanted in map(Requirement, named):
        if wanted.name not in ("tidegate", "tidegate-dev"):
            locked = versions.get(wanted.name.replace(".", "-"), "nothing")
            assert locked in wanted.specifier, f"{wanted} is wanted, {locked} is locked: run make lock"
