"""`tidegate plugin new`: the packages that it writes."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from gateway_plugins.new import Kind, Names, package, write

from gateway_core import __version__
from gateway_core.contract.cli.common import CommandError

KINDS = list(Kind)


@pytest.mark.spec("PD-02")
@pytest.mark.parametrize("kind", KINDS)
def test_a_package_is_whole(kind: Kind) -> None:
    files = package(kind, "my-queue")
    names = Names("my-queue")
    assert (names.distribution, names.module, names.cls) == ("tidegate-my-queue", "tidegate_my_queue", "MyQueue")
    assert {
        "pyproject.toml",
        "README.md",
        ".gitignore",
        ".github/workflows/test.yaml",
        "docs/my-queue.md",
        "src/tidegate_my_queue/__init__.py",
        "src/tidegate_my_queue/plugin.py",
        "src/tidegate_my_queue/config.py",
        "src/tidegate_my_queue/py.typed",
        "tests/test_tidegate_my_queue.py",
    } <= files.keys()
    project = tomllib.loads(files["pyproject.toml"])["project"]
    assert project["entry-points"]["tidegate"] == {"my-queue": "tidegate_my_queue.plugin"}
    assert project["dependencies"] == [f"tidegate>={__version__}"]
    for path, text in files.items():
        assert not re.search(r"<<\w+>>", text), path
        assert max(map(len, text.splitlines()), default=0) <= 120, path
        if path.endswith(".py"):
            ast.parse(text)


@pytest.mark.parametrize("kind", KINDS)
def test_a_package_imports_public_names_only(kind: Kind) -> None:
    """Nothing with a leading underscore, and from plugins only what the pages name."""
    public = (
        *("gateway_core.contract", "gateway_testing", "gateway_transport", "gateway_cloudevents.event_json"),
        "gateway_access",
    )
    for path, text in package(kind, "my-queue").items():
        for node in ast.walk(ast.parse(text)) if path.endswith(".py") else ():
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gateway_"):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                assert all(name.startswith(public) and "._" not in name for name in names), (path, names)


@pytest.mark.spec("PD-02")
@pytest.mark.usefixtures("processes")
def test_their_tests_pass(tmp_path: Path) -> None:
    """All in one process, where they need not be installed; `tidegate plugin check` does each as a user does."""
    sources = []
    for kind in KINDS:
        root = write(kind, f"my-{kind}", tmp_path / kind)
        facts = root / "src" / f"{root.name}-1.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tidegate-my-{kind}\nVersion: 1.0\n")
        points = tomllib.loads((root / "pyproject.toml").read_text())["project"]["entry-points"]["tidegate"]
        lines = [f"{name} = {module}" for name, module in points.items()]
        (facts / "entry_points.txt").write_text("\n".join(["[tidegate]", *lines, ""]))
        sources.append(str(root / "src"))
    tests = [str(tmp_path / kind / "tests") for kind in KINDS]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--import-mode=importlib", "-p", "no:cacheprovider", *tests],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sources)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\d\d+ passed in", done.stdout, re.MULTILINE), done.stdout


def test_it_is_written_into_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    root = write(Kind.filter, "loud", None)
    assert root == Path("tidegate-loud")
    assert {str(f.relative_to(root)) for f in root.rglob("*") if f.is_file()} == package(Kind.filter, "loud").keys()
    with pytest.raises(CommandError, match="not an empty folder"):
        write(Kind.filter, "loud", None)
    (tmp_path / "file").touch()
    with pytest.raises(CommandError, match="not an empty folder"):
        write(Kind.filter, "loud", tmp_path / "file")


@pytest.mark.parametrize("name", ["", "Loud", "1st", "a_b", "a--b", "-a", "a-", "a/b", "../x", "a.b", "ä"])
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(CommandError, match="is not a name"):
        package(Kind.filter, name)


def test_the_name_of_an_installed_plugin_is_refused() -> None:
    with pytest.raises(CommandError, match="there is a plugin 'kafka' already, of tidegate"):
        package(Kind.filter, "kafka")
