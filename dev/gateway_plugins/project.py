"""A plugin's package as its `pyproject.toml` describes it."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway_core.contract.cli.common import CommandError
from gateway_core.contract.hookspecs import GROUP

from .steps import Step


@dataclass(frozen=True)
class Project:
    """`points` are its entry points for Tidegate, `pages` the files that describe it, `needs` what its tests need."""

    folder: Path
    name: str
    table: dict[str, Any]
    backend: str
    points: dict[str, str]
    pages: list[Path]
    needs: list[str]

    @property
    def pytest_file(self) -> Path:
        """The file of its settings of pytest. pytest would look in the folders above, too."""
        files = [self.folder / name for name in ("pytest.ini", ".pytest.ini", "pyproject.toml")]
        return next(file for file in files if file.is_file())

    @property
    def tests(self) -> list[Path]:
        """The files of its tests."""
        return sorted({*self.folder.glob("tests/**/test_*.py"), *self.folder.glob("test_*.py")})


def read(folder: Path) -> Project | None:
    """The package in a folder; None if there is none. Raises `CommandError` if its file can't be read."""
    file = folder / "pyproject.toml"
    if not file.is_file():
        return None
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise CommandError(f"{file}: {e}") from e
    table = _table(document, "project")
    groups = _table(document, "dependency-groups")
    return Project(
        folder,
        str(table.get("name", "")),
        table,
        str(_table(document, "build-system").get("build-backend", "setuptools.build_meta:__legacy__")),
        {str(k): str(v) for k, v in _table(_table(table, "entry-points"), GROUP).items()},
        [f for f in [folder / "README.md", *sorted(folder.glob("docs/**/*.md"))] if f.is_file()],
        [need for name in ("dev", "test", "tests") for need in groups.get(name, []) if isinstance(need, str)],
    )


def _table(document: dict[str, Any], name: str) -> dict[str, Any]:
    found = document.get(name, {})
    return found if isinstance(found, dict) else {}


def normal(name: str) -> str:
    """A distribution's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def look_at(project: Project) -> Step:
    """The step `project`: what people and tools read before they install it."""
    step = Step("project", f"{project.name or 'no name'} {project.table.get('version', '')}".strip())
    table = project.table
    if not project.name:
        step.failures.append("pyproject.toml has no project.name")
    if not project.points:
        step.failures.append(f"pyproject.toml has no entry point in [project.entry-points.{GROUP}]: nobody finds it")
    needs = [normal(re.split(r"[^\w.-]", str(need), maxsplit=1)[0]) for need in table.get("dependencies", [])]
    if "tidegate" not in needs:
        step.failures.append("its dependencies do not name tidegate")
    if not table.get("description"):
        step.warnings.append("it has no description: one sentence for the index")
    if not table.get("requires-python"):
        step.warnings.append("it does not say requires-python; Tidegate needs 3.11 or newer")
    if "license" not in table and not any(project.folder.glob("LICEN[CS]E*")):
        step.warnings.append("it has no license: nobody may use it")
    return step
